"""A home in PostgreSQL. What is about this machine stays in a folder: layers, which are Markdown files of the user,
what hooks gave to sessions, and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from errno import EIO
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from languages import N_, _, counted
from memory_server.conversations.model import conversation_id_of
from memory_server.kernel.erasure import Traces
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.meter import Meter
from memory_server.kernel.text import Finding, Grade
from memory_server.storage.backups.files import BackupFolder
from memory_server.storage.data_dir import Home
from memory_server.storage.options import PostgresSettings, StoreParameters
from memory_server.storage.postgres.connection import Attempt, Connection, Database
from memory_server.storage.postgres.conversations import PostgresStore, unusable_records
from memory_server.storage.postgres.entry_rows import ERASE_OWN
from memory_server.storage.postgres.log import COUNT, ERASE, PARTITIONS_WITHOUT_A_COMMIT, TENANTS
from memory_server.storage.postgres.recall_rows import ErasedRows, Lease, PauseRow, RecallRows

if TYPE_CHECKING:
    from memory_server.conversations.ports import RecallLog, RepairPlan
    from memory_server.kernel.erasure import Erasure
    from memory_server.kernel.lifecycle import BlockingExamine
    from memory_server.knowledge.ports import EntryStore

_QUICK_SECONDS = 2.0
_KEPT = N_(
    "PostgreSQL keeps bytes of the text that no query shows: in its write-ahead log and the archive "
    "of that log, and in free pages and indexes until VACUUM FULL. Dumps also contain it, and so do "
    "server logs that record statements."
)
_PG_DUMP = N_(
    "Back it up with `pg_dump --schema=memory_server`, and bring it back with `pg_restore`."
)


class PostgresHome(Home):
    """The memories of `tenant` ("" without tenants) in `database`, which several homes share; the first home, made by
    `open_database`, closes it."""

    on_several_machines = True
    without_backups = _PG_DUMP

    def __init__(
        self,
        place: Path,
        clock: Callable[[], int],
        parameters: StoreParameters | None,
        meter: Meter | None,
        database: Database,
        tenant: str,
        *,
        owns: bool = True,
    ) -> None:
        """Make the stores of `tenant`, in place of those of the folder `place`. The database is not
        asked yet. `owns`: this home closes `database`."""
        super().__init__(place, clock, parameters, meter)
        self.database = database
        self.tenant_name = tenant
        self._owns = owns
        self.conversations = PostgresStore(
            database, tenant, clock=clock, parameters=parameters, meter=meter
        )
        self.ledger = Lease(database, tenant)
        self.pause = PauseRow(database, tenant)
        self.recalls: RecallLog = RecallRows(database, tenant)

    def migrate(self, *, dry_run: bool = False) -> list[int]:
        return self.database.migrate(dry_run=dry_run)

    def refuse_newer(self, conversation_id: str) -> None:
        """Do nothing: a newer database is refused as a whole."""

    def place_of(self, conversation_id: str) -> str:
        return self.shown

    @property
    def shown(self) -> str:
        return f"{self.database.shown}#{self.tenant_name}".removesuffix("#")

    @cached_property
    def backups(self) -> BackupFolder:
        return _DatabaseBackups(super().backups.folder)

    @cached_property
    def erased(self) -> ErasedRows:
        return ErasedRows(self.database, self.tenant_name)

    def entries(self, *, durability: str, cache_mb: int, embeds: str = "") -> EntryStore:
        """Return the store of the tenant's knowledge; `embeds` is the model of its vectors.
        `durability` and `cache_mb` are of SQLite and do not count here. The database is not asked
        yet."""
        from memory_server.storage.postgres.entries import PostgresEntries

        return PostgresEntries(
            self.clock,
            self.database,
            self.tenant_name,
            wait_seconds=self._parameters.wait_seconds,
            keep_ms=self._parameters.keep_ms,
            read_only=self._parameters.read_only,
            embeds=embeds,
            meter=self._meter,
            erased=self.erased.holds,
        )

    def traces(self, erasure: Erasure, *further_places: Path) -> Traces:
        return self.erased.holding(erasure) + super().traces(erasure, *further_places)

    def tenants_with(self, erasure: Erasure) -> list[str]:
        in_tables = [
            name
            for name in self.tenant_names()
            if ErasedRows(self.database, name).holding(erasure).texts
        ]
        return sorted({*in_tables, *super().tenants_with(erasure)})

    @property
    def not_ours(self) -> str:
        return _(_KEPT)

    # --- tenants, which are a column -------------------------------------------------------------------

    def settings_of(self, tenant: str) -> Mapping[str, Any]:
        return {**super().settings_of(tenant), "store": f"{self.database.url}#{tenant}"}

    def tenants(self) -> list[Mapping[str, Any]]:
        return list(map(self.settings_of, self.tenant_names()))

    def tenant_names(self, candidates: Iterable[str] = ()) -> list[str]:
        if self.tenant_name:
            return []
        return [name for (name,) in self._rows(TENANTS)]

    @property
    def is_of_a_tenant(self) -> bool:
        return bool(self.tenant_name)

    def has_tenant(self, name: str) -> bool:
        return conversation_id_of(name, "tenant") in self.tenant_names()

    def erase_tenant(self, name: str) -> None:
        """Delete all that the database and the folder keep for a tenant. Raises StorageError: something may be left."""

        def erase(attempt: Attempt) -> None:
            with attempt.connection.transaction():
                for statement in (*ERASE, *ERASE_OWN):
                    attempt.connection.execute(
                        statement, {"tenant": conversation_id_of(name, "tenant")}
                    )

        self.database.work(erase)
        super().erase_tenant(name)

    # --- examining -------------------------------------------------------------------------------------

    def size(self) -> int:
        [(count,)] = self._rows(COUNT, tenant=self.tenant_name)
        return int(count) + super().size()

    def refuse_without_room(self) -> None:
        """Raise OSError if the database does not answer."""
        try:
            self._rows("select 1")
        except StorageError as error:
            raise OSError(EIO, str(error)) from error

    def examine(self) -> list[Finding]:
        try:
            return self.database.work(self._findings)
        except StorageError as error:
            return [_finding("error", str(error))]

    def _findings(self, attempt: Attempt) -> list[Finding]:
        """Return the findings about the server, about this tenant's memories in it, and how to back them up."""
        connection = attempt.connection
        version = _setting(connection, "server_version")
        findings = [_finding("ok", _("{place}, PostgreSQL {version}", self.shown, version))]
        findings += _risks_of_loss(connection)
        pause = self.pause.read(self.clock())
        if pause is not None:
            sentence = _(
                "Memory is {value}: nothing is stored, and hooks do not recall.", pause.text(None)
            )
            findings.append(_finding("note", sentence))

        partitions = connection.execute(PARTITIONS_WITHOUT_A_COMMIT, {"tenant": self.tenant_name})
        for conversation_id, kind in partitions:
            sentence = _(
                "Commits of {name} ({kind}) are missing; restore a dump of the database.",
                conversation_id,
                kind,
            )
            findings.append(_finding("error", sentence))

        for conversation_id, unusable in unusable_records(connection, self.tenant_name):
            sentence = _(
                "{records} of {conversation} cannot be used: {reason}; the others are used, these are kept.",
                counted(len(unusable), "record"),
                conversation_id,
                unusable[0].reason,
            )
            findings.append(_finding("warning", sentence))

        findings.append(_finding("note", _(_PG_DUMP)))
        return findings

    def examinations(self) -> list[BlockingExamine]:
        return []

    def repairs(
        self, conversation_id: str | None = None, *, dry_run: bool = False
    ) -> list[Callable[[], RepairPlan | None]]:
        """Return no repairs: nothing can be mended here."""
        return []

    def _rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        def look(attempt: Attempt) -> list[tuple[Any, ...]]:
            return attempt.connection.execute(query, parameters).fetchall()

        return self.database.work(look, seconds=_QUICK_SECONDS)

    def close(self) -> None:
        if self._owns:
            self.database.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)


def _finding(grade: Grade, sentence: str) -> Finding:
    """Make a finding about the database."""
    return Finding(grade, _("database"), sentence)


def _risks_of_loss(connection: Connection) -> list[Finding]:
    """Return the findings about settings of the server with which a crash or a failover loses acknowledged commits."""
    findings: list[Finding] = []
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        if _setting(connection, name) == "off":
            sentence = _(
                "`{name}` is off: acknowledged writes may be lost when the server crashes; set it to on.",
                name,
            )
            findings.append(_finding("warning", sentence))
    # Without the name of a standby, no commit waits for a replica.
    [(standby_count,)] = connection.execute("select count(*) from pg_stat_replication").fetchall()
    if standby_count and not _setting(connection, "synchronous_standby_names"):
        sentence = _(
            "Replication is asynchronous: a failover loses the last acknowledged writes, unless "
            "`synchronous_standby_names` names a standby."
        )
        findings.append(_finding("note", sentence))
    return findings


def _setting(connection: Connection, name: str) -> str:
    """Read a setting of the server."""
    [(value,)] = connection.execute(f"show {name}").fetchall()
    return str(value)


class _DatabaseBackups(BackupFolder):
    """Backups of a database are made by its own means."""

    def listed(self) -> list[Any]:
        return []

    def _refuse(self, *_positional: Any, **_keywords: Any) -> NoReturn:
        raise InvalidInput("These memories are in PostgreSQL. {how}", _(_PG_DUMP))

    must_be_possible = begin = open = rewrite = try_hold = delete = _refuse


def _without_last_slash(url: str) -> str:
    """Return the URL of a database without the slash after its name, which libpq takes for a part of the name."""
    address, question_mark, options = url.partition("?")
    scheme, separator, rest = address.partition("://")
    host, slash, name = rest.partition("/")
    return "".join((scheme, separator, host, slash, name.rstrip("/"), question_mark, options))


def open_database(
    url: str,
    local_folder: Path,
    clock: Callable[[], int],
    parameters: StoreParameters | None,
    meter: Meter | None,
    options: PostgresSettings | None,
    beside: Home | None,
) -> PostgresHome:
    """Return the home at `url`, which may end with `#TENANT`, with its files in `local_folder`. It shares the
    database of `beside`, if that is the same. Connects to nothing."""
    url, _hash, tenant = url.partition("#")
    if "@" in tenant and "/" not in url.partition("://")[2]:
        url = "#"  # it is cut at the # of a password

    url = _without_last_slash(url)
    if tenant:
        conversation_id_of(tenant, "tenant")

    if isinstance(beside, PostgresHome) and beside.database.url == url:
        return PostgresHome(
            local_folder,
            clock,
            parameters=parameters,
            meter=meter,
            database=beside.database,
            tenant=tenant,
            owns=False,
        )

    wait_seconds = (parameters or StoreParameters()).wait_seconds
    database = Database(url, wait_seconds, options)
    return PostgresHome(
        local_folder, clock, parameters=parameters, meter=meter, database=database, tenant=tenant
    )

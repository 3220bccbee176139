"""A home in PostgreSQL. What is about this machine stays in a folder: layers, which are Markdown files of the user,
what hooks gave to sessions, and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from errno import EIO
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from memory_server.kernel.erasure import Traces
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.meter import Meter
from memory_server.kernel.text import Finding, Grade
from memory_server.storage.backups.files import BackupFolder
from memory_server.storage.data_dir import Home
from memory_server.storage.options import PostgresSettings, StoreParameters
from memory_server.storage.postgres.connection import Attempt, Connection, Database
from memory_server.storage.postgres.conversations import PostgresStore
from memory_server.storage.postgres.entry_rows import ERASE_OWN
from memory_server.storage.postgres.ledger import Lease, PauseRow
from memory_server.storage.postgres.log import COUNT, ERASE, TENANTS, UNWHOLE
from memory_server.storage.postgres.recall_rows import ErasedRows, RecallRows
from memory_server.storage.token_file import named
from sandbox.locale import _

if TYPE_CHECKING:
    from memory_server.kernel.erasure import Erasure
    from memory_server.kernel.recalls import RecallLog
    from memory_server.knowledge.ports import EntryStore
    from memory_server.storage.json_store.repair import RepairPlan

_QUICK_SECONDS = 2.0
_KEPT = _(
    "PostgreSQL keeps bytes of it that no query shows: in its write-ahead log and the archive of that, and in free "
    "pages and indexes until VACUUM FULL. Dumps have it, and so have logs of the server that hold statements."
)
_PG_DUMP = _("Back it up with `pg_dump --schema=memory_server`, and bring it back with `pg_restore`.")


class PostgresHome(Home):
    """The memories of `tenant` ("": nobody's in particular) in `database`, which several homes share; the first one,
    made by `open_database`, closes it."""

    on_several_machines = True
    without_backups = _PG_DUMP

    def __init__(
        self,
        place: Path,
        clock: Callable[[], int],
        parameters: StoreParameters | None,
        meter: Meter | None,
        database: Database,
        tenant: str = "",
        *,
        owns: bool = True,
    ) -> None:
        super().__init__(place, clock, parameters, meter)
        self.database, self.tenant_name, self._owns = database, tenant, owns
        self.conversations = PostgresStore(database, tenant, clock, parameters, meter)
        self.ledger = Lease(database, tenant)
        self.pause = PauseRow(database, tenant)
        self.recalls: RecallLog = RecallRows(database, tenant)

    def migrate(self, *, dry_run: bool = False) -> list[int]:
        return self.database.migrate(dry_run=dry_run)

    def refuse_newer(self, conversation_id: str) -> None:
        """A newer database is refused as a whole."""

    def place_of(self, conversation_id: str) -> str:
        return self.shown

    @property
    def shown(self) -> str:
        return f"{self.database.shown}#{self.tenant_name}".removesuffix("#")

    @cached_property
    def backups(self) -> BackupFolder:
        return _Dumped(super().backups.folder)

    @cached_property
    def erased(self) -> ErasedRows:
        return ErasedRows(self.database, self.tenant_name)

    def entries(self, *, durability: str, cache_mb: int, embeds: str = "") -> EntryStore:
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

    def traces(self, erasure: Erasure, *others: Path) -> Traces:
        return self.erased.holding(erasure) + super().traces(erasure, *others)

    def tenants_with(self, erasure: Erasure) -> list[str]:
        in_tables = [name for name in self.tenant_names() if ErasedRows(self.database, name).holding(erasure).texts]
        return sorted({*in_tables, *super().tenants_with(erasure)})

    @property
    def not_ours(self) -> str:
        return _KEPT

    # --- tenants, which are a column -------------------------------------------------------------------

    def settings_of(self, tenant: str) -> Mapping[str, Any]:
        return {**super().settings_of(tenant), "store": f"{self.database.url}#{tenant}"}

    def tenants(self) -> list[Mapping[str, Any]]:
        return list(map(self.settings_of, self.tenant_names()))

    def tenant_names(self, candidates: Iterable[str] = ()) -> list[str]:
        return [] if self.tenant_name else [name for (name,) in self._rows(TENANTS)]

    @property
    def is_of_a_tenant(self) -> bool:
        return bool(self.tenant_name)

    def has_tenant(self, name: str) -> bool:
        return named(name, "tenant") in self.tenant_names()

    def erase_tenant(self, name: str) -> None:
        def erase(attempt: Attempt) -> None:
            with attempt.connection.transaction():
                for statement in (*ERASE, *ERASE_OWN):
                    attempt.connection.execute(statement, {"tenant": named(name, "tenant")})

        self.database.work(erase)
        super().erase_tenant(name)

    # --- examining -------------------------------------------------------------------------------------

    def size(self) -> int:
        [(count,)] = self._rows(COUNT, tenant=self.tenant_name)
        return int(count) + super().size()

    def refuse_without_room(self) -> None:
        """Raises OSError: the database does not answer."""
        try:
            self._rows("select 1")
        except StorageError as error:
            raise OSError(EIO, str(error)) from error

    def examine(self) -> list[Finding]:
        try:
            return [Finding(grade, _("database"), what) for grade, what in self.database.work(self._found)]
        except StorageError as error:
            return [Finding("error", _("database"), str(error))]

    def _found(self, attempt: Attempt) -> list[tuple[Grade, str]]:
        return list(self._look(attempt.connection))

    def _look(self, connection: Connection) -> Iterator[tuple[Grade, str]]:
        names = ("server_version", "fsync", "synchronous_commit", "synchronous_standby_names", "full_page_writes")
        given = {name: connection.execute(f"show {name}").fetchall()[0][0] for name in names}
        yield "ok", _("{place}, PostgreSQL {version}", self.shown, given["server_version"])
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            if given[name] == "off":
                yield (
                    "warning",
                    _("`{name}` is off: what is acknowledged may be lost when the server crashes; set it to on.", name),
                )
        copies = connection.execute("select count(*) from pg_stat_replication").fetchall()[0][0]
        if copies and not given["synchronous_standby_names"]:
            yield (
                "note",
                _(
                    "Its copies follow later: a failover loses what was acknowledged last, unless "
                    "`synchronous_standby_names` names one."
                ),
            )
        if pause := self.pause.read(self.clock()):
            yield "note", _("It is {value}: nothing that is said is kept, and no hook recalls.", pause.text(None))
        for name, kind in connection.execute(UNWHOLE, {"tenant": self.tenant_name}):
            yield "error", _("Commits of {name} ({kind}) are missing; restore a dump of the database.", name, kind)
        yield "note", _PG_DUMP

    def examinations(self) -> list[Callable[[], list[Finding]]]:
        return []

    def repairs(self, wanted: str | None = None, *, dry_run: bool = False) -> list[Callable[[], RepairPlan | None]]:
        """There is nothing that could be mended here."""
        return []

    def _rows(self, query: str, **given: Any) -> list[tuple[Any, ...]]:
        def look(attempt: Attempt) -> list[tuple[Any, ...]]:
            return attempt.connection.execute(query, given).fetchall()

        return self.database.work(look, seconds=_QUICK_SECONDS)

    def close(self) -> None:
        if self._owns:
            self.database.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)


class _Dumped(BackupFolder):
    """Backups of a database are made by its own means."""

    def listed(self) -> list[Any]:
        return []

    def _refuse(self, *_given: Any, **_more: Any) -> NoReturn:
        raise InvalidInput("These memories are in PostgreSQL. {how}", _PG_DUMP)

    begin = open = rewrite = try_hold = delete = _refuse


def open_database(
    url: str,
    place: Path,
    clock: Callable[[], int],
    parameters: StoreParameters | None,
    meter: Meter | None,
    options: PostgresSettings | None,
    beside: Home | None,
) -> PostgresHome:
    """The home at `url`, which may end with `#TENANT`, with its files in `place`. It shares the database of `beside`,
    if that is the same. Connects to nothing."""
    url, _hash, tenant = url.partition("#")
    if "@" in tenant and "/" not in url.partition("://")[2]:
        url = "#"  # it is cut at the # of a password
    if tenant:
        named(tenant, "tenant")
    shared = beside.database if isinstance(beside, PostgresHome) and beside.database.url == url else None
    wait_seconds = (parameters or StoreParameters()).wait_seconds
    database = Database(url, wait_seconds, options) if shared is None else shared
    return PostgresHome(place, clock, parameters, meter, database, tenant, owns=shared is None)

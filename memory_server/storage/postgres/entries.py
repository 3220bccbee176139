"""An `EntryStore` in PostgreSQL, which several nodes use at once.

A writer of the knowledge of a tenant holds the row of that tenant in `stores`, as one process writes to a file of
SQLite. A reading transaction sees a single moment and waits for no other transaction."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson
from psycopg import errors

from languages import Sentence, _, n_
from memory_server.conversations.archive import KEEP_MS
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import StorageError
from memory_server.kernel.items import Scope
from memory_server.kernel.text import Finding
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import FIELDS, LISTS, Operation, wrong_field
from memory_server.knowledge.ports import Later
from memory_server.storage.entries import examination, schema, sqlite_store, store
from memory_server.storage.entries.rows import values_of
from memory_server.storage.entries.schema import KEPT, NUMBERED, Connection, damaged
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.storage.entries.store import DatabaseStore, copy_name, name_taken
from memory_server.storage.postgres.connection import Attempt, Database
from memory_server.storage.postgres.entry_rows import OwnRows, folded, with_nul

log = logging.getLogger(__name__)
# --- copies ------------------------------------------------------------------------------------------------------

# The knowledge of a tenant as a database of SQLite, and back: for backups, for what is about to be replaced, and for
# `memory-server copy`.

_NAME = re.compile("[a-z_]{1,40}")
_ROWS_AT_ONCE = 1000


def fill_copy(rows: OwnRows, copy: Connection) -> None:
    """Put all knowledge of the tenant into an empty database of SQLite, with its numbers, and make
    its index."""
    rows.take_time()
    copy.execute("BEGIN")
    with copy:
        for table, order in KEPT.items():
            names = _columns(copy, table)
            selected = rows.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {order}")
            parameters = ", ".join("?" * len(names))
            copy.executemany(
                f"INSERT INTO {table} VALUES({parameters})",
                ([*map(with_nul, row)] for row in selected),
            )
        for table, last_number in zip(NUMBERED, rows.last_numbers(), strict=True):
            copy.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            copy.execute("INSERT INTO sqlite_sequence VALUES(?, ?)", (table, last_number))
        store.rebuild(copy)


def write_copy(rows: OwnRows, path: Path) -> None:
    """Write the entries into a new file of SQLite at `path`."""
    schema.make_file(path)
    with closing(schema.connect(path, "rw", 0)) as copy:
        schema.prepare(copy, path, durability="full", cache_mb=16)
        fill_copy(rows, copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def take_copy(rows: OwnRows, copy: Connection) -> None:
    """Put what a database of SQLite holds in the place of all that is there."""
    for table in reversed(KEPT):
        rows.execute(f"DELETE FROM {table}")
    scope_numbers: dict[int, int | None] = {}
    for number, space, owner in copy.execute("SELECT id, space, owner FROM scopes ORDER BY id"):
        scope_numbers[number] = rows.view(Scope(space, owner), make=True).number
    for table in KEPT:
        if table != "scopes":
            _take_table(rows, copy, table=table, scope_numbers=scope_numbers)
    for table in NUMBERED:
        last = copy.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        rows.numbers[table] = 0 if last is None else last[0]
    store.rebuild(rows)


def _take_table(
    rows: OwnRows, copy: Connection, table: str, scope_numbers: Mapping[int, int | None]
) -> None:
    """Insert the rows of a table of `copy` in order, with the numbers that the scopes have here. An
    entry with a value of a wrong type is left out. Raises sqlite3.DatabaseError if a column has a
    foreign name."""
    names = _columns(copy, table)
    columns = list(names)
    if table == "entries":
        columns.append("folded")
    parameters = ", ".join("?" * len(columns))
    insert = f"INSERT INTO {table}({', '.join(columns)}) VALUES({parameters})"
    selected = copy.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {KEPT[table]}")
    part = selected.fetchmany(_ROWS_AT_ONCE)
    while part:
        taken = [row for row in part if table != "entries" or _can_be_taken(copy, row)]
        rows.executemany(insert, [_row_of(names, row, scope_numbers) for row in taken])
        part = selected.fetchmany(_ROWS_AT_ONCE)


def _can_be_taken(copy: Connection, row: Any) -> bool:
    """Tell whether the columns of PostgreSQL, which have types, take a row of an entry: its JSON may be of any kind."""
    wrong = wrong_field(values_of(copy, [row[name] for name in FIELDS]))
    if wrong is None or wrong in (*LISTS, "metadata"):
        return True
    log.warning("entry %s is not copied: its %s is of the wrong kind", row["id"], wrong)
    return False


def _row_of(names: list[str], row: Any, scope_numbers: Mapping[int, int | None]) -> list[Any]:
    """Return the values of a row of a copy as PostgreSQL takes them."""
    values = dict(zip(names, row, strict=True))
    if "scope" in values:
        values["scope"] = scope_numbers[values["scope"]]
    if isinstance(values.get("before"), bytes):
        values["before"] = values["before"].decode()
    if "tags" in values:
        tags = orjson.loads(values["tags"])
        values["folded"] = folded(tags) if wrong_field({"tags": tags}) is None else []
    return list(values.values())


def set_aside(rows: OwnRows, now_ms: int, keep_ms: int) -> Path:
    """Keep a copy in the database, named after the present moment or the first one after it that no other copy has, and
    delete those older than `keep_ms`. Return its name."""
    rows.execute("DELETE FROM copies WHERE made_ms < ?", (now_ms - keep_ms,))
    names = {row[0] for row in rows.execute("SELECT name FROM copies").fetchall()}
    made_ms = now_ms
    while copy_name(made_ms) in names:
        made_ms += 1
    name = copy_name(made_ms)
    with closing(schema.in_memory()) as copy:
        fill_copy(rows, copy)
        rows.execute("INSERT INTO copies VALUES(?, ?, ?)", (name, now_ms, copy.serialize()))
    return Path(name)


def fill_stage(rows: OwnRows, stage: Connection, path: Path, wait_seconds: float) -> None:
    """Make an empty database equal to the copy at `path`, or for a bare name, to the copy of that
    name that was set aside. Raises StorageError if there is no such copy or it is damaged."""
    if path.parent != Path():
        sqlite_store.fill(stage, path, wait_seconds)
        return
    row = rows.execute("SELECT data FROM copies WHERE name = ?", (path.name,)).fetchone()
    if row is None:
        raise StorageError(
            Sentence("There is no copy {path} any more; nothing was changed.", path), path
        )
    stage.deserialize(row[0])


def erase_copies(rows: OwnRows, erasure: Erasure) -> None:
    """Take what is erased out of all copies that were set aside."""
    for (name,) in rows.execute("SELECT name FROM copies").fetchall():
        with closing(schema.connect(None, "rw", 0)) as copy:
            fill_stage(rows, copy, path=Path(name), wait_seconds=0)
            store.erase(copy, erasure, past=True)
            store.rebuild(copy)
            copy.execute("VACUUM")
            rows.execute("UPDATE copies SET data = ? WHERE name = ?", (copy.serialize(), name))


def _columns(copy: Connection, table: str) -> list[str]:
    """Return the columns of a table of a copy. Raise DatabaseError if a name could not stand in a statement."""
    names = [str(row["name"]) for row in copy.execute(f"PRAGMA table_info({table})")]
    if not all(
        map(_NAME.fullmatch, names)
    ):  # the copy may come from a stranger, and names become a part of statements
        raise damaged(_("a column has a foreign name"))
    return names


T = TypeVar("T")
# --- the store ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class PostgresEntries(DatabaseStore[OwnRows]):
    """The knowledge of `tenant` in `database`, which the home closes. `keep_ms`: how long copies that were set aside
    are kept, in milliseconds."""

    database: Database
    tenant: str
    _: KW_ONLY
    place: None = None
    keep_ms: int = KEEP_MS
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    """The lock of the writers of this process: one at a time takes a connection, and waits for writers of other
    nodes."""

    async def _read(self, read: Callable[[OwnRows], T]) -> T:
        """Return the result of `read` in a transaction that is rolled back; `read` may be called again."""

        def work(attempt: Attempt) -> T:
            result = read(OwnRows(attempt, self.tenant, writes=False))
            attempt.connection.execute("rollback")
            return result

        return await self.database.run(work)

    async def _write(self, write: Callable[[OwnRows], T], wait_seconds: float | None = None) -> T:
        """Return the result of `write`, which runs in a transaction under the tenant's lock, once
        more if its connection was lost. Raises StorageUnwritable if the store is read-only,
        InvalidInput if a live entry has the same key, and as `Database.work` does."""
        self._refuse_read_only()
        results: list[T] = []
        """The result of the last attempt, which may have been committed."""

        def work(attempt: Attempt) -> T:
            """Call `write` under the lock, and commit if something changed. If an earlier attempt
            was committed, return its result."""
            rows = OwnRows(attempt, self.tenant, writes=True)
            rows.lock()
            if attempt.again and rows.was_committed():
                return results[-1]

            attempt.again = False
            try:
                with attempt.connection.pipeline():  # what needs no answer goes in one journey
                    results[:] = [write(rows)]
                    if rows.changed:
                        rows.finish()
                        attempt.sent = True
                    attempt.connection.execute("commit" if rows.changed else "rollback")
            except errors.UniqueViolation as error:
                raise name_taken() from error
            return results[-1]

        async with self._writing:
            result = await self.database.run(work, seconds=wait_seconds)
        self.meter.count("knowledge", "commits")
        return result

    async def erase(self, erasure: Erasure, copy: Path | None = None) -> None:
        """Erase from the store, if it holds something, and from the copies in the database; with `copy`, only from that
        file."""

        def write(rows: OwnRows) -> None:
            rows.take_time()
            store.erase(rows, erasure)
            erase_copies(rows, erasure)

        if copy is not None:
            await asyncio.to_thread(sqlite_store.erase_copy, copy, erasure, self.wait_seconds)
        elif await self.scopes():
            await self._write(write)

    async def copy_to(self, path: Path) -> None:
        await self._read(partial(write_copy, path=path))

    async def set_aside(self) -> Path | None:
        if not await self.scopes():
            return None
        return await self._write(lambda rows: set_aside(rows, self.clock(), self.keep_ms))

    async def has_copy(self, path: Path) -> bool:
        def read(rows: OwnRows) -> bool:
            row = rows.execute("SELECT 1 FROM copies WHERE name = ?", (str(path),)).fetchone()
            return row is not None

        return await self._read(read)

    def copy_at(self, path: Path) -> SqliteStore:
        return SqliteStore(path, self.clock, read_only=True)

    async def adopt(self, path: Path) -> bool:
        """Take all that the copy at `path` holds. Return False, and change nothing, if something is
        kept here. Raises StorageError if the copy cannot be used."""

        def write(rows: OwnRows) -> bool:
            if store.scopes(rows):
                return False
            rows.take_time()
            with (
                sqlite_store.errors_named(path),
                closing(schema.connect(path, "immutable", 0)) as copy,
            ):
                schema.check(copy, path)
                take_copy(rows, copy)
            return True

        return await self._write(write)

    async def replace_by(
        self, path: Path, scope: Scope, operation: Operation, later: Later | None = None
    ) -> tuple[int, Path | None]:
        """Put what the copy at `path` holds in the place of all knowledge of the tenant. Return the
        number of the operation, and the name of the copy of the former knowledge (None if there was
        none). Raises StorageError, with nothing changed, if the copy cannot be used."""
        dated = self._dated(operation)

        def write(rows: OwnRows) -> tuple[int, Path | None]:
            """Put the new knowledge together in memory, keep a copy of the former one, and replace it.
            Return the number of the operation, and the path of that copy or None."""
            rows.take_time()
            # All is first put together in a database in memory: a copy that cannot be read changes nothing.
            with sqlite_store.errors_named(path), closing(schema.connect(None, "rw", 0)) as stage:
                fill_stage(rows, stage, path=path, wait_seconds=self.wait_seconds)
                former: Path | None = None
                if store.scopes(rows):
                    former = set_aside(rows, self.clock(), self.keep_ms)
                stage.execute("BEGIN")
                with stage:
                    schema.number_after(stage, rows.numbers["operations"])
                    number = store.complete(
                        stage,
                        rows,
                        scope=scope,
                        operation=dated,
                        later=later,
                        embeds=self.embeds,
                        former=former,
                    )
                take_copy(rows, stage)
                return number, former

        return await self._write(write)

    def _findings(self, rows: OwnRows) -> list[Finding]:
        """Return the findings about the index of words and the vectors, or the count of live entries if all is well.
        Return no finding for a store that was never written."""
        index_signature = _value(rows, "SELECT terms FROM stores")
        if index_signature is None:
            return []

        database = self.database.shown
        troubles = list(
            examination.troubles_of_entries(rows, database, index_signature, self.embeds)
        )
        if troubles:
            return [Finding(grade, _("knowledge"), text) for grade, text in troubles]

        count = _value(rows, "SELECT count(*) FROM entries WHERE archived_ms IS NULL")
        sentence = n_("{count:,} entry in {place}", "{count:,} entries in {place}", count, database)
        return [Finding("ok", _("knowledge"), sentence)]

    async def aclose(self) -> None:
        """Do nothing: the home closes the database."""


def _value(rows: OwnRows, query: str) -> Any:
    """Return the first value that a query gives, or None without a row."""
    row = rows.execute(query).fetchone()
    if row is None:
        return None
    return row[0]

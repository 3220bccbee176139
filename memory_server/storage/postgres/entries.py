"""An `EntryStore` in PostgreSQL, which several nodes use at once.

Who writes to the knowledge of a tenant holds the row of that tenant in `stores`, as one process writes to a file of
SQLite. A reading transaction is of one moment and waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from psycopg import errors

from memory_server.conversations.archive import KEEP_MS
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import StorageError
from memory_server.kernel.scopes import Scope
from memory_server.kernel.text import Finding
from memory_server.knowledge.entry import Operation
from memory_server.knowledge.ports import REPLACED, Later
from memory_server.storage.entries import operations, schema, sqlite_work
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.storage.entries.store import DatabaseStore, name_taken
from memory_server.storage.postgres import entry_copies
from memory_server.storage.postgres.connection import Attempt, Database
from memory_server.storage.postgres.entry_rows import OwnRows
from nlp.index_terms import signature
from sandbox.locale import _, counted, n_

T = TypeVar("T")
_WITHOUT_VECTOR = (
    "SELECT count(*) FROM entries e JOIN scopes s ON s.id = e.scope LEFT JOIN vectors v ON v.key = e.vector_key "
    "WHERE s.space = 'sessions' AND e.archived_ms IS NULL AND v.key IS NULL"
)


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
    """Of the writers of this process one at a time takes a connection, and waits for those of other nodes."""

    async def _read(self, read: Callable[[OwnRows], T]) -> T:
        def do(attempt: Attempt) -> T:
            done = read(OwnRows(attempt, self.tenant, writes=False))
            attempt.connection.execute("rollback")
            return done

        return await self.database.run(do)

    async def _write(self, write: Callable[[OwnRows], T], wait_seconds: float | None = None) -> T:
        done: list[T] = []

        def do(attempt: Attempt) -> T:
            rows = OwnRows(attempt, self.tenant, writes=True)
            rows.lock()
            if attempt.again and rows.was_committed():
                return done[-1]
            attempt.again = False
            try:
                with attempt.connection.pipeline():  # what needs no answer goes in one journey
                    done[:] = [write(rows)]
                    if rows.changed:
                        rows.finish()
                        attempt.sent = True
                    attempt.connection.execute("commit" if rows.changed else "rollback")
            except errors.UniqueViolation as error:
                raise name_taken() from error
            return done[-1]

        self._refuse_read_only()
        async with self._writing:
            made = await self.database.run(do, seconds=wait_seconds)
        self.meter.count("knowledge", "commits")
        return made

    async def erase(self, erasure: Erasure, copy: Path | None = None) -> None:
        def write(rows: OwnRows) -> None:
            rows.take_time()
            operations.erase(rows, erasure)
            entry_copies.erase_copies(rows, erasure)

        if copy is not None:
            await asyncio.to_thread(sqlite_work.erase_copy, copy, erasure, self.wait_seconds)
        elif await self.scopes():
            await self._write(write)

    async def copy_to(self, path: Path) -> None:
        await self._read(partial(entry_copies.write_copy, path=path))

    async def set_aside(self) -> Path | None:
        if not await self.scopes():
            return None
        return await self._write(lambda rows: entry_copies.set_aside(rows, self.clock(), self.keep_ms))

    async def has_copy(self, path: Path) -> bool:
        there = "SELECT 1 FROM copies WHERE name = ?"
        return await self._read(lambda rows: rows.execute(there, (str(path),)).fetchone() is not None)

    def copy_at(self, path: Path) -> SqliteStore:
        return SqliteStore(path, self.clock, read_only=True)

    async def adopt(self, path: Path) -> bool:
        def write(rows: OwnRows) -> bool:
            if operations.scopes(rows):
                return False
            rows.take_time()
            with sqlite_work.errors_named(path), closing(schema.connect(path, "immutable", 0)) as copy:
                schema.check(copy, path)
                entry_copies.take_copy(rows, copy)
            return True

        return await self._write(write)

    async def replace_by(
        self, path: Path, scope: Scope, operation: Operation, later: Later | None = None
    ) -> tuple[int, Path | None]:
        dated = self._dated(operation)

        def write(rows: OwnRows) -> tuple[int, Path | None]:
            rows.take_time()
            with sqlite_work.errors_named(path), closing(schema.connect(None, "rw", 0)) as stage:
                entry_copies.fill_stage(rows, stage, path, self.wait_seconds)
                former = entry_copies.set_aside(rows, self.clock(), self.keep_ms) if operations.scopes(rows) else None
                noted = dated if former is None else replace(dated, detail={**dated.detail, REPLACED: str(former)})
                stage.execute("BEGIN")
                with stage:
                    schema.number_after(stage, rows.numbers["operations"])
                    number = operations.complete(stage, rows, scope, noted, later, self.embeds)
                entry_copies.take_copy(rows, stage)
                return number, former

        return await self._write(write)

    async def examine(self) -> list[Finding]:
        def look(rows: OwnRows) -> list[Finding]:
            def value(query: str) -> Any:
                return (rows.execute(query).fetchone() or [None])[0]

            found = list[Finding]()
            if (terms := value("SELECT terms FROM stores")) is None:
                return []
            if terms != signature():
                said = _("The index has other normal forms of words; run `memory-server knowledge reindex`.")
                found.append(Finding("warning", _("knowledge"), said))
            if self.embeds and (missing := value(_WITHOUT_VECTOR)):
                said = counted(missing, "memory")
                said = _("{said} of users without a vector; `memory-server knowledge cleanup` makes them.", said)
                found.append(Finding("note", _("knowledge"), said))
            count = value("SELECT count(*) FROM entries WHERE archived_ms IS NULL")
            place = self.database.shown
            said = n_("{count:,} entry in {place}", "{count:,} entries in {place}", count, place)
            return found or [Finding("ok", _("knowledge"), said)]

        try:
            return await self._read(look)
        except StorageError as error:
            return [Finding("error", "knowledge", str(error))]

    async def aclose(self) -> None:
        """The home closes the database."""

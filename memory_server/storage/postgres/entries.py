"""An `EntryStore` in PostgreSQL, which several nodes use at once.

A writer of the knowledge of a tenant holds the row of that tenant in `stores`, as one process writes to a file of
SQLite. A reading transaction sees a single moment and waits for no other transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import KW_ONLY, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from psycopg import errors

from languages import _, counted, n_
from memory_server.conversations.archive import KEEP_MS
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import StorageError
from memory_server.kernel.scopes import Scope
from memory_server.kernel.text import Finding
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Operation
from memory_server.knowledge.ports import REPLACED, Later
from memory_server.storage.entries import examination, operations, schema, sqlite_work
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.storage.entries.store import DatabaseStore, name_taken
from memory_server.storage.postgres import entry_copies
from memory_server.storage.postgres.connection import Attempt, Database
from memory_server.storage.postgres.entry_rows import OwnRows
from nlp.index_terms import signature

T = TypeVar("T")
_WITHOUT_VECTOR = (
    "SELECT count(*) FROM entries e JOIN scopes s ON s.id = e.scope LEFT JOIN vectors v ON v.key = e.vector_key "
    "WHERE s.space = 'sessions' AND e.archived_ms IS NULL AND v.key IS NULL"
)


class _Writing(Generic[T]):
    """A piece of work that writes to the knowledge of a tenant, as connection.py asks for."""

    def __init__(self, tenant: str, write: Callable[[OwnRows], T]) -> None:
        self._tenant = tenant
        self._write = write
        self._results: list[T] = []
        """The result of the last attempt, which may have been committed."""

    def work(self, attempt: Attempt) -> T:
        rows = OwnRows(attempt, self._tenant, writes=True)
        rows.lock()
        if attempt.again and rows.was_committed():
            return self._results[-1]
        attempt.again = False
        try:
            with attempt.connection.pipeline():  # what needs no answer goes in one journey
                self._results[:] = [self._write(rows)]
                if rows.changed:
                    rows.finish()
                    attempt.sent = True
                attempt.connection.execute("commit" if rows.changed else "rollback")
        except errors.UniqueViolation as error:
            raise name_taken() from error
        return self._results[-1]


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
        def work(attempt: Attempt) -> T:
            result = read(OwnRows(attempt, self.tenant, writes=False))
            attempt.connection.execute("rollback")
            return result

        return await self.database.run(work)

    async def _write(self, write: Callable[[OwnRows], T], wait_seconds: float | None = None) -> T:
        self._refuse_read_only()
        writing = _Writing(self.tenant, write)
        async with self._writing:
            result = await self.database.run(writing.work, seconds=wait_seconds)
        self.meter.count("knowledge", "commits")
        return result

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
        return await self._write(
            lambda rows: entry_copies.set_aside(rows, self.clock(), self.keep_ms)
        )

    async def has_copy(self, path: Path) -> bool:
        def read(rows: OwnRows) -> bool:
            row = rows.execute("SELECT 1 FROM copies WHERE name = ?", (str(path),)).fetchone()
            return row is not None

        return await self._read(read)

    def copy_at(self, path: Path) -> SqliteStore:
        return SqliteStore(path, self.clock, read_only=True)

    async def adopt(self, path: Path) -> bool:
        def write(rows: OwnRows) -> bool:
            if operations.scopes(rows):
                return False
            rows.take_time()
            with (
                sqlite_work.errors_named(path),
                closing(schema.connect(path, "immutable", 0)) as copy,
            ):
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
            # All is first put together in a database in memory: a copy that cannot be read changes nothing.
            with sqlite_work.errors_named(path), closing(schema.connect(None, "rw", 0)) as stage:
                entry_copies.fill_stage(rows, stage, path=path, wait_seconds=self.wait_seconds)
                former: Path | None = None
                note = dated
                if operations.scopes(rows):
                    former = entry_copies.set_aside(rows, self.clock(), self.keep_ms)
                    note = replace(dated, detail={**dated.detail, REPLACED: str(former)})
                stage.execute("BEGIN")
                with stage:
                    schema.number_after(stage, rows.numbers["operations"])
                    number = operations.complete(
                        stage, rows, scope=scope, operation=note, later=later, embeds=self.embeds
                    )
                entry_copies.take_copy(rows, stage)
                return number, former

        return await self._write(write)

    async def examine(self) -> list[Finding]:
        try:
            return await self._read(self._findings)
        except StorageError as error:
            return [Finding("error", "knowledge", str(error))]

    def _findings(self, rows: OwnRows) -> list[Finding]:
        """Return the findings about the index of words and the vectors, or the count of live entries if all is well.
        Return no finding for a store that was never written."""
        index_signature = _value(rows, "SELECT terms FROM stores")
        if index_signature is None:
            return []

        findings: list[Finding] = []
        unusable = examination.unusable_entries(rows, self.database.shown)
        if unusable is not None:
            findings.append(Finding("warning", _("knowledge"), unusable))

        if index_signature != signature():
            sentence = _(
                "The index has other normal forms of words; run `memory-server knowledge reindex`."
            )
            findings.append(Finding("warning", _("knowledge"), sentence))

        count_without_vector = 0
        if self.embeds:
            count_without_vector = _value(rows, _WITHOUT_VECTOR)

        if count_without_vector:
            memories = counted(count_without_vector, "memory")
            sentence = _(
                "{said} of users without a vector; `memory-server knowledge cleanup` makes them.",
                memories,
            )
            findings.append(Finding("note", _("knowledge"), sentence))

        if findings:
            return findings

        count = _value(rows, "SELECT count(*) FROM entries WHERE archived_ms IS NULL")
        database_name = self.database.shown
        sentence = n_(
            "{count:,} entry in {place}", "{count:,} entries in {place}", count, database_name
        )
        return [Finding("ok", _("knowledge"), sentence)]

    async def aclose(self) -> None:
        """Do nothing: the home closes the database."""


def _value(rows: OwnRows, query: str) -> Any:
    """Return the first value that a query gives, or None without a row."""
    row = rows.execute(query).fetchone()
    if row is None:
        return None
    return row[0]

"""What every `EntryStore` on a database does: each call is a reading or a writing transaction of `operations`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from languages import Sentence, _
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.meter import Meter
from memory_server.kernel.scopes import Scope, Space, vector_key
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Operation
from memory_server.knowledge.ports import Committed, Decide, ModelCall, ScopeView
from memory_server.storage.entries import operations, vectors
from memory_server.storage.entries.database import Database

T = TypeVar("T")
D = TypeVar("D", bound=Database)
_TOUCH_SECONDS = 1.0
"""How long noting a use or a search waits for other writers: a caller that only reads must not wait for them."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement, and the rows of values for which it is executed."""

    sql: str
    rows: Sequence[Sequence[object]]


@dataclass(eq=False)
class DatabaseStore(Generic[D]):
    """Entries in a database. With `mirror` the entries are kept elsewhere: no history is written, and archived
    entries are searched too. `embeds`: the model of the vectors."""

    place: Path | None
    clock: Callable[[], int]
    _: KW_ONLY
    wait_seconds: float = 10.0
    read_only: bool = False
    mirror: bool = False
    embeds: str = ""
    meter: Meter = field(default_factory=Meter)
    erased: Callable[[Iterable[str]], bool] = lambda _texts: False

    @abstractmethod
    async def _read(self, read: Callable[[D], T]) -> T:
        """Return the result of `read`, which runs in a thread and sees one moment."""

    @abstractmethod
    async def _write(self, write: Callable[[D], T], wait_seconds: float | None = None) -> T:
        """Return the result of `write`, which runs in a transaction that excludes other writers. `wait_seconds`: how
        long it waits for other writers (default: `wait_seconds` of the store)."""

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        dated = self._dated(operation)

        def write(connection: D) -> Committed[T]:
            return operations.commit(
                connection,
                scope,
                decide=decide,
                operation=dated,
                embeds=self.embeds,
                mirror=self.mirror,
            )

        return await self._write(write)

    async def read(self, scope: Scope, read: Callable[[ScopeView], T]) -> T:
        return await self._read(lambda connection: read(connection.view(scope, self.embeds)))

    async def count_use(self, ids: Sequence[int], at_ms: int) -> None:
        statement = "UPDATE entries SET uses = uses + 1, accessed_ms = ? WHERE id = ?"
        rows = [(at_ms, entry_id) for entry_id in ids]
        await self._write_in_passing(_Statement(statement, rows))

    async def log_operation(
        self, scope: Scope, operation: Operation, *, passing: bool = False
    ) -> int:
        if self.read_only:
            return 0
        dated = self._dated(operation)
        wait_seconds = None  # None: as long as for other writes
        if passing:
            wait_seconds = _TOUCH_SECONDS

        def write(connection: D) -> int:
            scope_view = connection.view(scope, make=True)
            return scope_view.log_operation(dated, operation.entries)

        return await self._write(write, wait_seconds)

    async def operations(
        self,
        scope: Scope | None = None,
        *,
        before: int | None = None,
        limit: int = 50,
        caller: Mapping[str, str] = NOTHING,
    ) -> list[tuple[Scope, Operation]]:
        return await self._read(
            lambda connection: operations.operations(
                connection, scope, before=before, limit=limit, caller=caller
            )
        )

    async def note_call(self, call: ModelCall) -> None:
        statement = "INSERT INTO model_calls VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
        await self._write_in_passing(_Statement(statement, [call]))

    async def tokens(self, since_ms: int, until_ms: int) -> int:
        query = "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM model_calls WHERE at_ms BETWEEN ? AND ?"

        def read(connection: D) -> int:
            (tokens,) = connection.execute(query, (since_ms, until_ms)).fetchone()
            return int(tokens)

        return await self._read(read)

    async def scopes(self, space: Space | None = None) -> list[Scope]:
        return await self._read(lambda c: operations.scopes(c, space))

    async def rebuild(self) -> int:
        return await self._write(operations.rebuild)

    async def tidy(self, *, texts_before_ms: int, operations_before_ms: int) -> None:
        if await self.scopes():
            await self._write(
                lambda c: operations.tidy(
                    c,
                    texts_before_ms,
                    operations_before_ms=operations_before_ms,
                    now_ms=self.clock(),
                )
            )

    async def uses(self, place: str) -> dict[str, tuple[int, int]]:
        query = "SELECT key, accessed_ms, count FROM uses WHERE place = ?"

        def read(connection: D) -> dict[str, tuple[int, int]]:
            return {
                key: (accessed_ms, count)
                for key, accessed_ms, count in connection.execute(query, (place,))
            }

        return await self._read(read)

    async def mark_used(self, place: str, keys: Sequence[str], at_ms: int) -> None:
        first = "INSERT INTO uses(place, key, accessed_ms, count) VALUES(?, ?, ?, 0) ON CONFLICT DO NOTHING"
        latest = "CASE WHEN accessed_ms > ? THEN accessed_ms ELSE ? END"
        use = (
            f"UPDATE uses SET count = count + 1, accessed_ms = {latest} WHERE place = ? AND key = ?"
        )
        await self._write_in_passing(
            _Statement(first, [(place, key, at_ms) for key in keys]),
            _Statement(use, [(at_ms, at_ms, place, key) for key in keys]),
        )

    async def vectors(self, scope: Scope, texts: Sequence[str]) -> dict[str, bytes]:
        return await self._read(
            lambda c: vectors.known_vectors(c, self.embeds, scope=scope, texts=texts)
        )

    async def keep_vectors(self, vectors: Mapping[tuple[Scope, str], bytes]) -> None:
        now_ms = self.clock()
        vectors_by_key: dict[bytes, bytes] = {}
        for (scope, text), vector in vectors.items():
            vectors_by_key[vector_key(self.embeds, scope, text)] = vector
        former_rows = [(key,) for key in vectors_by_key]
        new_rows = [(key, vector, now_ms) for key, vector in vectors_by_key.items()]
        await self._write_in_passing(
            _Statement("DELETE FROM vectors WHERE key = ?", former_rows),
            _Statement("INSERT INTO vectors VALUES(?, ?, ?)", new_rows),
        )

    async def without_vector(self, limit: int) -> list[tuple[Scope, str]]:
        if not await self.scopes():
            return []
        return await self._write(lambda c: vectors.without_vector(c, self.embeds, limit))

    async def forget_vectors(self, live: Sequence[tuple[Scope, str]], before_ms: int) -> None:
        await self._write(
            lambda c: vectors.forget_vectors(c, self.embeds, live=live, before_ms=before_ms)
        )

    async def _write_in_passing(self, *statements: _Statement) -> None:
        """Execute statements for their rows, without waiting long for other writers."""

        def write(connection: D) -> None:
            # A cursor must not leave its thread: another thread would end its statement while this one uses it again.
            for statement in statements:
                connection.executemany(statement.sql, statement.rows)

        if any(statement.rows for statement in statements) and not self.read_only:
            await self._write(write, _TOUCH_SECONDS)

    def _dated(self, operation: Operation) -> Operation:
        return replace(operation, at_ms=operation.at_ms or self.clock())

    def _refuse_read_only(self) -> None:
        if self.read_only:
            raise StorageUnwritable(
                Sentence("Nothing can be changed, because `read_only` is set."), self.place
            )


def name_taken() -> InvalidInput:
    """Return the error where a live entry has the key of a new entry."""
    return InvalidInput(
        _("Another entry has that name now; rename or delete it first. Nothing was changed.")
    )

"""What every `EntryStore` on a database does: each call is a reading or a writing transaction of `operations`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.meter import Meter
from memory_server.kernel.scopes import Scope, Space, vector_key
from memory_server.knowledge.entry import Operation
from memory_server.knowledge.ports import Committed, Decide, ModelCall, ScopeView
from memory_server.storage.entries import operations, vectors
from memory_server.storage.entries.database import Database
from sandbox.locale import _

T = TypeVar("T")
D = TypeVar("D", bound=Database)
_TOUCH_SECONDS = 1.0
"""How long noting a use waits for other writers: a search must not wait for it."""


@dataclass(eq=False)
class DatabaseStore(Generic[D]):
    """`mirror`: of entries that are kept elsewhere, so without history, and what is archived is searched too. `embeds`:
    the model of the vectors."""

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
        """What `read` gives, in a thread and of one moment."""

    @abstractmethod
    async def _write(self, write: Callable[[D], T], wait_seconds: float | None = None) -> T:
        """`write` in a transaction that nobody else writes in."""

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        dated = self._dated(operation)
        return await self._write(lambda c: operations.commit(c, scope, decide, dated, self.embeds, mirror=self.mirror))

    async def read(self, scope: Scope, read: Callable[[ScopeView], T]) -> T:
        return await self._read(lambda c: read(c.view(scope, self.embeds)))

    async def count_use(self, ids: Sequence[int], at_ms: int) -> None:
        used = "UPDATE entries SET uses = uses + 1, accessed_ms = ? WHERE id = ?"
        await self._write_in_passing((used, [(at_ms, each) for each in ids]))

    async def log_operation(self, scope: Scope, operation: Operation, *, passing: bool = False) -> int:
        if self.read_only:
            return 0
        dated, wait_seconds = self._dated(operation), _TOUCH_SECONDS if passing else None
        return await self._write(
            lambda c: c.view(scope, make=True).log_operation(dated, operation.entries), wait_seconds
        )

    async def operations(
        self,
        scope: Scope | None = None,
        *,
        before: int | None = None,
        limit: int = 50,
        caller: Mapping[str, str] = NOTHING,
    ) -> list[tuple[Scope, Operation]]:
        return await self._read(lambda c: operations.operations(c, scope, before, limit, caller))

    async def note_call(self, call: ModelCall) -> None:
        await self._write_in_passing(("INSERT INTO model_calls VALUES(?, ?, ?, ?, ?, ?, ?, ?)", [call]))

    async def tokens(self, since_ms: int, until_ms: int) -> int:
        query = "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM model_calls WHERE at_ms BETWEEN ? AND ?"
        return await self._read(lambda c: int(c.execute(query, (since_ms, until_ms)).fetchone()[0]))

    async def scopes(self, space: Space | None = None) -> list[Scope]:
        return await self._read(lambda c: operations.scopes(c, space))

    async def rebuild(self) -> int:
        return await self._write(operations.rebuild)

    async def tidy(self, *, texts_before_ms: int, operations_before_ms: int) -> None:
        if await self.scopes():
            await self._write(lambda c: operations.tidy(c, texts_before_ms, operations_before_ms, self.clock()))

    async def uses(self, place: str) -> dict[str, tuple[int, int]]:
        query = "SELECT key, accessed_ms, count FROM uses WHERE place = ?"
        return await self._read(lambda c: {row[0]: (row[1], row[2]) for row in c.execute(query, (place,))})

    async def mark_used(self, place: str, keys: Sequence[str], at_ms: int) -> None:
        there = "INSERT INTO uses(place, key, accessed_ms, count) VALUES(?, ?, ?, 0) ON CONFLICT DO NOTHING"
        latest = "CASE WHEN accessed_ms > ? THEN accessed_ms ELSE ? END"
        used = f"UPDATE uses SET count = count + 1, accessed_ms = {latest} WHERE place = ? AND key = ?"
        await self._write_in_passing(
            (there, [(place, key, at_ms) for key in keys]), (used, [(at_ms, at_ms, place, key) for key in keys])
        )

    async def vectors(self, scope: Scope, texts: Sequence[str]) -> dict[str, bytes]:
        return await self._read(lambda c: vectors.known_vectors(c, self.embeds, scope, texts))

    async def keep_vectors(self, made: Mapping[tuple[Scope, str], bytes]) -> None:
        now_ms = self.clock()
        keyed = {vector_key(self.embeds, *named): vector for named, vector in made.items()}
        values = [(key, vector, now_ms) for key, vector in keyed.items()]
        former = "DELETE FROM vectors WHERE key = ?", [(key,) for key in keyed]
        await self._write_in_passing(former, ("INSERT INTO vectors VALUES(?, ?, ?)", values))

    async def without_vector(self, limit: int) -> list[tuple[Scope, str]]:
        return await self._write(lambda c: vectors.without_vector(c, self.embeds, limit)) if await self.scopes() else []

    async def forget_vectors(self, live: Sequence[tuple[Scope, str]], before_ms: int) -> None:
        await self._write(lambda c: vectors.forget_vectors(c, self.embeds, live, before_ms))

    async def _write_in_passing(self, *statements: tuple[str, Sequence[Sequence[object]]]) -> None:
        def write(connection: D) -> None:
            # A cursor must not leave its thread: another thread would end its statement while this one uses it again.
            for statement, values in statements:
                connection.executemany(statement, values)

        if any(values for _, values in statements) and not self.read_only:
            await self._write(write, _TOUCH_SECONDS)

    def _dated(self, operation: Operation) -> Operation:
        return replace(operation, at_ms=operation.at_ms or self.clock())

    def _refuse_read_only(self) -> None:
        if self.read_only:
            raise StorageUnwritable(_("Nothing can be changed, because `read_only` is set."), self.place)


def name_taken() -> InvalidInput:
    """The error where a live entry has the key of one that comes."""
    return InvalidInput(_("Another entry has that name now; rename or delete it first. Nothing was changed."))

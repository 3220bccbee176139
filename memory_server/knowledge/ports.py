"""What knowledge needs from outside: a store of entries. `storage/entries/` has its implementations, and
tests/storage/test_entry_store_contract.py holds for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from memory_server.kernel.erasure import Erasure
from memory_server.kernel.items import Scope, Space
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.text import Finding
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import (
    EVERYTHING,
    Change,
    Entry,
    Figures,
    Filter,
    Former,
    Hits,
    Operation,
    Order,
    Query,
    Share,
    change_id,
)

T = TypeVar("T")
REPLACED = "replaced"
"""In the detail of an operation: the copy of the store as it was before."""


class ScopeView(Protocol):
    """The entries of a scope, at one moment: what a decision and a reader may look at. Valid during the call only."""

    def get(self, *, id: int | None = None, ref: str | None = None) -> Entry | None:
        """Return the entry of this id or ref, live or archived, or None."""
        ...

    def keyed(self, kind: str, project: str, key: str) -> Entry | None:
        """Return the live entry of this key, or None."""
        ...

    def entries(
        self, where: Filter, *, order: Order = "newest", limit: int | None = None, offset: int = 0
    ) -> list[Entry]: ...
    def ids(self, where: Filter) -> list[int]: ...
    def count(self, where: Filter) -> int: ...
    def figures(self, where: Filter = EVERYTHING) -> Figures: ...
    def counted(
        self, by: Literal["agent_id", "run_id", "project"], where: Filter
    ) -> dict[str, int]:
        """Count the entries of each agent, run or project. Entries without one are not counted."""
        ...

    def stored_bytes(self, where: Filter) -> int:
        """Bytes of the texts and metadata of entries, in UTF-8."""
        ...

    def former_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the texts that these entries had before they were changed, as far as they are kept."""
        ...

    def former_entries(self) -> list[Entry]:
        """Return each entry as it was before a change, as far as that is kept; also entries that were removed for good."""
        ...

    def search(self, query: Query) -> Hits:
        """Return the entries that hold terms of the query, best first. If no entry does, return the entries that hold
        its text literally, newest first. Then come the entries that only its other words find (ranking.py)."""
        ...

    def shares(self, query: Query) -> list[Share]:
        """Return which terms of the query or of its other words each field of an entry holds, or longer terms that
        begin so (with 3 characters or more). All such entries come, in no order. No texts are read."""
        ...

    def nearest(self, vector: bytes, where: Filter) -> tuple[list[tuple[int, float]], int]:
        """Return the ids of the entries that have a vector of this length, with their cosine to it, best first; and the
        number of entries that still need a vector."""
        ...

    def vectors(self, where: Filter) -> int:
        """Count the entries that have a vector."""
        ...

    def alike(self, text: str, where: Filter, limit: int) -> list[Entry]:
        """Return entries that may say nearly the same as a text, because they hold most of its groups of neighbouring
        terms."""
        ...

    def changed_after(self, entry_id: int, seq: int) -> int | None:
        """Return the newest operation after `seq` that changed an entry and was not undone, or None."""
        ...

    def changed_since(self, seq: int) -> tuple[list[Entry], list[str]]:
        """Return the entries that operations after `seq` changed, as they are now, and the refs of entries that were
        changed and then removed for good."""
        ...

    def former(self, seq: int) -> list[Former]:
        """Return what the operation `seq` of this scope did, in order; empty if this scope has no such operation."""
        ...


@frozen
class Committed(Generic[T]):
    """A commit. `entries` are as they were stored, in the order of the changes; `seq` is None if nothing was changed."""

    result: T
    entries: tuple[Entry, ...]
    seq: int | None

    @property
    def entry(self) -> Entry:
        """The first entry that was stored. Raises IndexError if no entry was."""
        return self.entries[0]

    @property
    def change_id(self) -> str | None:
        """The name of the change for `undo`, or None if nothing was changed."""
        return None if self.seq is None else change_id(self.seq)


class ModelCall(NamedTuple):
    """A call of a language model, as the ledger keeps it."""

    at_ms: int
    provider: str
    model: str
    purpose: str
    input_tokens: int
    output_tokens: int
    took_ms: float
    outcome: str


class ModelLedger(Protocol):
    """The calls of models, by all processes."""

    async def note_call(self, call: ModelCall) -> None: ...
    async def tokens(self, since_ms: int, until_ms: int) -> int:
        """Return the tokens that were used in this time."""
        ...


@frozen
class ModelResponse(Generic[T]):
    """An answer of a model, and what it cost."""

    value: T
    provider: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class Models(Protocol):
    """Language models, which `llm/` has."""

    def patient(self, seconds: float) -> Models:
        """Return the same models with at least `seconds` for each, for work that no caller waits for."""
        ...

    async def ask(
        self,
        purpose: str,
        system: str,
        data: str,
        schema: Mapping[str, Any],
        read: Callable[[dict[str, Any]], T],
        seconds: float = inf,
    ) -> ModelResponse[T]:
        """Ask for an answer of this schema within these seconds. `read` converts it, and raises ValueError for an
        answer that cannot be used. Raise ModelsFailed if no model gave a usable answer."""
        ...


class Embeddings(Protocol):
    """A model that gives texts vectors, which `llm/` has."""

    @property
    def model(self) -> str: ...
    async def vectors(self, texts: Sequence[str], seconds: float) -> ModelResponse[list[bytes]]:
        """Return the vector of each text: length 1, as 32-bit floats. Raise ModelsFailed if they did not come in time,
        and TextRefused if the model does not take a text."""
        ...


Decided: TypeAlias = tuple[Sequence[Change], T]
"""The changes that a decision makes, and its result."""
Decide = Callable[[ScopeView], Decided[T]]
"""A pure decision; it may be called again."""


Later = Callable[[ScopeView, ScopeView], Decided[None]]
"""A pure decision: what of a scope as it was until now comes over to a copy that takes its place."""


class Entries(Protocol):
    """Where entries live, in a database or in files that people edit. Every method may raise `StorageError`."""

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        """Lock, decide, store the changes, and then return. When this returns, they are durable; when it raises,
        nothing was stored.

        Raises:
            InvalidInput: a live entry has the key of an entry that comes back.
            LockTimeout: other writers held the store for too long.
        """
        ...

    async def read(self, scope: Scope, read: Callable[[ScopeView], T]) -> T:
        """Return the result of `read`, which runs in another thread. It changes nothing and waits for no writer."""
        ...

    async def examine(self) -> list[Finding]: ...
    async def aclose(self) -> None: ...


class EntryFolder(Entries, Protocol):
    """Entries as files that people edit, so without history: `Committed.seq` is None. Archived ones are searched too,
    where the filter of a query asks for them."""

    @property
    def place(self) -> Path:
        """The folder of the files."""
        ...

    @property
    def project(self) -> Path | None:
        """The folder above `place` that may come from others, with its repository, or None if `place` is the user's own."""
        ...

    @property
    def archive(self) -> Path:
        """The folder of the archived ones."""
        ...

    async def unreadable(self, *, archive: bool = False) -> Mapping[str, str]:
        """Files that cannot be read and are left alone, by name, with the reason."""
        ...


class EntryStore(Entries, ModelLedger, Protocol):
    """Entries with their history, as a database keeps them."""

    @property
    def erased(self) -> Callable[[Iterable[str]], bool]:
        """A function that returns whether at least one of these texts was erased for good, so that it is not stored
        again."""
        ...

    async def count_use(self, ids: Sequence[int], at_ms: int) -> None:
        """Note that these entries were used: one use more each. It is not a change, so `undo` does not know it."""
        ...

    async def log_operation(
        self, scope: Scope, operation: Operation, *, passing: bool = False
    ) -> int:
        """Note an operation that changed no entry, such as a search or a refusal; return its number, or 0 if nothing
        may be written. With `passing` it waits for other writers for a second at most."""
        ...

    async def operations(
        self,
        scope: Scope | None = None,
        *,
        before: int | None = None,
        limit: int = 50,
        caller: Mapping[str, str] = NOTHING,
    ) -> list[tuple[Scope, Operation]]:
        """Return a page of operations, newest first. `before` is the number of the last operation of the former page.
        With `caller`, only operations of callers with these values are returned."""
        ...

    async def scopes(self, space: Space | None = None) -> list[Scope]: ...
    async def rebuild(self) -> int:
        """Find the terms of all live entries again. Return the number of entries."""
        ...

    async def tidy(self, *, texts_before_ms: int, operations_before_ms: int) -> None:
        """Delete texts and operations that are older than these times; later ones take their room."""
        ...

    async def uses(self, place: str) -> dict[str, tuple[int, int]]:
        """Return when each key of `place` was last used, and how often; for entries that are kept elsewhere."""
        ...

    async def mark_used(self, place: str, keys: Sequence[str], at_ms: int) -> None: ...
    async def vectors(self, scope: Scope, texts: Sequence[str]) -> dict[str, bytes]:
        """Return the known vectors of these texts in this scope, made by the model of the settings."""
        ...

    async def keep_vectors(self, vectors: Mapping[tuple[Scope, str], bytes]) -> None:
        """Keep the vectors of these texts; the entries that hold them have them at once. An empty vector means that the
        model does not take the text."""
        ...

    async def without_vector(self, limit: int) -> list[tuple[Scope, str]]:
        """Texts of memories of users that have no vector of the model of the settings."""
        ...

    async def forget_vectors(self, live: Sequence[tuple[Scope, str]], before_ms: int) -> None:
        """Remove the vectors of conversations that were made before that time, except the vectors of the `live` texts."""
        ...

    async def erase(self, erasure: Erasure, copy: Path | None = None) -> None:
        """Remove for good, from entries, their past, the index, vectors and free pages, what is erased; also from the
        former copies that `set_aside` made. With `copy`, remove it from such a copy of the store instead."""
        ...

    async def copy_to(self, path: Path) -> None:
        """Write a copy of the whole store to a new file, its owner's only."""
        ...

    async def set_aside(self) -> Path | None:
        """Make such a copy beside the store, before something that replaces or removes entries. Return its place, or
        None if the store is in memory or was never written. Copies older than the archive are deleted. Raises
        StorageUnwritable if the store is read-only."""
        ...

    async def has_copy(self, path: Path) -> bool:
        """Return whether such a copy is still kept."""
        ...

    def copy_at(self, path: Path) -> EntryStore:
        """Open a store on such a copy, which only reads."""
        ...

    async def adopt(self, path: Path) -> bool:
        """Take such a copy as it is, with its history and all numbers, where nothing is kept yet; Return False if
        something is."""
        ...

    async def replace_by(
        self, path: Path, scope: Scope, operation: Operation, later: Later | None = None
    ) -> tuple[int, Path | None]:
        """Make this store equal to such a copy, together with the note of `operation` in `scope` and the changes that
        `later` decides for each scope. Return the number of the operation, and the place of a copy of the former store
        as `set_aside` makes it, which is also `replaced` in the note's detail, or None also if the former store was
        damaged. Operations are numbered on. Raise StorageError if the copy cannot be used, or there is no room; then
        nothing was changed."""
        ...

"""What knowledge needs from outside: a store of entries. `storage/entries/` has its implementations, and
tests/storage/test_entry_store_contract.py holds for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from memory_server.kernel.erasure import Erasure
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.scopes import Scope, Space
from memory_server.kernel.text import Finding
from memory_server.kernel.values import dataclass
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
        """The entry of this id or ref, live or archived."""
        ...

    def keyed(self, kind: str, project: str, key: str) -> Entry | None:
        """The live entry of this key."""
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
        """How many entries each agent, run or project has; without those that have none."""
        ...

    def stored_bytes(self, where: Filter) -> int:
        """Bytes of the texts and metadata of entries, in UTF-8."""
        ...

    def former_texts(self, ids: Sequence[int]) -> list[str]:
        """The texts that these entries had before they were changed, as far as they are kept."""
        ...

    def former_entries(self) -> list[Entry]:
        """Each entry as it was before a change, as far as that is kept; also those that were removed for good."""
        ...

    def search(self, query: Query) -> Hits:
        """The entries that hold terms of the query, best first. If none does, those that hold its text as it is,
        newest first. Then those that only its other words find (word_ranking.py)."""
        ...

    def shares(self, query: Query) -> list[Share]:
        """The entries that hold terms of the query or of its other words, or longer terms that begin so (with 3
        characters or more), all of them, in no order: which of these terms each field holds. Reads no texts."""
        ...

    def nearest(self, vector: bytes, where: Filter) -> tuple[list[tuple[int, float]], int]:
        """The ids of the entries that have a vector of this length, with the cosine to it, best first; and how many
        still need one."""
        ...

    def vectors(self, where: Filter) -> int:
        """How many entries have a vector."""
        ...

    def alike(self, text: str, where: Filter, limit: int) -> list[Entry]:
        """Entries that may say nearly the same as a text: those that hold most of its groups of neighbouring terms."""
        ...

    def changed_after(self, entry_id: int, seq: int) -> int | None:
        """The newest operation after `seq` that changed an entry and was not taken back; None if there is none."""
        ...

    def changed_since(self, seq: int) -> tuple[list[Entry], list[str]]:
        """The entries that operations after `seq` changed, as they are now, and the refs of those that were changed and
        then removed for good."""
        ...

    def former(self, seq: int) -> list[Former]:
        """What the operation `seq` of this scope did, in order; empty if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Committed(Generic[T]):
    """A commit. `entries`: as they were stored, in the order of the changes; `seq` None: nothing was changed."""

    result: T
    entries: tuple[Entry, ...]
    seq: int | None

    @property
    def entry(self) -> Entry:
        """The first one that was stored. Raises IndexError: nothing was."""
        return self.entries[0]

    @property
    def change_id(self) -> str | None:
        """The name of the change for `undo`."""
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
        """How many tokens were used in this time."""
        ...


@dataclass(frozen=True, slots=True)
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
        """The same models with at least so much time, each of them, for what nobody waits for."""
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
        """An answer of this schema within these seconds, as `read` makes it, which raises ValueError for one that
        cannot be used. Raises ModelsFailed: no model answered so."""
        ...


class Embeddings(Protocol):
    """A model that gives texts vectors, which `llm/` has."""

    @property
    def model(self) -> str: ...
    async def vectors(self, texts: Sequence[str], seconds: float) -> ModelResponse[list[bytes]]:
        """The vector of each text: length 1, as 32-bit floats. Raises ModelsFailed: they did not come in time;
        TextRefused: the model takes no such text."""
        ...


Decide = Callable[[ScopeView], tuple[Sequence[Change], T]]
"""A pure decision; it may be called again."""


Later = Callable[[ScopeView, ScopeView], tuple[Sequence[Change], None]]
"""A pure decision: what of a scope as it was until now comes over to a copy that takes its place."""


class Entries(Protocol):
    """Where entries live, in a database or in files that people edit. Every method may raise `StorageError`."""

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        """Lock, decide, store the changes, and then return. When this returns, they are durable; when it raises,
        none of them happened.

        Raises:
            InvalidInput: a live entry has the key of one that comes back.
            LockTimeout: other writers held the store for too long.
        """
        ...

    async def read(self, scope: Scope, read: Callable[[ScopeView], T]) -> T:
        """What `read` finds, which runs in another thread. It changes nothing and waits for no writer."""
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
        """The folder above `place` that may come from others, with its repository; None: `place` is the user's own."""
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
        """Whether one of these texts was erased for good, so that it is not stored again."""
        ...

    async def count_use(self, ids: Sequence[int], at_ms: int) -> None:
        """Note that these entries were used: one use more each. It is not a change, so `undo` does not know it."""
        ...

    async def log_operation(
        self, scope: Scope, operation: Operation, *, passing: bool = False
    ) -> int:
        """Note an operation that changed no entry, such as a search or a refusal; its number, 0 where nothing may be
        written. `passing`: it waits for other writers for a second at most."""
        ...

    async def operations(
        self,
        scope: Scope | None = None,
        *,
        before: int | None = None,
        limit: int = 50,
        caller: Mapping[str, str] = NOTHING,
    ) -> list[tuple[Scope, Operation]]:
        """A page of what was done, newest first; `before` is the number of the last one of the page before. `caller`:
        only operations of callers with these values."""
        ...

    async def scopes(self, space: Space | None = None) -> list[Scope]: ...
    async def rebuild(self) -> int:
        """Find the terms of all live entries again; the number of them."""
        ...

    async def tidy(self, *, texts_before_ms: int, operations_before_ms: int) -> None:
        """Delete texts and operations that are older than these times; later ones take their room."""
        ...

    async def uses(self, place: str) -> dict[str, tuple[int, int]]:
        """When each key of `place` was used last, and how often; for entries that are kept elsewhere."""
        ...

    async def mark_used(self, place: str, keys: Sequence[str], at_ms: int) -> None: ...
    async def vectors(self, scope: Scope, texts: Sequence[str]) -> dict[str, bytes]:
        """The vectors that are known of these texts in this scope, by the model of the settings."""
        ...

    async def keep_vectors(self, vectors: Mapping[tuple[Scope, str], bytes]) -> None:
        """Keep the vectors of these texts; the entries that hold them have them at once. An empty vector: the model
        takes no such text."""
        ...

    async def without_vector(self, limit: int) -> list[tuple[Scope, str]]:
        """Texts of memories of users that have no vector of the model of the settings."""
        ...

    async def forget_vectors(self, live: Sequence[tuple[Scope, str]], before_ms: int) -> None:
        """Remove the vectors of conversations that were made before that time, except those of the `live` texts."""
        ...

    async def erase(self, erasure: Erasure, copy: Path | None = None) -> None:
        """Remove for good, from entries, their past, the index, vectors and free pages, what is erased; also from the
        former copies that `set_aside` made. `copy`: instead, from such a copy of the store."""
        ...

    async def copy_to(self, path: Path) -> None:
        """Write a copy of the whole store to a new file, its owner's only."""
        ...

    async def set_aside(self) -> Path | None:
        """Such a copy beside the store, before something that replaces or removes entries; where it is. Copies older
        than the archive are deleted. None: the store is in memory, or was never written."""
        ...

    async def has_copy(self, path: Path) -> bool:
        """Whether such a copy is still kept."""
        ...

    def copy_at(self, path: Path) -> EntryStore:
        """A store on such a copy, which reads only."""
        ...

    async def adopt(self, path: Path) -> bool:
        """Take such a copy as it is, with its history and all numbers, where nothing is kept yet; False: something
        is."""
        ...

    async def replace_by(
        self, path: Path, scope: Scope, operation: Operation, later: Later | None = None
    ) -> tuple[int, Path | None]:
        """Make this store equal to such a copy, with the note of `operation` in `scope` and with the changes that
        `later` decides for each scope, all at once. The number of the operation, and where a copy of what the store
        held until then is, as of `set_aside` (None also: it was damaged), which is also `replaced` in the note's
        detail. Raises StorageError: the copy cannot be used, or there is no room; nothing was changed. Operations are
        numbered on."""
        ...

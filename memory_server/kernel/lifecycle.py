"""What every engine can do with the past of what it keeps. Conversations and knowledge implement `Lifecycle`; undo,
history, clean-up, upkeep, doctor and backups loop over the engines. tests/test_lifecycle_contract.py holds for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Item, Sought
from memory_server.kernel.text import Finding

if TYPE_CHECKING:
    from memory_server.kernel.backups import BackupStore, BackupWriter, MergeCounts, Mode
    from memory_server.kernel.erasure import Erasure

HISTORY_PAGE = 50
"""Changes on a page of the history: what fits on a screen or two."""
_FORGET = "forget"
"""How the authors of changes begin by which a person forgets."""

Kept = Literal["conversations", "knowledge"]


def forgetting_of(change: str) -> str:
    """The author of a change by which a person forgets: `forget 3f2a81c0`."""
    return f"{_FORGET} {change}"


def asked_to_forget(author: str) -> bool:
    """Whether a person asked for what a change of this author removed; the clean-up and tools have other authors."""
    return author.split(" ")[0] == _FORGET


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """What a change did to one memory or entry. `what`: such as `forgotten`. `text`: its beginning, or its score before
    and after."""

    what: str
    id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class PastChange:
    """A change in the history. `place`: a conversation, or a family with its owner, such as `refs/short-term`. `at_ms`:
    milliseconds since 1970. `by`: the tool or command that made it, or `hand`. `more_steps`: how many it has beside
    `steps`."""

    id: str
    place: str
    at_ms: int
    by: str
    steps: tuple[HistoryStep, ...]
    more_steps: int = 0


@dataclass(frozen=True, slots=True)
class Undone:
    """A change was taken back by the change `id`, which did `steps`. `refused`: why parts of it were not."""

    id: str
    steps: tuple[HistoryStep, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a clean-up takes out of use. `time_ms`: of the memory, in milliseconds since 1970."""

    id: str
    time_ms: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a clean-up took out of a place, or would. `due` of the `remaining` are for later runs. `problem`: why the
    place was passed over."""

    place: str
    left: tuple[Leaving, ...] = ()
    remaining: int = 0
    due: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class RestoredPlace:
    """What a restore changed in a place of an engine, or would. `left_out`: what is too large to be stored, and why.
    `change_id` None: nothing was changed, or by several changes."""

    keeps: Kept
    place: str
    counts: MergeCounts
    left_out: tuple[str, ...] = ()
    change_id: str | None = None


class Copied(NamedTuple):
    """What went into a backup. `entries`: of knowledge. `left_out`: a sentence for each place that cannot be read."""

    entries: int = 0
    left_out: tuple[str, ...] = ()


Examine = Callable[[], Awaitable[Sequence[Finding]]]


class Lifecycle(Protocol):
    """An engine. Every method may raise `StorageError`; then what it was about is unchanged."""

    @property
    def keeps(self) -> Kept: ...

    def made(self, change: str) -> bool:
        """Whether a change id has this engine's form."""

    async def places(self) -> list[str]:
        """Where something is or was stored, sorted."""

    async def find(self, sought: Sought) -> list[Item]:
        """The items that are meant, newest first."""

    async def forget(self, items: Collection[Item], *, by: str) -> int:
        """Move those of `items` that are live here into the archive, as one change for each place; how many these
        were."""

    async def texts_of(self, items: Collection[Item]) -> set[str]:
        """All texts of `items`, live or archived, that this engine has, also those that they had before an edit."""

    async def past_texts(self, words: Sequence[str]) -> set[str]:
        """All texts that memories or entries had when they held all these words, as far as the past is kept. Changes
        nothing."""

    async def erase(self, erasure: Erasure) -> None:
        """Remove for good, from all that this engine keeps, what is erased. Its live items were forgotten before. A
        crash leaves the old or the new state of each store; doing it again finishes."""

    async def erase_in(self, backups: BackupStore, name: str, erasure: Erasure) -> None:
        """The same in what a backup holds of this engine, which is checked before; all of it or nothing."""

    async def history(
        self,
        place: str | None = None,
        *,
        before: str | None = None,
        limit: int = HISTORY_PAGE,
        most_steps: int | None = None,
    ) -> list[PastChange]:
        """At most `limit` changes of a place, or of all, newest first, before the change `before`. `most_steps`: of one
        change; an import has tens of thousands. Raises InvalidInput: `before` is not a change of these places."""

    async def undo(self, change: str, place: str | None = None, *, by: str = "api") -> Undone:
        """Take back a change of a place, or of any; later changes of other entries stay. Raises InvalidInput: there is
        no such change, it is too old, or what it changed was changed since; nothing was changed."""

    def clean_up(
        self, place: str | None = None, *, dry_run: bool = False, by: str = "cleanup"
    ) -> AsyncIterator[Cleaned]:
        """Move what is due into the archive, place by place, or with `dry_run` say what that would be. Raises
        InvalidInput: there is no such place."""

    async def keep_up(self, seen_from_ms: int) -> int:
        """The daily upkeep: clean up, and delete for good what is kept no longer, as seen from `seen_from_ms`; how much
        was cleaned up. What fails is logged and passed over."""

    async def examinations(self) -> list[Examine]:
        """Calls that each give the findings about a part of what is stored. They change nothing."""

    async def copy_to(self, backup: BackupWriter, only: str | None, advance: Callable[[], None]) -> Copied:
        """Add what is stored to a backup, calling `advance` after each place. `only`: one conversation."""

    async def check_backup(self, backups: BackupStore, name: str, only: str | None) -> None:
        """Raises StorageError or BackupNotFound: what a backup holds of this engine cannot be used."""

    def restore(
        self, backups: BackupStore, name: str, mode: Mode, *, dry_run: bool, only: str | None, by: str
    ) -> AsyncIterator[RestoredPlace]:
        """Bring back what a backup holds of this engine, place by place, or with `dry_run` say what that would change.
        The backup is checked before anything changes."""


class Ledger(Protocol):
    """When upkeep last ran, and whose turn it is; `last_run_ms` and `note_run` are blocking calls."""

    def turn(self) -> AbstractAsyncContextManager[bool]:
        """Whether this process may run upkeep; True for only one process at a time."""
        ...

    def last_run_ms(self) -> int | None:
        """When upkeep last ended, in milliseconds since 1970; None: never."""

    def note_run(self, at_ms: int) -> None: ...


E = TypeVar("E", bound=Lifecycle)


def engine_of(engines: Sequence[E], change: str) -> E:
    """The engine that made a change. Raises InvalidInput: no engine makes such ids."""
    for engine in engines:
        if engine.made(change):
            return engine
    raise InvalidInput(
        "`{change}` is not a change id; give a changeId that a tool or `memory-server history` shows.", change
    )

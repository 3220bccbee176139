"""What every engine can do with the past of what it keeps. Conversations and knowledge implement `Lifecycle`; undo,
history, clean-up, upkeep, doctor and backups loop over the engines. tests/test_lifecycle_contract.py holds for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Item, ItemFilter
from memory_server.kernel.text import Finding
from memory_server.kernel.times import merged
from memory_server.kernel.values import frozen

if TYPE_CHECKING:
    from memory_server.kernel.backups import BackupStore, BackupWriter, MergeCounts, Mode
    from memory_server.kernel.erasure import Erasure

HISTORY_PAGE = 50
"""Changes on a page of the history: what fits on a screen or two."""
USUAL_STEPS = 100
"""Steps of a change that are shown."""
_FORGET = "forget"
"""The beginning of the author of a change by which a person forgets."""

Kept = Literal["conversations", "knowledge"]


def forgetting_of(change: str) -> str:
    """Return the author of a change by which a person forgets: `forget 3f2a81c0`."""
    return f"{_FORGET} {change}"


def asked_to_forget(author: str) -> bool:
    """Return whether a person asked for a change of this author, which removed items; the clean-up and tools are other
    authors."""
    return author.split(" ")[0] == _FORGET


@frozen
class HistoryStep:
    """What a change did to a memory or an entry. `what`: such as `forgotten`. `text`: the beginning of its text, or its
    score before and after."""

    what: str
    id: str | None = None
    text: str | None = None


@frozen
class PastChange:
    """A change in the history. `place`: a conversation, or a family with its owner, such as `refs/short-term`. `at_ms`:
    milliseconds since 1970. `by`: its author: a tool, a command, or `hand`. `more_steps`: how many further steps it
    has."""

    id: str
    place: str
    at_ms: int
    by: str
    steps: tuple[HistoryStep, ...]
    more_steps: int = 0


def newest_first(sequences: Iterable[Sequence[PastChange]], now_ms: int) -> list[PastChange]:
    """Merge sequences of changes, newest first, into one: by number within a sequence, by time across them, as `merged`
    says. All knowledge is one sequence, each conversation is one."""
    oldest_first = merged([sequence[::-1] for sequence in sequences], now_ms)
    return oldest_first[::-1]


@frozen
class Undone:
    """A change was taken back by the change `id`, which did `steps`. `refused`: why parts of it were not."""

    id: str
    steps: tuple[HistoryStep, ...]
    refused: tuple[str, ...] = ()


@frozen
class CleanupItem:
    """A memory or an entry that a clean-up takes out of use. `time_ms`: its time, in milliseconds since 1970."""

    id: str
    time_ms: int
    reason: str
    text: str


@frozen
class PlaceCleanup:
    """The result of a clean-up in a place: `left` was taken out of use, or would be. Of the `remaining`, `due` are for
    later runs. `problem`: why the place was passed over."""

    place: str
    left: tuple[CleanupItem, ...] = ()
    remaining: int = 0
    due: int = 0
    problem: str | None = None


@frozen
class RestoredPlace:
    """The result of a restore in a place of an engine: what was changed, or would be. `left_out` says what is too large
    to be stored, and why. `change_id` is None where nothing was changed, or several changes were made."""

    keeps: Kept
    place: str
    counts: MergeCounts
    left_out: tuple[str, ...] = ()
    change_id: str | None = None


class CopyResult(NamedTuple):
    """The result of a copy into a backup. `entries`: how many of knowledge were copied. `left_out`: a sentence for each
    place that cannot be read."""

    entries: int = 0
    left_out: tuple[str, ...] = ()


Examine = Callable[[], Awaitable[Sequence[Finding]]]
"""A call that examines a part of what is stored and returns the findings about it."""
BlockingExamine = Callable[[], Sequence[Finding]]
"""The same as `Examine`, for a thread."""


class Lifecycle(Protocol):
    """An engine. Every method may raise `StorageError`; then nothing was changed."""

    @property
    def keeps(self) -> Kept: ...

    def made(self, change: str) -> bool:
        """Return whether a change id has this engine's form."""

    async def places(self) -> list[str]:
        """Return the places in which something is or was stored, sorted."""

    async def find(self, sought: ItemFilter) -> list[Item]:
        """Return the items that match the filter, newest first."""

    async def forget(self, items: Collection[Item], *, by: str) -> int:
        """Move the live `items` of this engine into the archive, as one change for each place. Return the number of
        moved items."""

    async def texts_of(self, items: Collection[Item]) -> set[str]:
        """Return all texts of `items`, live or archived, that this engine has, including texts from before an edit."""

    async def past_texts(self, words: Sequence[str]) -> set[str]:
        """Return all texts that memories or entries had when they held all these words, as far as the past is stored.
        Changes nothing."""

    async def erase(self, erasure: Erasure) -> None:
        """Remove the erased items and texts for good from all that this engine stores. Its live items were forgotten
        before. A crash leaves the old or the new state of each store; a second run finishes."""

    async def erase_in(self, backups: BackupStore, name: str, erasure: Erasure) -> None:
        """Remove the erased items and texts from this engine's part of a backup, which is checked before: from all of
        it, or from nothing."""

    async def history(
        self,
        place: str | None = None,
        *,
        before: str | None = None,
        limit: int = HISTORY_PAGE,
        most_steps: int | None = None,
    ) -> list[PastChange]:
        """Return at most `limit` changes of a place, or of all places, newest first, before the change `before`.
        `most_steps`: how many steps of a change are read; an import has tens of thousands. Raise InvalidInput if
        `before` is not a change of these places."""

    async def undo(self, change: str, place: str | None = None, *, by: str = "api") -> Undone:
        """Take back a change of a place, or of any place; later changes of other entries stay. Raise InvalidInput if
        the change does not exist, is too old, or its items were changed since; then nothing is changed."""

    def clean_up(
        self, place: str | None = None, *, dry_run: bool = False, by: str = "cleanup"
    ) -> AsyncIterator[PlaceCleanup]:
        """Move the due items into the archive, place by place, or with `dry_run` only name them. Raise InvalidInput if
        the place does not exist."""

    async def keep_up(self, seen_from_ms: int) -> int:
        """Do the daily upkeep: clean up, and delete for good whatever is no longer to be stored at `seen_from_ms`.
        Return the number of items that were cleaned up. A failure of a place is logged and passed over. Raises StorageError if a
        database cannot be asked."""

    async def examinations(self) -> list[Examine]:
        """Return calls that each give the findings about a part of what is stored. They change nothing."""

    async def copy_to(
        self, backup: BackupWriter, only: str | None, advance: Callable[[], None]
    ) -> CopyResult:
        """Add everything that is stored to a backup, calling `advance` after each place. `only`: the one conversation
        that is added."""

    async def check_backup(self, backups: BackupStore, name: str, only: str | None) -> None:
        """Raise StorageError or BackupNotFound if this engine's part of a backup cannot be used."""

    def restore(
        self,
        backups: BackupStore,
        name: str,
        mode: Mode,
        *,
        dry_run: bool,
        only: str | None,
        by: str,
    ) -> AsyncIterator[RestoredPlace]:
        """Bring back this engine's part of a backup, place by place, or with `dry_run` only name the changes. The
        backup is checked before anything changes."""


class Ledger(Protocol):
    """The ledger of upkeep: when it last ran, and which process may run it; `last_run_ms` and `note_run` are blocking
    calls."""

    def turn(self) -> AbstractAsyncContextManager[bool]:
        """Return whether this process may run upkeep; True for only one process at a time."""
        ...

    def last_run_ms(self) -> int | None:
        """Return when upkeep last ended, in milliseconds since 1970, or None if it never did."""

    def note_run(self, at_ms: int) -> None: ...


E = TypeVar("E", bound=Lifecycle)


def engine_of(engines: Sequence[E], change: str) -> E:
    """Return the engine that made a change. Raise InvalidInput if no engine makes such ids."""
    for engine in engines:
        if engine.made(change):
            return engine
    raise InvalidInput(
        "`{change}` is not a change id; give a changeId that a tool or `memory-server history` shows.",
        change,
    )

"""The archive of a conversation: what was removed from it and can come back, read from its commits. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from memory_server.conversations.changes import Commit, Forgotten, Restored
from memory_server.conversations.model import Memory, ShortTermMemory
from memory_server.kernel.values import frozen
from memory_server.lore import EntryKey, ForgetReason, LongTermMemory, TriggerRemoved, TriggerSet

Key = tuple[str, str]
"""Kind of a memory, and its id or name."""

KEEP_MS = 90 * 86_400_000
"""Milliseconds for which history and archive are kept by default: a quarter of a year, time enough to miss a memory."""


@frozen
class Horizon:
    """How far back the past is kept: from `since_ms` on, as seen at `now_ms` (milliseconds since 1970)."""

    since_ms: int
    now_ms: int

    def passed(self, times: Iterable[int | None]) -> int:
        """Count how many of the first of `times` are no longer kept. `times` has the order in which things happened:
        a clock can be wrong, the order cannot. So an unknown or future time is skipped; what happened before
        something old is old too, and what happened after something kept is kept."""
        count = 0
        for number, time_ms in enumerate(times, 1):
            if time_ms is None or time_ms > self.now_ms:
                continue
            if time_ms >= self.since_ms:
                break
            count = number
        return count


@frozen
class ArchivedMemory:
    """A memory that was removed: why, by which commit (`version`), when (milliseconds since 1970) and by whom."""

    memory: Memory
    reason: ForgetReason
    version: int
    at_ms: int
    by: str


def archived(
    newest_first: Iterable[Commit], newest: int | None = None
) -> tuple[ArchivedMemory, ...]:
    """Return what was removed and has not come back, oldest removal first; one memory may have been removed several
    times. Reads the commits `newest_first` only as far as the `newest` last removals need (all of them, if that is
    None)."""
    entries: dict[tuple[Key, int], ArchivedMemory] = {}
    """What is still in the archive, by its key and the version that removed it."""
    returns: defaultdict[Key, list[_Return]] = defaultdict(list)

    # Backwards, so that a return is seen before the removal that it takes back.
    for commit in newest_first:
        for change in reversed(commit.changes):
            match change:
                case Forgotten(memory, reason) | TriggerRemoved(memory, reason):
                    entry = ArchivedMemory(
                        memory, reason, version=commit.version, at_ms=commit.at_ms, by=commit.by
                    )
                    key = _key(memory)
                    if not any(a_return.takes_back(entry) for a_return in returns[key]):
                        entries.setdefault((key, entry.version), entry)
                case Restored(memory):
                    returns[_key(memory)].append(_Return(commit.version, None))
                case TriggerSet(memory):
                    # A new trigger under an old name takes a removal back only if it equals what was removed.
                    returns[_key(memory)].append(_Return(commit.version, memory))
                case _:
                    pass
        if newest is not None and len(entries) >= newest:
            break

    oldest_first = sorted(entries.values(), key=lambda entry: (entry.version, _key(entry.memory)))
    if newest is None:
        return tuple(oldest_first)
    return tuple(oldest_first[max(0, len(oldest_first) - newest) :])


@frozen
class _Return:
    """The return of a removed memory, in a version. If `memory` is None, every earlier removal is taken back."""

    version: int
    memory: Memory | None

    def takes_back(self, entry: ArchivedMemory) -> bool:
        return entry.version <= self.version and self.memory in (None, entry.memory)


def archived_ids(entries: Iterable[ArchivedMemory]) -> frozenset[str]:
    """Return the ids of the short-term memories in the archive entries."""
    return frozenset(
        entry.memory.id for entry in entries if isinstance(entry.memory, ShortTermMemory)
    )


def _key(memory: Memory) -> Key:
    return ("short_term" if isinstance(memory, ShortTermMemory) else "long_term", memory.key)


def deleted_entries(archive: Iterable[ArchivedMemory]) -> frozenset[EntryKey]:
    """Return the keys of the book entries that the user deleted, with a tool or in the file."""
    removals = (entry.memory for entry in archive if entry.reason in ("deleted", "hand"))
    memories = (memory for memory in removals if isinstance(memory, LongTermMemory))
    return frozenset(
        EntryKey(memory.book.book_id, memory.book.uid)
        for memory in memories
        if memory.book is not None
    )

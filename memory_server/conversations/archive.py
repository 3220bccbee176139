"""The archive of a conversation: what was removed from it and can come back, read from its commits. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from memory_server.conversations.changes import Commit, ForgetReason, Forgotten, Restored, TriggerRemoved, TriggerSet
from memory_server.conversations.model import Memory, ShortTermMemory

Key = tuple[str, str]
"""Kind of a memory, and its id or name."""

KEEP_MS = 90 * 86_400_000
"""Milliseconds for which history and archive are kept by default: a quarter of a year, time enough to miss a memory."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far back the past is kept: from `since_ms` on, as seen at `now_ms` (milliseconds since 1970)."""

    since_ms: int
    now_ms: int

    def passed(self, times: Iterable[int | None]) -> int:
        """How many of the first of `times`, given in the order in which things happened, are no longer kept. A clock
        can be wrong, the order cannot. So an unknown or future time is skipped; what happened before something old is
        old too, and what happened after something kept is kept."""
        count = 0
        for number, time_ms in enumerate(times, 1):
            if time_ms is None or time_ms > self.now_ms:
                continue
            if time_ms >= self.since_ms:
                break
            count = number
        return count


@dataclass(frozen=True, slots=True)
class Archived:
    """A memory that was removed: why, by which commit (`version`), when (milliseconds since 1970) and by whom."""

    memory: Memory
    reason: ForgetReason
    version: int
    at_ms: int
    by: str


def archived(newest_first: Iterable[Commit], newest: int | None = None) -> tuple[Archived, ...]:
    """What was removed and has not come back, oldest removal first; one memory may have been removed several times. Of
    the commits `newest_first` no more are read than the `newest` last removals need (None: all)."""
    found: dict[tuple[Key, int], Archived] = {}
    back: defaultdict[Key, list[tuple[int, Memory | None]]] = defaultdict(list)
    """What came back, and in which version; None: every earlier removal of that key is taken back."""

    def put(entry: Archived) -> None:
        key = _key(entry.memory)
        came_back = any(entry.version <= version and known in (None, entry.memory) for version, known in back[key])
        if not came_back:
            found.setdefault((key, entry.version), entry)

    for commit in newest_first:
        for change in reversed(commit.changes):
            match change:
                case Forgotten(memory, reason) | TriggerRemoved(memory, reason):
                    put(Archived(memory, reason, commit.version, commit.at_ms, commit.by))
                case Restored(memory):
                    back[_key(memory)].append((commit.version, None))
                case TriggerSet(memory):
                    # A new trigger under an old name takes a removal back only if it equals what was removed.
                    back[_key(memory)].append((commit.version, memory))
                case _:
                    pass
        if newest is not None and len(found) >= newest:
            break
    entries = sorted(found.values(), key=lambda entry: (entry.version, _key(entry.memory)))
    return tuple(entries if newest is None else entries[max(0, len(entries) - newest) :])


def archived_ids(entries: Iterable[Archived]) -> frozenset[str]:
    """The ids of the short-term memories among them."""
    return frozenset(entry.memory.id for entry in entries if isinstance(entry.memory, ShortTermMemory))


def _key(memory: Memory) -> Key:
    return ("short_term" if isinstance(memory, ShortTermMemory) else "long_term", memory.key)

"""The archive of a conversation: what was removed from it and can come back, as a fold over its commits.

Applying a commit twice is the same as once: a store may replay its journal over an archive that already holds
part of it. Pure; json_store/archive_file.py keeps it on disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memory_server.core.changes import Commit, ForgetReason, Forgotten, Restored, TriggerRemoved, TriggerSet
from memory_server.core.model import LongTermMemory, ShortTermMemory

Key = tuple[str, str]
"""Kind of a memory, and its id or name."""

KEEP_MS = 90 * 86_400_000
"""Milliseconds for which history and archive are kept unless set otherwise: a quarter, time to miss a memory."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far back the past is kept: from `since_ms` on, as seen at `now_ms` (milliseconds since 1970)."""

    since_ms: int
    now_ms: int

    def passed(self, times: Iterable[int | None]) -> int:
        """How many of the first of `times`, given in the order in which things happened, are no longer kept.

        Clocks are wrong at times, the order never is: a time that is unknown or still to come says nothing, what
        came before something old is old too, and what came after something that is kept is kept.
        """
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
    """A memory that was removed: why, by the commit `version`, when (milliseconds since 1970) and by whom."""

    memory: ShortTermMemory | LongTermMemory
    reason: ForgetReason
    version: int
    at_ms: int
    by: str


class Archive:
    """Entries by memory; one memory may have been removed several times."""

    def __init__(self, entries: Iterable[Archived] = ()) -> None:
        self._entries: dict[Key, dict[int, Archived]] = {}
        for entry in entries:
            self._put(entry)

    def follow(self, commit: Commit) -> None:
        """Do to the archive what `commit` did to the conversation."""
        for change in commit.changes:
            match change:
                case Forgotten(memory, reason) | TriggerRemoved(memory, reason):
                    self._put(Archived(memory, reason, commit.version, commit.at_ms, commit.by))
                case Restored(memory):
                    self._drop(memory, commit.version, whatever=True)
                case TriggerSet(memory):
                    self._drop(memory, commit.version, whatever=False)
                case _:
                    pass

    def entries(self) -> tuple[Archived, ...]:
        """All of them, oldest removal first."""
        found = [entry for versions in self._entries.values() for entry in versions.values()]
        return tuple(sorted(found, key=lambda entry: (entry.version, _key(entry.memory))))

    def _put(self, entry: Archived) -> None:
        self._entries.setdefault(_key(entry.memory), {})[entry.version] = entry

    def _drop(self, memory: ShortTermMemory | LongTermMemory, version: int, *, whatever: bool) -> None:
        """Take out what came back with `version`; a trigger stored anew under an old name is not what went."""
        versions = self._entries.get(_key(memory), {})
        for number, entry in tuple(versions.items()):
            if number <= version and (whatever or entry.memory == memory):
                del versions[number]


def archived_ids(entries: Iterable[Archived]) -> frozenset[str]:
    """The ids of the short-term memories among them."""
    return frozenset(entry.memory.id for entry in entries if isinstance(entry.memory, ShortTermMemory))


def touches_archive(commit: Commit) -> bool:
    """Whether following `commit` may change an archive."""
    return any(isinstance(change, Forgotten | TriggerRemoved | Restored | TriggerSet) for change in commit.changes)


def _key(memory: ShortTermMemory | LongTermMemory) -> Key:
    return ("short_term", memory.id) if isinstance(memory, ShortTermMemory) else ("long_term", memory.name)

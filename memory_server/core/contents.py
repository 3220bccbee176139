"""The contents of a conversation as one value, and the changes that bring them back.

A restore and an import are the same decision, made before anything is written. Pure: without files, clock and formats.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from memory_server.core.changes import Added, Change, CleanedUp, Edited, Forgotten, Restored, TriggerRemoved, TriggerSet
from memory_server.core.model import ConversationState, LongTermMemory, ShortTermMemory

Mode = Literal["merge", "overwrite"]
"""`merge` adds and replaces older ones; `overwrite` makes the conversation exactly what is brought."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What one conversation holds at one moment. Ids and names are unique in it.

    `left_out` names each memory that is too large to be stored, and why; it is not brought back.
    """

    conversation_id: str
    short_term: tuple[ShortTermMemory, ...] = ()
    long_term: tuple[LongTermMemory, ...] = ()
    last_cleanup_ms: int | None = None
    left_out: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Memories of both kinds."""
        return len(self.short_term) + len(self.long_term)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many memories were added, replaced, removed, there already, or kept because the stored one is newer."""

    added: int = 0
    replaced: int = 0
    removed: int = 0
    unchanged: int = 0
    kept_newer: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.added + other.added,
            self.replaced + other.replaced,
            self.removed + other.removed,
            self.unchanged + other.unchanged,
            self.kept_newer + other.kept_newer,
        )


def contents_of(state: ConversationState) -> Contents:
    """A copy of what `state` holds now: call it before the next `await`."""
    return Contents(
        state.conversation_id,
        tuple(state.short_term.values()),
        tuple(state.long_term.values()),
        state.last_cleanup_ms,
    )


def bringing_back(
    state: ConversationState, contents: Contents, mode: Mode, archived: Collection[str] = ()
) -> tuple[list[Change], Tally]:
    """The changes that bring `contents` into `state`, and their tally.

    `archived`: ids of memories in the archive; one that comes back leaves it. Memories are the same by id (short-term)
    or name (long-term). Every change carries what it replaces, so that the whole can be undone; bringing the same
    contents again changes nothing.
    """
    short, short_tally = _short_term(state.short_term, contents.short_term, mode, archived)
    long, long_tally = _long_term(state.long_term, contents.long_term, mode)
    changes = [*short, *long]
    cleaned, before = contents.last_cleanup_ms, state.last_cleanup_ms
    if cleaned is not None and cleaned != before and (before is None or mode == "overwrite"):
        changes.append(CleanedUp(cleaned, before))
    return changes, short_tally + long_tally


def _short_term(
    known: Mapping[str, ShortTermMemory],
    brought: tuple[ShortTermMemory, ...],
    mode: Mode,
    archived: Collection[str],
) -> tuple[list[Change], Tally]:
    changes: list[Change] = []
    replaced = unchanged = newer = 0
    for memory in brought:
        before = known.get(memory.id)
        if before is None:
            changes.append(Restored(memory, "undone") if memory.id in archived else Added(memory))
        elif before == memory:
            unchanged += 1
        elif mode == "overwrite" or memory.time_ms > before.time_ms:
            changes.append(Edited(memory, before))
            replaced += 1
        else:
            newer += 1
    ids = {memory.id for memory in brought}
    gone = [memory for memory in known.values() if memory.id not in ids] if mode == "overwrite" else []
    changes += [Forgotten(memory, "restored_over") for memory in gone]
    added = len(brought) - replaced - unchanged - newer
    return changes, Tally(added, replaced, len(gone), unchanged, newer)


def _long_term(
    known: Mapping[str, LongTermMemory], brought: tuple[LongTermMemory, ...], mode: Mode
) -> tuple[list[Change], Tally]:
    changes: list[Change] = []
    added = replaced = unchanged = newer = 0
    for memory in brought:
        before = known.get(memory.name)
        if before == memory:
            unchanged += 1
        elif before is not None and mode == "merge" and _changed_ms(memory) <= _changed_ms(before):
            newer += 1
        else:
            changes.append(TriggerSet(memory, before))
            added += before is None
            replaced += before is not None
    names = {memory.name for memory in brought}
    gone = [memory for memory in known.values() if memory.name not in names] if mode == "overwrite" else []
    changes += [TriggerRemoved(memory, "restored_over") for memory in gone]
    return changes, Tally(added, replaced, len(gone), unchanged, newer)


def _changed_ms(memory: LongTermMemory) -> int:
    return memory.created_ms if memory.updated_ms is None else max(memory.created_ms, memory.updated_ms)

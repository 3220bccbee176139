"""Everything that can happen to a conversation, as data, and the one function that applies it.

A change is absolute (ids, whole records, resulting scores), so applying it twice is the same as once and a
journal may be replayed over a snapshot that already holds part of it; it carries the former value, so that
history and undo are folds over the same changes. The JSON forms are in json_store/codec.py: a change added
here needs its form there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from memory_server.core.model import ConversationState, LongTermMemory, Memory, ShortTermMemory

ForgetReason = Literal["too_old", "faded", "deleted", "undone", "hand", "restored_over"]
"""Why a memory was removed: by the clean-up (`too_old`, `faded`), on demand (`deleted`), by undoing what stored it
(`undone`), by a person who took it out of the JSON file (`hand`), or because a backup without it was restored with
overwrite (`restored_over`)."""


@dataclass(frozen=True, slots=True)
class Added:
    """A short-term memory was stored."""

    memory: ShortTermMemory


@dataclass(frozen=True, slots=True)
class Reinforced:
    """A short-term memory was recalled and its score went from `before` to `after`."""

    id: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Edited:
    """A short-term memory was rewritten; both have the same id."""

    memory: ShortTermMemory
    before: ShortTermMemory


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A short-term memory was removed, and is in the archive now."""

    memory: ShortTermMemory
    reason: ForgetReason


@dataclass(frozen=True, slots=True)
class Restored:
    """A short-term memory came back as it was, with score and pin; `reason` is why it was removed."""

    memory: ShortTermMemory
    reason: ForgetReason


@dataclass(frozen=True, slots=True)
class Pinned:
    """A short-term memory that was not pinned will not be forgotten by the clean-up."""

    id: str


@dataclass(frozen=True, slots=True)
class Unpinned:
    """A pinned short-term memory may be forgotten again."""

    id: str


@dataclass(frozen=True, slots=True)
class TriggerSet:
    """A long-term memory was stored or edited; `before` is what had its name until then."""

    memory: LongTermMemory
    before: LongTermMemory | None


@dataclass(frozen=True, slots=True)
class TriggerRemoved:
    """A long-term memory was removed, and is in the archive now."""

    memory: LongTermMemory
    reason: ForgetReason = "deleted"


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """The clean-up looked at the conversation at `at_ms` (milliseconds since 1970)."""

    at_ms: int
    before_ms: int | None


Change = (
    Added | Reinforced | Edited | Forgotten | Restored | Pinned | Unpinned | TriggerSet | TriggerRemoved | CleanedUp
)


@dataclass(frozen=True, slots=True)
class Commit:
    """Changes that became durable together. `version` is the conversation's after them, `by` who made them."""

    version: int
    at_ms: int
    by: str
    changes: tuple[Change, ...]


def putting(memory: Memory, before: Memory | None) -> Change:
    """The change that stores `memory`; `before` is the memory of the same kind and key, if there is one."""
    match memory, before:
        case LongTermMemory(), LongTermMemory() | None:
            return TriggerSet(memory, before)
        case ShortTermMemory(), ShortTermMemory():
            return Edited(memory, before)
    assert isinstance(memory, ShortTermMemory)
    return Added(memory)


def removing(memory: Memory, reason: ForgetReason) -> Change:
    """The change that removes `memory`."""
    return Forgotten(memory, reason) if isinstance(memory, ShortTermMemory) else TriggerRemoved(memory, reason)


def apply(state: ConversationState, changes: Iterable[Change]) -> None:
    """Apply `changes` to `state`, in order and in place, at a cost of O(1) each.

    A change to a memory that is gone does nothing: this happens when a journal is replayed over a newer snapshot.
    """
    for change in changes:
        match change:
            case Added(memory) | Restored(memory):
                state.short_term[memory.id] = memory
            case Edited(memory):
                if memory.id in state.short_term:
                    state.short_term[memory.id] = memory
            case Pinned(id=memory_id) | Unpinned(id=memory_id):
                if (known := state.short_term.get(memory_id)) is not None:
                    state.short_term[memory_id] = replace(known, pinned=isinstance(change, Pinned))
            case Reinforced(id=memory_id, after=after):
                if (known := state.short_term.get(memory_id)) is not None:
                    state.short_term[memory_id] = replace(known, score=after)
            case Forgotten(memory):
                state.short_term.pop(memory.id, None)
            case TriggerSet(memory):
                state.long_term[memory.name] = memory
            case TriggerRemoved(memory):
                state.long_term.pop(memory.name, None)
            case CleanedUp(at_ms):
                state.last_cleanup_ms = at_ms
            case _:
                assert_never(change)
        if state.follower is not None:
            state.follower.follow(change)

"""Everything that can happen to a conversation, as data, and the one function that makes it happen.

A change is absolute (ids, whole records, resulting scores), so applying it twice is the same as once and a
journal may be replayed over a snapshot that already holds part of it; it carries the former value, so that
history and undo are folds over the same changes. The JSON forms are in storage/codec.py: a change added
here needs its form there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from memory_server.model import ConversationState, LongTermMemory, ShortTermMemory

ForgetReason = Literal["too_old", "faded", "deleted"]


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
class Forgotten:
    """A short-term memory was removed: by the clean-up (`too_old`, `faded`) or on demand (`deleted`)."""

    memory: ShortTermMemory
    reason: ForgetReason


@dataclass(frozen=True, slots=True)
class TriggerSet:
    """A long-term memory was stored or edited; `before` is what stood under its name."""

    memory: LongTermMemory
    before: LongTermMemory | None


@dataclass(frozen=True, slots=True)
class TriggerRemoved:
    """A long-term memory was deleted."""

    memory: LongTermMemory


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """The clean-up looked at the conversation at `at_ms` (milliseconds since 1970)."""

    at_ms: int
    before_ms: int | None


Change = Added | Reinforced | Forgotten | TriggerSet | TriggerRemoved | CleanedUp


def apply(state: ConversationState, changes: Iterable[Change]) -> None:
    """Make `changes` happen to `state`, in order and in place, at a cost of O(1) each.

    A change to a memory that is gone does nothing: replaying a journal over a newer snapshot meets those.
    """
    for change in changes:
        match change:
            case Added(memory):
                state.short_term[memory.id] = memory
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

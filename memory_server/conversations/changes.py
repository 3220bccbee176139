"""Everything that can happen to a conversation, as data: applying it, and taking it back.

A change is absolute (ids, whole records, resulting scores), so applying it twice is the same as once and a
journal may be replayed over a snapshot that already holds part of it; it carries the former value, so that
history and undo are folds over the same changes. The JSON forms are in change_forms.py: a change added here
needs its form there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal, assert_never

from memory_server.conversations.model import ConversationState, LongTermMemory, Memory, ShortTermMemory
from memory_server.kernel.errors import InvalidInput

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
class Muted:
    """The places in which a short-term memory does not come unasked are other ones."""

    id: str
    before: tuple[str, ...]
    after: tuple[str, ...]


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


OfShortTerm = Reinforced | Pinned | Unpinned | Muted
"""Changes that name their memory by its id."""
Change = Added | Edited | Forgotten | Restored | OfShortTerm | TriggerSet | TriggerRemoved | CleanedUp


@dataclass(frozen=True, slots=True)
class Commit:
    """Changes that became durable together. `version` is the conversation's after them, `by` who made them. `more`: how
    many changes it has beside these, where a reader asked for some only."""

    version: int
    at_ms: int
    by: str
    changes: tuple[Change, ...]
    more: int = 0


def putting(memory: Memory, before: Memory | None) -> Change:
    """The change that stores `memory`; `before` is the memory of the same kind and key, if there is one."""
    if isinstance(memory, LongTermMemory):
        return TriggerSet(memory, before if isinstance(before, LongTermMemory) else None)
    return Edited(memory, before) if isinstance(before, ShortTermMemory) else Added(memory)


def removing(memory: Memory, reason: ForgetReason) -> Change:
    return Forgotten(memory, reason) if isinstance(memory, ShortTermMemory) else TriggerRemoved(memory, reason)


def memories_in(changes: Iterable[Change]) -> Iterator[Memory]:
    """The memories that these changes hold, as they were before and after."""
    for change in changes:
        for name in ("memory", "before"):
            if isinstance(memory := getattr(change, name, None), ShortTermMemory | LongTermMemory):
                yield memory


def apply(state: ConversationState, changes: Iterable[Change]) -> None:
    """Apply `changes` to `state`, in order and in place, at a cost of O(1) each. A change to a memory that is gone does
    nothing: this happens when a journal is replayed over a newer snapshot."""
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
            case Muted(id=memory_id, after=places):
                if (known := state.short_term.get(memory_id)) is not None:
                    state.short_term[memory_id] = replace(known, muted=places)
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


# --- taking a commit back, also after later changes: decided on the state as it is now ----------------------

_MARK_CHARS = 4


def change_id(conversation_id: str, version: int) -> str:
    """The id of the commit that made `version`: `42-9f86`. The mark tells one conversation's ids from another's."""
    return f"{version}-{hashlib.sha256(conversation_id.encode()).hexdigest()[:_MARK_CHARS]}"


def version_of(conversation_id: str, text: str) -> int:
    """The version that a change id names. Raises InvalidInput: it is not a change id, or it is one of another
    conversation."""
    number = text.partition("-")[0]
    version = int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else 0
    if version < 1 or text != change_id(conversation_id, version):
        raise InvalidInput(
            "`{text}` is not a change id of the conversation {conversation}; give a changeId that a tool "
            "returned, and the same conversation_id.",
            text,
            conversation_id,
        )
    return version


def merged(base: ShortTermMemory, edited: ShortTermMemory, now: ShortTermMemory) -> ShortTermMemory:
    """`now`, with each field that differs between `base` and `edited` set as in `edited`."""
    names = (field.name for field in fields(ShortTermMemory))
    return replace(now, **{n: getattr(edited, n) for n in names if getattr(base, n) != getattr(edited, n)})


def taking_back(state: ConversationState, commit: Commit) -> tuple[Change, ...]:
    """The changes that take `commit` back now. Memories that are already gone, or already back, stay as they are.
    Raises InvalidInput: a long-term memory of the commit was changed since; or nothing is left to take back."""
    # A state of its own, on which what was taken back so far has happened.
    view = ConversationState(state.conversation_id, short_term=dict(state.short_term), long_term=dict(state.long_term))
    made: list[Change] = []
    for change in reversed(commit.changes):
        back = _back(view, change)
        if back is not None:
            apply(view, [back])
            made.append(back)
    if not made:
        raise InvalidInput("Nothing of this change is left to undo; the history lists the changes that were made.")
    return tuple(made)


def _back(view: ConversationState, change: Change) -> Change | None:
    match change:
        case CleanedUp():
            return None
        case TriggerSet(memory, before):
            now = view.long_term.get(memory.name)
            if now == memory:
                return TriggerRemoved(memory, "undone") if before is None else TriggerSet(before, memory)
            if now == before:
                return None
            raise _changed_since(memory.name)
        case TriggerRemoved(memory):
            now = view.long_term.get(memory.name)
            if now is not None and now != memory:
                raise _changed_since(memory.name)
            return TriggerSet(memory, None) if now is None else None
        case Forgotten(gone, reason):
            return None if gone.id in view.short_term else Restored(gone, reason)
    known = view.short_term.get(change.id if isinstance(change, OfShortTerm) else change.memory.id)
    if known is None:
        return None
    match change:
        case Added():
            return Forgotten(known, "undone")
        case Restored(reason=reason):
            return Forgotten(known, reason)
        case Edited(edited, original):
            # What was sent to a model stays sent: taking its words back must not send the memory again.
            former = replace(merged(edited, original, known), word_tries=known.word_tries)
            return Edited(former, known) if former != known else None
        case Reinforced(before=score, after=after):
            # Only the difference is taken back: what later searches added stays.
            return Reinforced(known.id, known.score, known.score - (after - score))
        case Pinned():
            return Unpinned(known.id) if known.pinned else None
        case Unpinned():
            return None if known.pinned else Pinned(known.id)
        case Muted(before=former, after=places):
            # Only these places are taken back: those muted since stay muted.
            kept = [place for place in known.muted if place in former or place not in places]
            back = (*kept, *(place for place in former if place not in places and place not in kept))
            return Muted(known.id, known.muted, back) if back != known.muted else None
        case _:
            assert_never(change)


def _changed_since(name: str) -> InvalidInput:
    return InvalidInput(
        "`{name}` was changed again after this change; undo the later change first, which the history lists.", name
    )


def replay(state: ConversationState, commits: Iterable[Commit]) -> None:
    """Apply `commits`, oldest first, to `state`."""
    for commit in commits:
        apply(state, commit.changes)
        state.version = commit.version

"""Taking a commit back, also after later changes: the decision is made on the state as it is now."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from typing import assert_never

from memory_server.core import changes
from memory_server.core.changes import Change, Commit
from memory_server.core.errors import InvalidInput
from memory_server.core.model import ConversationState, ShortTermMemory

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
            f"`{text}` is not a change id of the conversation {conversation_id}; "
            "give a changeId that a tool returned, and the same conversation_id."
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
            changes.apply(view, [back])
            made.append(back)
    if not made:
        raise InvalidInput("Nothing of this change is left to undo; get_history lists the changes that were made.")
    return tuple(made)


def _back(view: ConversationState, change: Change) -> Change | None:
    match change:
        case changes.CleanedUp():
            return None
        case changes.TriggerSet(memory, before):
            now = view.long_term.get(memory.name)
            if now == memory:
                return (
                    changes.TriggerRemoved(memory, "undone") if before is None else changes.TriggerSet(before, memory)
                )
            if now == before:
                return None
            raise _changed_since(memory.name)
        case changes.TriggerRemoved(memory):
            now = view.long_term.get(memory.name)
            if now is not None and now != memory:
                raise _changed_since(memory.name)
            return changes.TriggerSet(memory, None) if now is None else None
        case changes.Forgotten(gone, reason):
            return None if gone.id in view.short_term else changes.Restored(gone, reason)
    known = view.short_term.get(
        change.id if isinstance(change, changes.Reinforced | changes.Pinned | changes.Unpinned) else change.memory.id
    )
    if known is None:
        return None
    match change:
        case changes.Added():
            return changes.Forgotten(known, "undone")
        case changes.Restored(reason=reason):
            return changes.Forgotten(known, reason)
        case changes.Edited(edited, original):
            return changes.Edited(former, known) if (former := merged(edited, original, known)) != known else None
        case changes.Reinforced(before=score, after=after):
            # Only the difference is taken back: what later searches added stays.
            return changes.Reinforced(known.id, known.score, known.score - (after - score))
        case changes.Pinned():
            return changes.Unpinned(known.id) if known.pinned else None
        case changes.Unpinned():
            return None if known.pinned else changes.Pinned(known.id)
        case _:
            assert_never(change)


def _changed_since(name: str) -> InvalidInput:
    return InvalidInput(
        f"`{name}` was changed again after this change; undo the later change first, which get_history lists."
    )

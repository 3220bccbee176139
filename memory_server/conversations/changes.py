"""Everything that can happen to a conversation, as data: applying it, and taking it back.

A change is absolute (ids, whole records, resulting scores), so applying it twice is the same as once and a
journal may be replayed over a snapshot that already holds part of it; it carries the former value, so that
history and undo are folds over the same changes. The JSON forms are in change_forms.py: a change added here
needs its form there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, assert_never

from memory_server.conversations.model import (
    ConversationState,
    Correction,
    Memory,
    ShortTermMemory,
)
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import frozen
from memory_server.lore import (
    MOST_CHATS,
    ChatState,
    ChatStep,
    ForgetReason,
    LongTermMemory,
    TriggerRemoved,
    TriggerSet,
    firing_key,
    without_memory,
)


@frozen
class Added:
    """A short-term memory was stored."""

    memory: ShortTermMemory


@frozen
class Reinforced:
    """A short-term memory was recalled and its score went from `before` to `after`."""

    id: str
    before: float
    after: float


@frozen
class Edited:
    """A short-term memory was rewritten; both have the same id."""

    memory: ShortTermMemory
    before: ShortTermMemory


@frozen
class Forgotten:
    """A short-term memory was removed, and is in the archive now."""

    memory: ShortTermMemory
    reason: ForgetReason


@frozen
class Restored:
    """A short-term memory came back as it was, with score and pin; `reason` is why it was removed."""

    memory: ShortTermMemory
    reason: ForgetReason


@frozen
class Pinned:
    """A short-term memory that was not pinned will not be forgotten by the clean-up."""

    id: str


@frozen
class Unpinned:
    """A pinned short-term memory may be forgotten again."""

    id: str


@frozen
class Muted:
    """The places in which a short-term memory does not come unasked were changed."""

    id: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@frozen
class CleanedUp:
    """The clean-up looked at the conversation at `at_ms` (milliseconds since 1970)."""

    at_ms: int
    before_ms: int | None


@frozen
class ChatMoved:
    """Memories came in the chat of a session: what that did to its state, as `ChatStep` says it."""

    session: str
    before: ChatState | None
    after: ChatState | None

    @staticmethod
    def of(session: str, step: ChatStep) -> ChatMoved:
        return ChatMoved(session, step.before, step.after)

    @property
    def step(self) -> ChatStep:
        return ChatStep(self.before, self.after)


OfShortTerm = Reinforced | Pinned | Unpinned | Muted
"""Changes that name their memory by its id."""
Change = (
    Added
    | Edited
    | Forgotten
    | Restored
    | OfShortTerm
    | TriggerSet
    | TriggerRemoved
    | CleanedUp
    | ChatMoved
)


@frozen
class Commit:
    """Changes that became durable together. `version` is the conversation's after them, `by` who made them. `more`:
    how many further changes it has, if a reader asked only for some."""

    version: int
    at_ms: int
    by: str
    changes: tuple[Change, ...]
    more: int = 0


def putting(memory: Memory, before: Memory | None) -> Change:
    """Make the change that stores `memory`; `before` is the stored memory of the same kind and key, or None."""
    if isinstance(memory, LongTermMemory):
        return TriggerSet(memory, before if isinstance(before, LongTermMemory) else None)
    if isinstance(before, ShortTermMemory):
        return Edited(memory, before)
    return Added(memory)


def removing(memory: Memory, reason: ForgetReason) -> Change:
    """Make the change that removes `memory`."""
    if isinstance(memory, ShortTermMemory):
        return Forgotten(memory, reason)
    return TriggerRemoved(memory, reason)


def memories_in(changes: Iterable[Change]) -> Iterator[Memory]:
    """Yield the memories in these changes, as they were before and after."""
    for change in changes:
        for name in ("memory", "before"):
            memory = getattr(change, name, None)
            if isinstance(memory, ShortTermMemory | LongTermMemory):
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
            case Pinned(id=memory_id):
                _rewrite(state, memory_id, pinned=True)
            case Unpinned(id=memory_id):
                _rewrite(state, memory_id, pinned=False)
            case Muted(id=memory_id, after=places):
                _rewrite(state, memory_id, muted=places)
            case Reinforced(id=memory_id, after=score):
                _rewrite(state, memory_id, score=score)
            case Forgotten(memory):
                state.short_term.pop(memory.id, None)
            case TriggerSet(memory):
                state.long_term[memory.name] = memory
                state.shelf = None
            case TriggerRemoved(memory):
                state.long_term.pop(memory.name, None)
                state.shelf = None
                _forget_firings(state, memory)
            case ChatMoved(session):
                _move_chat(state, session, change.step)
            case CleanedUp(at_ms):
                state.last_cleanup_ms = at_ms
            case _:
                assert_never(change)

        # An index must see every change, in order, or its answers become wrong.
        if state.follower is not None:
            state.follower.follow(change)


def _rewrite(state: ConversationState, memory_id: str, **fields: Any) -> None:
    """Give a short-term memory other values, if it is still there."""
    memory = state.short_term.get(memory_id)
    if memory is not None:
        state.short_term[memory_id] = replace(memory, **fields)


def _forget_firings(state: ConversationState, memory: LongTermMemory) -> None:
    """Forget when a memory that is gone came."""
    key = firing_key(memory.name, state.conversation_id)
    for session, chat in state.chats.items():
        if key in chat.firings:
            state.chats[session] = without_memory(chat, key)


def _move_chat(state: ConversationState, session: str, step: ChatStep) -> None:
    """Apply a step to the state of a chat, which may end it. Of too many chats, forget those whose last recall is
    oldest."""
    after = step.applied(state.chats.pop(session, None))
    if after is not None:
        state.chats[session] = after
    while len(state.chats) > MOST_CHATS:
        oldest = min(state.chats, key=lambda name: state.chats[name].at_ms)
        del state.chats[oldest]


# --- taking a commit back, also after later changes: decided on the state as it is now ----------------------

_MARK_CHARS = 4
_MOST_DIGITS = 15
"""Digits of a version in a change id."""


def change_id(conversation_id: str, version: int) -> str:
    """Return the id of the commit that made `version`, such as `42-9f86`. Its mark differs between conversations."""
    mark = hashlib.sha256(conversation_id.encode()).hexdigest()[:_MARK_CHARS]
    return f"{version}-{mark}"


def version_in(change: str) -> int:
    """Return the version in a change id, or 0 if the text has another form."""
    number, dash, mark = change.partition("-")
    is_number = number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS
    if not (is_number and dash and mark):
        return 0
    return int(number)


def version_of(conversation_id: str, text: str) -> int:
    """Return the version in a change id. Raises InvalidInput if it is not a change id of this conversation."""
    version = version_in(text)
    if version < 1 or text != change_id(conversation_id, version):
        raise InvalidInput(
            "`{text}` is not a change id of the conversation {conversation}; give a changeId that a tool "
            "returned, and the same conversation_id.",
            text,
            conversation_id,
        )
    return version


def merged(
    base: ShortTermMemory, edited: ShortTermMemory, present: ShortTermMemory
) -> ShortTermMemory:
    """Return `present`, with each field that differs between `base` and `edited` set as in `edited`. The words and
    their weights are one value: those of `present` may have been found anew, and be more or fewer."""
    changed: dict[str, Any] = {}
    for field in fields(ShortTermMemory):
        value = getattr(edited, field.name)
        if getattr(base, field.name) != value:
            changed[field.name] = value
    if "words" in changed or "weights" in changed:
        changed |= {"words": edited.words, "weights": edited.weights}
    return replace(present, **changed)


def kept_corrections(former: ShortTermMemory) -> tuple[Correction, ...]:
    """Return what a memory still corrects when it says something else: what a caller or a person said, and not what
    the rules found in its former words."""
    return tuple([older for older in former.corrects if older.by != "rule"])


def replacing(former: ShortTermMemory, memory: ShortTermMemory, *, timed: bool) -> ShortTermMemory:
    """Return what a turn becomes that was stored as `former` and comes again as `memory`: `former` itself if it says
    the same, otherwise `memory` with the id, score and marks of `former`. With `timed`, the messages of `memory` have
    times of their own."""
    if former.messages == memory.messages:
        return former
    return replace(
        memory,
        id=former.id,
        time_ms=memory.time_ms if timed else former.time_ms,
        score=former.score,
        pinned=former.pinned,
        muted=former.muted,
        corrects=kept_corrections(former),
        extra=former.extra,
    )


def taking_back(state: ConversationState, commit: Commit) -> tuple[Change, ...]:
    """Return the changes that undo `commit` now. Memories that are already gone, or already back, stay as they are.
    Raises InvalidInput if a long-term memory of the commit was changed since, or if nothing is left to undo."""
    # A copy to which each reversal is applied, because the next reversal depends on it.
    view = ConversationState(
        state.conversation_id, short_term=dict(state.short_term), long_term=dict(state.long_term)
    )
    view.chats = dict(state.chats)
    reversals: list[Change] = []
    for change in reversed(commit.changes):
        reversal = reversal_of(view, change)
        if reversal is not None:
            apply(view, [reversal])
            reversals.append(reversal)
    if not reversals:
        raise InvalidInput(
            "Nothing of this change is left to undo; the history lists the changes that were made."
        )
    return tuple(reversals)


def reversal_of(view: ConversationState, change: Change) -> Change | None:
    """Return the change that undoes a change, or None if nothing of it is left, or if it only notes a clean-up.
    Raises InvalidInput if a long-term memory of it was changed since."""
    match change:
        case CleanedUp():
            return None
        case ChatMoved(session):
            chat = view.chats.get(session)
            if chat is None:
                return None
            step = change.step.taken_back(chat)
            if step is None:
                return None
            return ChatMoved.of(session, step)
        case TriggerSet(memory, before):
            return _trigger_set_reversal(view.long_term.get(memory.name), memory, before)
        case TriggerRemoved(memory):
            present_trigger = view.long_term.get(memory.name)
            if present_trigger is None:
                return TriggerSet(memory, None)
            if present_trigger != memory:
                raise _changed_since(memory.name)
            return None
        case Forgotten(memory, reason):
            if memory.id in view.short_term:
                return None
            return Restored(memory, reason)

    # All other changes are to a short-term memory, which may be gone.
    memory_id = change.id if isinstance(change, OfShortTerm) else change.memory.id
    present = view.short_term.get(memory_id)
    if present is None:
        return None
    match change:
        case Added():
            return Forgotten(present, "undone")
        case Restored(reason=reason):
            return Forgotten(present, reason)
        case Edited(edited, original):
            # What was sent to a model stays sent: taking its words back must not send the memory again.
            former = replace(merged(edited, original, present), word_tries=present.word_tries)
            return Edited(former, present) if former != present else None
        case Reinforced(before=former_score, after=score):
            # Only the difference is taken back: what later searches added stays.
            return Reinforced(present.id, present.score, present.score - (score - former_score))
        case Pinned():
            return Unpinned(present.id) if present.pinned else None
        case Unpinned():
            return None if present.pinned else Pinned(present.id)
        case Muted(before=former_places, after=places):
            # Only these places are taken back: places muted since stay muted.
            muted = [
                place for place in present.muted if place in former_places or place not in places
            ]
            muted += [
                place for place in former_places if place not in places and place not in muted
            ]
            if tuple(muted) == present.muted:
                return None
            return Muted(present.id, present.muted, tuple(muted))
        case _:
            assert_never(change)


def _trigger_set_reversal(
    present: LongTermMemory | None, memory: LongTermMemory, before: LongTermMemory | None
) -> Change | None:
    """Return the change that undoes that `memory` was stored in place of `before`, or None if `before` is there
    again. Raises InvalidInput if it was changed since."""
    if present == memory:
        if before is None:
            return TriggerRemoved(memory, "undone")
        return TriggerSet(before, memory)
    if present != before:
        raise _changed_since(memory.name)
    return None


def _changed_since(name: str) -> InvalidInput:
    return InvalidInput(
        "`{name}` was changed again after this change; undo the later change first, which the history lists.",
        name,
    )


def replay(state: ConversationState, commits: Iterable[Commit]) -> None:
    """Apply `commits`, oldest first, to `state`."""
    for commit in commits:
        apply(state, commit.changes)
        state.version = commit.version

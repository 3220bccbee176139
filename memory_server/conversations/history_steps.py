"""Changes of a conversation as steps of its history, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from languages import N_, _, counted
from memory_server.conversations.changes import (
    Change,
    ChatMoved,
    CleanedUp,
    Commit,
    Edited,
    Muted,
    Pinned,
    Reinforced,
    Unpinned,
    change_id,
)
from memory_server.kernel.lifecycle import (
    HistoryStep,
    PastChange,
)
from memory_server.kernel.messages import said_beginning
from memory_server.kernel.text import beginning
from memory_server.lore import TriggerRemoved, TriggerSet

ASKED_FOR_WORDS = N_("asked for other words")
"""What was done to a memory that was sent to a model and got no words."""
_CLASS_WORDS = (
    N_("added"),
    N_("edited"),
    N_("forgotten"),
    N_("restored"),
    N_("pinned"),
    N_("unpinned"),
)
"""Words for changes that `step_of` names by their class; only the catalogue reads this."""


def past_change(place: str, commit: Commit) -> PastChange:
    """Describe a commit as a change of the history. An erased commit gets the single step `erased`."""
    steps = (
        _book_switch_steps(commit.changes)
        or tuple(map(step_of, commit.changes))
        or (HistoryStep(N_("erased")),)
    )
    return PastChange(
        change_id(place, commit.version), place, commit.at_ms, commit.by, steps, commit.more
    )


def _book_switch_steps(changes: Sequence[Change]) -> tuple[HistoryStep, ...]:
    """Return a single step for changes that switch entries of the same book, all of them on or all off; empty for
    other changes."""
    switched: set[tuple[str, bool]] = set()
    book_name = ""
    for change in changes:
        if (
            not isinstance(change, TriggerSet)
            or change.before is None
            or change.memory.book is None
        ):
            return ()

        before = change.before
        is_off = change.memory.rules.is_off
        if (
            change.memory != replace(before, rules=replace(before.rules, is_off=is_off))
            or before.rules.is_off == is_off
        ):
            return ()

        switched.add((change.memory.book.book_id, is_off))
        book_name = change.memory.book.book_name

    # Entries of two books, or on and off together: each change is told by itself.
    if len(switched) != 1:
        return ()
    [(_book_id, is_off)] = switched
    action = N_("switched off") if is_off else N_("switched on")
    return (HistoryStep(action, book_name, counted(len(changes), "entry")),)


def step_of(change: Change) -> HistoryStep:
    """Describe what a change did to one memory."""
    match change:
        # Before the other edits: only the count of tries has changed.
        case Edited(memory, before) if memory == replace(before, word_tries=memory.word_tries):
            return HistoryStep(ASKED_FOR_WORDS, memory.id)
        case Reinforced(id=memory_id, before=before, after=after):
            return HistoryStep(
                N_("reinforced"), memory_id, _("{before:g} to {after:g}", before, after)
            )
        case Pinned(id=memory_id) | Unpinned(id=memory_id):
            return HistoryStep(type(change).__name__.lower(), memory_id)
        case Muted(id=memory_id, after=places):
            return HistoryStep(
                N_("muted") if places else N_("no longer muted"),
                memory_id,
                ", ".join(places) or None,
            )
        case TriggerSet(memory, before):
            return HistoryStep(
                N_("stored") if before is None else N_("replaced"),
                memory.name,
                beginning(memory.prompt),
            )
        case TriggerRemoved(memory):
            return HistoryStep(N_("removed"), memory.name, beginning(memory.prompt))
        case CleanedUp():
            return HistoryStep(N_("cleaned up"))
        case ChatMoved(session, after=after):
            count = 0 if after is None else after.messages
            return HistoryStep(N_("counted"), session or None, counted(count, "message"))

        case _:
            return HistoryStep(
                type(change).__name__.lower(), change.memory.id, said_beginning(change.memory.text)
            )

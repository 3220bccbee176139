"""Which older memories of its conversation a memory corrects: those that a caller names, and those that the rules find.

A decision over the state; the rules are in nlp/corrections.py. Nobody corrects what somebody else said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from memory_server.conversations.changes import Change, Edited
from memory_server.conversations.model import (
    MOST_CORRECTED,
    ConversationState,
    Correction,
    ShortTermMemory,
)
from memory_server.conversations.recall.corrections import newer_by_older
from memory_server.kernel.errors import InvalidInput
from nlp.corrections import Statement, statement_of

_LOOKED_AT = 2_000
"""Memories among which older statements are looked for, the newest first: it takes 1 ms for each turn that may correct."""


def statement_of_user(memory: ShortTermMemory) -> Statement:
    """What the user says in a memory."""
    return statement_of(_said_by_user(memory))


def refuse_unknown(ids: Sequence[str], state: ConversationState) -> None:
    """Raises InvalidInput: the conversation has no memory of one of these ids, or they are too many."""
    if len(ids) > MOST_CORRECTED:
        raise InvalidInput("One memory corrects at most {number} others.", MOST_CORRECTED)
    for memory_id in ids:
        if memory_id not in state.short_term:
            raise InvalidInput(
                "There is no memory `{memory}` in this conversation to correct; give ids that a recall of it gave.",
                memory_id,
            )


def correcting(
    state: ConversationState, memory_id: str, statement: Statement, ids: Sequence[str]
) -> tuple[Change, ...]:
    """The change that links a memory with those of these `ids`, and with the one that its `statement` corrects."""
    memory = state.short_term.get(memory_id)
    if memory is None:
        return ()
    known = {older.id for older in memory.corrects} | {memory_id}
    corrections = [Correction(id_, "caller") for id_ in ids if id_ not in known]
    if not corrections and not memory.corrects:
        corrections += _found_by_rule(state, memory, statement)
    if not corrections:
        return ()
    all_of_them = (*memory.corrects, *dict.fromkeys(corrections))[:MOST_CORRECTED]
    return (Edited(replace(memory, corrects=all_of_them), memory),)


def _found_by_rule(
    state: ConversationState, memory: ShortTermMemory, statement: Statement
) -> list[Correction]:
    """Find the last memory that says otherwise what this one says. What that one corrected follows from it."""
    hints = statement.hints()
    if not hints:
        return []
    speakers = _speakers(memory)
    for older in islice(reversed(state.short_term.values()), _LOOKED_AT):
        if older.time_ms >= memory.time_ms or older.id == memory.id:
            continue
        text = older.text.lower()
        if not any(hint in text for hint in hints) or _speakers(older) != speakers:
            continue
        if not statement.corrects(statement_of_user(older)):
            continue
        if older.id not in newer_by_older(state.short_term.values()):
            return [Correction(older.id, "rule")]
    return []


def _said_by_user(memory: ShortTermMemory) -> str:
    return "\n".join(message.content for message in memory.messages if message.role == "user")


def _speakers(memory: ShortTermMemory) -> frozenset[str | None]:
    """The names of the users who speak in a memory."""
    return frozenset(message.name for message in memory.messages if message.role == "user")

"""Which older memories of its conversation a memory corrects: memories that a caller names, and memories that the
rules find.

A decision over the state; the rules are in nlp/corrections.py. A user never corrects what another user said.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
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
from memory_server.kernel.messages import Message
from nlp.corrections import Statement, statement_of

_LOOKED_AT = 2_000
"""Memories among which older statements are looked for, the newest first: a look at all of them takes some 1 ms."""
_COMPARED = 50
"""Memories with a sign of the statement that are compared with it: some 20 us each."""


def statement_of_user(memory: ShortTermMemory) -> Statement:
    """Return the statement that the user makes in a memory."""
    return statement_of(_said_by_user(memory))


def refuse_uncorrectable(
    ids: Sequence[str], state: ConversationState, messages: Sequence[Message]
) -> None:
    """Check that the conversation's memories with these ids may be corrected by these messages. Raises InvalidInput
    if the ids are too many, an id is unknown, or its memory is of another user."""
    if len(ids) > MOST_CORRECTED:
        raise InvalidInput("One memory corrects at most {number} others.", MOST_CORRECTED)
    for memory_id in ids:
        if memory_id not in state.short_term:
            raise InvalidInput(
                "There is no memory `{memory}` in this conversation to correct; give ids that a recall of it gave.",
                memory_id,
            )
        older_names = _names(state.short_term[memory_id].messages)
        names = _names(messages)
        if names and older_names and names.isdisjoint(older_names):
            raise InvalidInput(
                "The memory `{memory}` is of another user, whose facts only that user corrects; give ids of the same user.",
                memory_id,
            )


def linked(
    state: ConversationState, memory_id: str, corrections: Sequence[Correction]
) -> tuple[Change, ...]:
    """Return the change that lets a memory correct these as well, at most `MOST_CORRECTED` in all; none if nothing is
    added or the memory is gone. It never corrects a memory that was said later, or that corrects it."""
    memory = state.short_term.get(memory_id)
    if memory is None:
        return ()
    known_ids = {older.id for older in memory.corrects} | {memory.id}
    added: list[Correction] = []
    for correction in corrections:
        older = state.short_term.get(correction.id)
        if older is None or older.time_ms > memory.time_ms or correction.id in known_ids:
            continue
        if all(oldest.id != memory_id for oldest in older.corrects):
            added.append(correction)
    if not added:
        return ()
    all_of_them = (*memory.corrects, *dict.fromkeys(added))[:MOST_CORRECTED]
    return (Edited(replace(memory, corrects=all_of_them), memory),)


def found_by_rule(
    state: ConversationState, memory: ShortTermMemory, statement: Statement
) -> tuple[Correction, ...]:
    """Return the newest earlier memory of the same speakers that says what this one corrects, as a correction; none
    if this one corrects something already. At most `_COMPARED` memories are compared. A memory of another project, or
    one that is corrected already, is passed over."""
    signs = statement.signs()
    if not signs or memory.corrects:
        return ()

    # Made only when needed: the links of all memories cost more than a look at a few.
    corrected_ids: Container[str] | None = None
    for older in islice(_with_signs(state, signs), _COMPARED):
        if older.time_ms >= memory.time_ms or older.id == memory.id:
            continue
        if None not in (older.folder, memory.folder) and older.folder != memory.folder:
            continue  # what holds in one project says nothing of another
        if _speakers(older) != _speakers(memory) or not statement.corrects(_said_by_user(older)):
            continue
        if corrected_ids is None:
            corrected_ids = newer_by_older(state.short_term.values())
        if older.id not in corrected_ids:
            return (Correction(older.id, "rule"),)
    return ()


def _with_signs(state: ConversationState, signs: Sequence[str]) -> Iterator[ShortTermMemory]:
    """Yield the newest memories whose text has any of these signs."""
    for memory in islice(reversed(state.short_term.values()), _LOOKED_AT):
        text = memory.text
        for sign in signs:
            if sign in text:
                yield memory
                break


def _said_by_user(memory: ShortTermMemory) -> str:
    return "\n".join(message.content for message in memory.messages if message.role == "user")


def _names(messages: Sequence[Message]) -> set[str]:
    """Return the names of the users who speak, without users that have no name."""
    return {message.name for message in messages if message.role == "user" and message.name}


def _speakers(memory: ShortTermMemory) -> frozenset[str | None]:
    """Return the names of the users who speak in a memory; None is one whose name is not known."""
    return frozenset(message.name for message in memory.messages if message.role == "user")

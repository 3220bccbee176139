"""Whether what is to be stored was stored just now: a turn may come by a tool, a hook and a command."""

from __future__ import annotations

from itertools import islice

from memory_server.core.model import ConversationState, Message, ShortTermMemory

LATELY = 32
"""Memories that are looked at, those stored last: many clients at once store fewer in ten minutes."""


def stored_just_now(state: ConversationState, memory: ShortTermMemory, within_ms: int) -> ShortTermMemory | None:
    """The memory of the same conversation that says the same less than `within_ms` from `memory`; None for none."""
    for known in islice(reversed(state.short_term.values()), LATELY):
        if (
            abs(known.time_ms - memory.time_ms) < within_ms
            and known.conversation_id == memory.conversation_id
            and len(known.messages) == len(memory.messages)
            and all(map(_says_the_same, known.messages, memory.messages))
        ):
            return known
    return None


def _says_the_same(one: Message, other: Message) -> bool:
    # A tool is given names that a transcript does not have.
    same_speaker = one.role == other.role and (one.name == other.name or None in (one.name, other.name))
    return same_speaker and one.content.strip() == other.content.strip()

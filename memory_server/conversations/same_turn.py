"""A turn that is stored again: what was known of it stays. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.messages import Message
from nlp import MOST_TEXTS

_LATELY = 32
"""How many of the last memories are compared: even many clients together store fewer in ten minutes."""


def replacing(former: ShortTermMemory, memory: ShortTermMemory, *, timed: bool) -> ShortTermMemory:
    """What a turn becomes that was stored as `former` and comes again as `memory`; the former one, if it says the same.
    `timed`: its messages say when they were said."""
    if former.messages == memory.messages:
        return former
    return replace(
        memory,
        id=former.id,
        time_ms=memory.time_ms if timed else former.time_ms,
        score=former.score,
        pinned=former.pinned,
        muted=former.muted,
        extra=former.extra,
    )


def other_words_of_both(former: ShortTermMemory, memory: ShortTermMemory) -> tuple[str, ...]:
    """The other words of a turn that comes again, the new ones first. Where it says something else, the former ones may
    be of what it says no longer: they stay only if it says all that it said before, and more."""
    contents = {message.content for message in memory.messages}
    texts = memory.other_words
    if all(message.content in contents for message in former.messages):
        texts += former.other_words
    return tuple(dict.fromkeys(texts))[:MOST_TEXTS]


def stored_just_now(
    newest_first: Iterable[ShortTermMemory], memory: ShortTermMemory, within_ms: int
) -> ShortTermMemory | None:
    """The memory of the same conversation with equal messages less than `within_ms` from `memory`; None if there is
    none."""
    for stored in islice(newest_first, _LATELY):
        is_near = abs(stored.time_ms - memory.time_ms) < within_ms
        if (
            is_near
            and stored.conversation_id == memory.conversation_id
            and _say_the_same(stored, memory)
        ):
            return stored
    return None


def _say_the_same(stored: ShortTermMemory, memory: ShortTermMemory) -> bool:
    if len(stored.messages) != len(memory.messages):
        return False
    return all(map(_is_same_message, stored.messages, memory.messages))


def _is_same_message(message: Message, twin: Message) -> bool:
    """Whether two messages say the same. Names may be missing: a tool gets names that a transcript does not have."""
    is_same_name = message.name == twin.name or None in (message.name, twin.name)
    return (
        message.role == twin.role
        and is_same_name
        and message.content.strip() == twin.content.strip()
    )

"""A turn that is stored again: what was known of it stays. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from memory_server.conversations.model import ShortTermMemory
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
    said = {message.content for message in memory.messages}
    goes_on = all(message.content in said for message in former.messages)
    texts = (*memory.other_words, *former.other_words) if goes_on else memory.other_words
    return tuple(dict.fromkeys(texts))[:MOST_TEXTS]


def stored_just_now(
    newest_first: Iterable[ShortTermMemory], memory: ShortTermMemory, within_ms: int
) -> ShortTermMemory | None:
    """The memory of the same conversation with equal messages less than `within_ms` from `memory`; None if there is
    none."""
    for known in islice(newest_first, _LATELY):
        if (
            abs(known.time_ms - memory.time_ms) < within_ms
            and known.conversation_id == memory.conversation_id
            and len(known.messages) == len(memory.messages)
            # Names may be missing: a tool gets names that a transcript does not have.
            and all(
                one.role == other.role
                and (one.name == other.name or None in (one.name, other.name))
                and one.content.strip() == other.content.strip()
                for one, other in zip(known.messages, memory.messages, strict=True)
            )
        ):
            return known
    return None

"""A turn that is stored again: what was known of it stays. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from memory_server.conversations.model import ShortTermMemory
from nlp import bare, is_kept

_LATELY = 32
"""How many of the last memories are compared: even many clients together store fewer in ten minutes."""


def replacing(former: ShortTermMemory, memory: ShortTermMemory, *, timed: bool) -> ShortTermMemory:
    """What a turn becomes that was stored as `former` and comes again as `memory`; the former one, if nothing changed.
    `timed`: its messages say when they were said."""
    if former.messages == memory.messages:
        return with_other_words(former, memory)
    return with_other_words(
        replace(
            memory,
            id=former.id,
            time_ms=memory.time_ms if timed else former.time_ms,
            score=former.score,
            pinned=former.pinned,
            muted=former.muted,
            extra=former.extra,
        ),
        former,
    )


def with_other_words(memory: ShortTermMemory, more: ShortTermMemory) -> ShortTermMemory:
    """`memory`, also with the other words of `more`, which is of the same turn."""
    texts = tuple(dict.fromkeys((*memory.other_words, *more.other_words)))
    if texts == memory.other_words:
        return memory
    known = {bare(word) for word in memory.words}
    pairs = zip(more.words, more.weights, strict=True)
    added = [(word, weight) for word, weight in pairs if is_kept(word) and bare(word) not in known]
    return replace(
        memory,
        other_words=texts,
        words=(*memory.words, *(word for word, _weight in added)),
        weights=(*memory.weights, *(weight for _word, weight in added)),
    )


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

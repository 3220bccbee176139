"""What is held back from a session, and what a new session gets first.

A memory is held back if the asking session may still see it: the session stored it, or it is only minutes old. The rule
is here once, for one memory and for whole columns; the selections and the explanation use it.

| the memory's session and the asking one | held back |
| --- | --- |
| both known, and not the same | never: the asking session has not seen it |
| the same, and it is known what it still has in its context | what is in the context, however old |
| the same, and that is not known; or one of the two is unknown | of this conversation what is younger than 20 minutes |

This module does not import numpy, because a process that asks once does not need it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from memory_server.core.model import Session, ShortTermMemory
from memory_server.recall.parameters import RecallParameters
from memory_server.recall.prompt_lines import Language
from memory_server.recall.relevance import age_of

if TYPE_CHECKING:
    from memory_server.recall.index import Columns, Integers, Mask

Hold = Literal["in_context", "too_young"]

MOST_PINNED = 8
"""Pinned memories that are shown, the newest: more would leave too little room for each."""
LAST_EXCHANGES = 2
"""Exchanges that are shown from the last session."""

HEADINGS: dict[Language, tuple[str, str]] = {
    "zh": ("置顶的记忆：", "上次说到："),
    "en": ("Pinned:", "Where you left off:"),
}
"""The headings of the pinned memories and of the last exchanges."""


def hold_on(
    memory: ShortTermMemory, *, conversation_id: str, session: Session | None, now_ms: int, parameters: RecallParameters
) -> Hold | None:
    """Why `memory` cannot come to mind in `session`, which asks in `conversation_id`; None if it can."""
    if session is not None and parameters.sessions and memory.session is not None:
        if memory.session != session.id:
            return None
        if session.context_since_ms is not None:
            return "in_context" if memory.time_ms >= session.context_since_ms else None
    if memory.conversation_id != conversation_id:
        return None
    return "too_young" if age_of(memory.time_ms, now_ms) < parameters.own_conversation_ms else None


def holds_on(
    columns: Columns, ages: Integers, *, conversation_id: str, session: Session | None, parameters: RecallParameters
) -> tuple[Mask, Mask]:
    """The same for all rows at once, tombstones included: which are in the context, and which are too young.

    `ages` are milliseconds, 0 for a time in the future.
    """
    young = columns.of_conversation(conversation_id) & (ages < parameters.own_conversation_ms)
    if session is None or not parameters.sessions:
        return young & False, young
    same, unknown = columns.of_session(session.id), columns.of_session(None)
    if session.context_since_ms is None:
        return young & False, young & (same | unknown)
    return same & (columns.times >= session.context_since_ms), young & unknown


def left_off(
    memories: Iterable[ShortTermMemory], *, conversation_id: str, session: Session | None, with_last: bool = True
) -> tuple[list[ShortTermMemory], list[ShortTermMemory]]:
    """What `session` gets of the memories made in `conversation_id`, without those that it stored itself: the pinned
    ones and the last exchanges, both oldest first, without duplicates.

    `with_last` is False if the session continues after a compaction: then it has its own summary.
    """
    own = None if session is None else session.id
    known = sorted(
        (memory for memory in memories if memory.conversation_id == conversation_id),
        key=lambda memory: (memory.time_ms, memory.id),
    )
    pinned = [memory for memory in known if memory.pinned]
    others = [memory for memory in known if not memory.pinned and (memory.session is None or memory.session != own)]
    return pinned[-MOST_PINNED:], others[-LAST_EXCHANGES:] if with_last else []

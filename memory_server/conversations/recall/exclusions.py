"""Why a memory is excluded from a search: it is muted, or the asking session may still see it, because it stored it or
it is only minutes old. The same rule for one memory and for all rows of an index. Pure.

| the memory's session and the asking one | excluded |
| --- | --- |
| both known, and not the same | never: the asking session has not seen it |
| the same, and it is known what it still has in its context | what is in the context, however old |
| the same, and that is not known; or one is unknown | of this conversation what is younger than 20 minutes |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.request import RecallContext

if TYPE_CHECKING:
    from memory_server.conversations.recall.columns import Columns
    from memory_server.conversations.recall.index import Mask

Exclusion = Literal["in_context", "too_young", "muted"]


def exclusion_of(memory: ShortTermMemory, context: RecallContext) -> Exclusion | None:
    """Why `memory` cannot come to mind in the session that asks; None if it can."""
    session = context.session
    parameters = context.parameters
    if session is not None and parameters.sessions and memory.session is not None:
        if memory.session != session.id:
            return None
        if session.context_since_ms is not None:
            is_in_context = memory.time_ms >= session.context_since_ms
            return "in_context" if is_in_context else None
    if memory.conversation_id != context.conversation_id:
        return None
    age_ms = context.now_ms - memory.time_ms
    # A time that is far ahead is that of a clock that was wrong: the chat is over, and the memory would wait for years.
    # The Node original, which knows no sessions, holds it back.
    is_young = age_ms < parameters.own_conversation_ms
    is_far_ahead = parameters.sessions and -age_ms >= parameters.own_conversation_ms
    return "too_young" if is_young and not is_far_ahead else None


def exclusions_of_rows(columns: Columns, context: RecallContext) -> tuple[Mask, Mask]:
    """The rule for all rows at once, tombstones included: which are in the context, and which are too young."""
    session = context.session
    parameters = context.parameters
    ages = context.now_ms - columns.times
    is_own = columns.of_conversation(context.conversation_id)
    is_young = is_own & (ages < parameters.own_conversation_ms)
    if parameters.sessions:
        is_young &= ages > -parameters.own_conversation_ms
    none = is_young & False
    if session is None or not parameters.sessions:
        return none, is_young
    is_same_session = columns.of_session(session.id)
    is_unknown_session = columns.of_session(None)
    if session.context_since_ms is None:
        return none, is_young & (is_same_session | is_unknown_session)
    is_in_context = is_same_session & (columns.times >= session.context_since_ms)
    return is_in_context, is_young & is_unknown_session

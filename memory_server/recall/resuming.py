"""What a new session is told before anything is asked: what is pinned, and where the last one left off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memory_server.core.model import Session, ShortTermMemory
from memory_server.recall.prompt_lines import Language

MOST_PINNED = 8
"""Pinned memories that are told, the newest: more would be cut to nothing."""
LAST_EXCHANGES = 2
"""Exchanges by which one knows where one was."""

HEADINGS: dict[Language, tuple[str, str]] = {
    "zh": ("置顶的记忆：", "上次说到："),
    "en": ("Pinned:", "Where you left off:"),
}
"""What stands above the pinned memories, and above the last exchanges."""


@dataclass(frozen=True, slots=True)
class LeftOff:
    """Both oldest first, and none twice."""

    pinned: tuple[ShortTermMemory, ...]
    last: tuple[ShortTermMemory, ...]


def left_off(
    memories: Iterable[ShortTermMemory], *, conversation_id: str, session: Session | None, with_last: bool = True
) -> LeftOff:
    """What to tell `session` of the memories made in `conversation_id`: what it said itself is not news to it.

    `with_last` is False where it goes on, after a compaction, with a summary of its own.
    """
    own = None if session is None else session.id
    known = sorted(
        (memory for memory in memories if memory.conversation_id == conversation_id),
        key=lambda memory: (memory.time_ms, memory.id),
    )
    pinned = [memory for memory in known if memory.pinned]
    others = [memory for memory in known if not memory.pinned and (memory.session is None or memory.session != own)]
    return LeftOff(tuple(pinned[-MOST_PINNED:]), tuple(others[-LAST_EXCHANGES:]) if with_last else ())

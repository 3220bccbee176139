"""Keywords for memories that come without: otherwise no search would find them."""

from __future__ import annotations

from dataclasses import replace

from memory_server.contents import Contents
from memory_server.model import Message, ShortTermMemory
from memory_server.recall.wording import Wording

MAX_CHARS = 100_000
"""Characters of a memory that are looked at, as for one message (tools/shapes.py): 50 ms."""


def with_keywords(contents: Contents, wording: Wording) -> Contents:
    """`contents` with keywords for each memory that has none: from its messages, else from its text."""
    return replace(contents, short_term=tuple(_filled(memory, wording) for memory in contents.short_term))


def _filled(memory: ShortTermMemory, wording: Wording) -> ShortTermMemory:
    if memory.words:
        return memory
    messages = memory.messages or (Message("user", memory.text[:MAX_CHARS]),)
    keywords = wording.of_memory(messages, memory.time_ms)
    return replace(
        memory,
        words=tuple(keyword.word for keyword in keywords),
        weights=tuple(keyword.weight for keyword in keywords),
    )

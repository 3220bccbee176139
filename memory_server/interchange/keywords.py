"""Keywords for memories that come without: otherwise no search would find them."""

from __future__ import annotations

from dataclasses import replace

from memory_server.contents import Contents
from memory_server.model import Message, ShortTermMemory
from nlp import extract_message_keywords

MAX_CHARS = 100_000
"""Characters of a memory that are looked at, as for one message (tools/shapes.py): 50 ms."""


def with_keywords(contents: Contents) -> Contents:
    """`contents` with keywords for each memory that has none: from its messages, else from its text."""
    return replace(contents, short_term=tuple(map(_filled, contents.short_term)))


def _filled(memory: ShortTermMemory) -> ShortTermMemory:
    if memory.words:
        return memory
    keywords = extract_message_keywords(memory.messages or (Message("user", memory.text[:MAX_CHARS]),))
    return replace(
        memory,
        words=tuple(keyword.word for keyword in keywords),
        weights=tuple(keyword.weight for keyword in keywords),
    )

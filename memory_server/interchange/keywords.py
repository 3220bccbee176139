"""Keywords for memories that come without: otherwise no search would find them."""

from __future__ import annotations

from dataclasses import replace

from memory_server.core.contents import Contents
from memory_server.recall.words import Wording


def with_keywords(contents: Contents, wording: Wording) -> Contents:
    """`contents` with keywords for each memory that has none: from its messages, else from its text."""
    filled = (memory if memory.words else wording.of_text(memory) for memory in contents.short_term)
    return replace(contents, short_term=tuple(filled))

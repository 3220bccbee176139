"""Memories as a search looks through them: with an index of their own."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.columns import Searched
from memory_server.conversations.recall.index import Index
from memory_server.conversations.recall.words import KeywordOptions


def searched_memories(
    memories: Collection[ShortTermMemory], wording: KeywordOptions | None = None, **rest: Any
) -> Searched:
    return Searched({memory.id: memory for memory in memories}, Index(memories, wording), **rest)

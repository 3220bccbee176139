"""Memories as a search looks through them: with an index of their own. tests/recall/test_both_selections.py sees that a
search without an index decides the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC
from random import Random
from typing import Any

from sample_memories import NOW

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.columns import IndexedMemories
from memory_server.conversations.recall.index import Index
from memory_server.conversations.recall.indexed_selection import Decision, decide
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.words import KeywordOptions, RecallQuery
from memory_server.kernel.messages import NOTHING
from nlp import Enrichment, QueryWeights

USUAL_WORDING = KeywordOptions(
    enrichment=Enrichment(normal_forms=True, scripts=True, dates=True, stems=True, long_texts=True),
    emphasis=QueryWeights(
        earlier=0.7, before_question=0.1, function_words=0.5, relative_days=0.3, pairs=0.3
    ),
    zone=UTC,
)
"""How texts become words without a setting, where people have no names."""


def searched_memories(
    memories: Collection[ShortTermMemory], wording: KeywordOptions | None = None, **rest: Any
) -> IndexedMemories:
    return IndexedMemories(
        {memory.id: memory for memory in memories}, Index(memories, wording), **rest
    )


def decided(
    memories: Collection[ShortTermMemory],
    query: RecallQuery,
    parameters: RecallParameters,
    *,
    wording: KeywordOptions | None = None,
    cosines: Mapping[str, float] = NOTHING,
    seed: int = 1,
    **where: Any,
) -> Decision:
    """Return what a search of these memories decides: in the conversation `chat` and at `NOW`, unless `where`, which has
    fields of a `RecallContext`, says another one."""
    about = {"conversation_id": "chat", "now_ms": NOW, **where}
    context = RecallContext(rng=Random(seed), parameters=parameters, **about)
    return decide([searched_memories(memories, wording, cosines=cosines)], query, context)

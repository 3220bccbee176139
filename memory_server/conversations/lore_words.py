"""Memories of books that are found by words: those whose client finds them by vectors. Such an entry comes where it
clears the threshold of what comes unasked, ranked as a short-term memory without age."""

from __future__ import annotations

from dataclasses import replace

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.order import comes_unasked
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.relevance import receipts
from memory_server.conversations.recall.words import KeywordOptions, RecallQuery
from memory_server.lore import LongTermMemory, Shelf


def found_by_words(
    shelf: Shelf,
    query: RecallQuery,
    *,
    now_ms: int,
    parameters: RecallParameters,
    wording: KeywordOptions,
) -> list[int]:
    """The indexes of the memories whose words the query brings to mind. It takes some milliseconds for each memory
    whose words are not known yet, so call it in a thread."""
    indexes = shelf.rules.by_words
    if not indexes or not query or query.overview is not None:
        return []
    documents = [_document(shelf, index, now_ms, wording) for index in indexes]
    if any(document.other_words for document in documents):
        query = wording.reaching_kept(query)
    matches: list[int] = []
    document_receipts = receipts(
        documents, query, now_ms=now_ms, parameters=parameters, wording=wording
    )
    for index, receipt in zip(indexes, document_receipts, strict=True):
        if comes_unasked(receipt, query, len(documents), parameters):
            matches.append(index)
    return matches


def _document(shelf: Shelf, index: int, now_ms: int, wording: KeywordOptions) -> ShortTermMemory:
    """A memory of a book as a short-term memory of now, with its words."""
    shelved = shelf.memories[index]
    content = f"{shelved.conversation_id}\n{shelved.memory.name}\n{shelved.memory.prompt}"
    key = (wording.enrichment.signature, content)
    if key not in shelf.documents:
        shelf.documents[key] = wording.of_text(
            _without_words(shelved.memory, shelved.conversation_id)
        )
    document: ShortTermMemory = shelf.documents[key]
    return replace(document, time_ms=now_ms)


def _without_words(memory: LongTermMemory, conversation_id: str) -> ShortTermMemory:
    """A memory of a book as a short-term memory whose words are not known yet."""
    return ShortTermMemory(
        id=memory.name,
        time_ms=0,
        text=f"{memory.name}\n{memory.prompt}",
        words=(),
        weights=(),
        score=0.0,
        conversation_id=conversation_id,
        other_words=memory.rules.other_words,
    )

"""Looking into the memories of a conversation: why a memory came or not, which memories meet a condition, what they
have in common. Nothing is written. Slow work runs in a thread, on records that do not change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from memory_server.conversations.archive import ArchivedMemory
from memory_server.conversations.model import Memory, ShortTermMemory
from memory_server.conversations.recall.corrections import newer_by_older
from memory_server.conversations.recall.filters import (
    Filtered,
    MemoryFilter,
    Overview,
    SortBy,
    Words,
    filtered,
    overview,
)
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.relevance import receipts
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.recall.words import RecallQuery
from memory_server.conversations.search import conversations_of, muting_places
from memory_server.conversations.services import ALL, Services
from memory_server.conversations.short_term import ShortTermManager
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.messages import GivenMessage, Message
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.values import frozen
from nlp.index_terms import seen_form

if TYPE_CHECKING:
    from memory_server.conversations.recall.explanation import Explanation


@frozen
class ExplainedMemory:
    """Why a memory came or not, and where it is kept. `searched` is False if the search does not look there; the
    explanation is then about a search of all conversations. `archived`: its removal; a removed memory has no
    explanation. `alike`: how many other memories share words with the text."""

    conversation_id: str
    memory: ShortTermMemory
    receipt: Receipt
    explanation: Explanation | None
    searched: bool = True
    archived: ArchivedMemory | None = None
    alike: int = 0
    corrected_by: ShortTermMemory | None = None
    """The later memory that contradicts it, or None."""


@frozen
class ListRequest:
    """Which memories to list, and in which order. With `text` or `keywords`, a memory must also hold a word of them,
    or of `other_words`, which count less. `most`: how many memories are returned (None for all). `archived`: removed
    memories that can come back."""

    conditions: MemoryFilter = field(default_factory=MemoryFilter)
    text: str = ""
    keywords: Sequence[str] = ()
    other_words: Sequence[str] = ()
    kinds: str = "both"
    sort_by: SortBy = "relevance"
    descending: bool = True
    scope: str | None = None
    most: int | None = None
    archived: bool = False


@frozen
class _Nearest:
    """The memory, given by its id, or the removed memory that a text means, and how many others share words with the
    text."""

    memory: str | ArchivedMemory
    alike: int


class InsightManager:
    """Looks into the memories of `conversation_id`."""

    def __init__(
        self, conversation_id: str, services: Services, short_term: ShortTermManager
    ) -> None:
        self.conversation_id = conversation_id
        self._services = services
        self._short_term = short_term

    async def explain(
        self,
        request: RecallRequest | Sequence[GivenMessage],
        *,
        memory_id: str | None = None,
        text: str | None = None,
    ) -> ExplainedMemory:
        """Explain why a search made now finds a memory or does not. It is the memory with `memory_id`, or the one
        that shares most with the words of `text`. Raises InvalidInput if both or neither are given, if all that the
        messages say was recalled, if there are too many other words, or if the scope is unknown; MemoryNotFound if
        neither a conversation nor the archive of this conversation has it."""
        request = RecallRequest.of(request)
        if (memory_id is None) == (text is None):
            raise InvalidInput(
                "One memory must be named; give either its memory_id, or text with some of its words."
            )

        alike = 0
        if text is not None:
            nearest = await self._nearest(text, request.scope)
            alike = nearest.alike
            if isinstance(nearest.memory, ArchivedMemory):
                return replace(await self._explained_removed(nearest.memory, request), alike=alike)
            memory_id = nearest.memory

        # First where the search looks, then in the archive, and last in all other conversations.
        assert memory_id is not None
        explained = await self._explained(memory_id, request)
        if explained is not None:
            return replace(explained, alike=alike)

        for entry in reversed(await self._services.store.archive(self.conversation_id)):
            if isinstance(entry.memory, ShortTermMemory) and entry.memory.id == memory_id:
                return await self._explained_removed(entry, request)
        explained = await self._explained(memory_id, replace(request, scope=ALL))
        if explained is not None:
            return replace(explained, searched=False)
        raise MemoryNotFound(
            "No conversation has a short-term memory `{memory}`, and the archive of {conversation} does "
            "not have it either; give text with some of its words instead.",
            memory_id,
            self.conversation_id,
        )

    async def search(self, request: ListRequest) -> tuple[list[Filtered], int]:
        """Return the first memories that are asked for, and how many there are in all. Without a text to look for, or
        with blank ones, words are not a condition. Raises InvalidInput if the scope is unknown, there are too many
        other words, or the query has no word; StorageError if this conversation cannot be read. Others that cannot be
        read are left out and not counted."""
        conditions = request.conditions
        if any(map(str.strip, (request.text, *request.keywords, *request.other_words))):
            words = await self._other_weights(request.other_words)
            words |= conditions.words
            words |= await self._weights(request.text, request.keywords)
            if not words:  # 你来啦 has no word that says something: so it is found as it was typed
                typed_texts = map(str.strip, (request.text, *request.other_words))
                words = dict.fromkeys(filter(None, typed_texts), 1.0)
            if not words:
                raise InvalidInput(
                    "The query has no words to look for; words of one character count only as keywords."
                )
            conditions = replace(conditions, words=words)

        removals: dict[int, ArchivedMemory] = {}
        """The removals of removed memories, by the `id()` of each memory."""
        memories: list[tuple[str, list[Memory]]] = []
        for conversation_id in await conversations_of(
            self._services, self.conversation_id, request.scope
        ):
            stored: list[Memory] = []
            try:
                if request.archived:
                    for entry in await self._last_removals(conversation_id):
                        stored.append(entry.memory)
                        removals[id(entry.memory)] = entry
                else:
                    state = await self._services.store.read(conversation_id)
                    stored += [*state.short_term.values(), *state.long_term.values()]
            except StorageError:
                if conversation_id == self.conversation_id:
                    raise
                continue

            memories.append(
                (
                    conversation_id,
                    [memory for memory in stored if _is_of_kind(memory, request.kinds)],
                )
            )

        # In a thread: this looks at the text of every memory.
        first, count = await asyncio.to_thread(
            filtered,
            memories,
            conditions,
            now_ms=self._services.clock(),
            parameters=self._services.parameters.recall,
            sort_by=request.sort_by,
            descending=request.descending,
            most=request.most,
        )
        return [replace(match, removal=removals.get(id(match.memory))) for match in first], count

    async def _last_removals(self, conversation_id: str) -> list[ArchivedMemory]:
        """Return the last removal of each removed memory."""
        entries = await self._services.store.archive(conversation_id)
        last = {(type(entry.memory), entry.memory.key): entry for entry in entries}
        return list(last.values())

    async def patterns(self, *, top: int = 20) -> tuple[Overview, Overview]:
        """Return overviews of the short-term memories and of the long-term ones: what they have in common, with at
        most `top` words and tags."""
        state = await self._services.store.read(self.conversation_id)
        short_term = tuple(state.short_term.values())
        long_term = tuple(state.long_term.values())
        short_term_words = (
            tuple(zip(memory.words, memory.weights, strict=True)) for memory in short_term
        )

        # Long-term memories are stored without words.
        long_term_words: list[Words] = []
        for memory in long_term:
            weights = await self._weights(memory.prompt, ())
            long_term_words.append(tuple(weights.items()))

        now_ms = self._services.clock()
        zone = self._services.zone
        return (
            await asyncio.to_thread(
                overview, short_term, short_term_words, now_ms=now_ms, zone=zone, top=top
            ),
            await asyncio.to_thread(
                overview, long_term, long_term_words, now_ms=now_ms, zone=zone, top=top
            ),
        )

    async def _explained(self, memory_id: str, request: RecallRequest) -> ExplainedMemory | None:
        """Explain why a search brings a memory or does not. Return None if it does not look at the memory."""
        from memory_server.conversations.recall.explanation import explain

        decision = await self._short_term.decision(request)
        row = decision.columns.row_of(memory_id)
        if row is None:
            return None

        explanation = explain(decision, row)
        conversation_id = decision.columns.kept_in(row) or self.conversation_id
        corrected_by: ShortTermMemory | None = None
        if self._services.has_corrections:
            corrected_by = newer_by_older(decision.columns.memories()).get(memory_id)

        # A muted correction does not come, so it is not named either.
        places = muting_places(self.conversation_id, request.folder)
        if corrected_by is not None and not places.isdisjoint(corrected_by.muted):
            corrected_by = None
        return ExplainedMemory(
            conversation_id,
            explanation.memory,
            explanation.receipt,
            explanation,
            corrected_by=corrected_by,
        )

    async def _explained_removed(
        self, entry: ArchivedMemory, request: RecallRequest
    ) -> ExplainedMemory:
        """Return a removed memory with what it shares with the query."""
        query = await self._short_term.query_of(request)
        assert isinstance(entry.memory, ShortTermMemory)
        [receipt] = self._receipts([entry.memory], query)
        return ExplainedMemory(
            self.conversation_id, entry.memory, receipt=receipt, explanation=None, archived=entry
        )

    async def _nearest(self, text: str, scope: str | None) -> _Nearest:
        """Find the live or removed memory that shares the heaviest words with `text`, or else the last one that
        contains it. Raises MemoryNotFound if no memory does either."""
        request = RecallRequest([Message("user", text)], scope=scope)
        query = await self._short_term.query_of(request)
        entries = await self._services.store.archive(self.conversation_id)
        decision = await self._short_term.decision(request, by_meaning=False)

        points, row, sharing_count = decision.nearest()
        memory_id: str | None = None
        memories: Sequence[ShortTermMemory] = ()
        if row is None:
            memories = tuple(decision.columns.memories())
        else:
            memory_id = decision.columns.memory(row).id
        # The decision is not used from here on: the conversation may change meanwhile.
        removed = self._nearest_removed(entries, query, least_points=points)
        if removed is not None:
            return _Nearest(removed, sharing_count)

        if memory_id is None:
            memory_id = await asyncio.to_thread(_last_holding, text, memories)
        if memory_id is None:
            raise MemoryNotFound(
                "No memory of {conversation} shares a word with that text; give more of its words, or its id.",
                self.conversation_id,
            )
        return _Nearest(memory_id, max(0, sharing_count - 1))

    def _nearest_removed(
        self, entries: Sequence[ArchivedMemory], query: RecallQuery, *, least_points: float
    ) -> ArchivedMemory | None:
        """Find the removed memory that shares most with the query, if that is more than these points; of equal ones,
        the last removal. Return None if none shares so much."""
        removed: list[ArchivedMemory] = []
        memories: list[ShortTermMemory] = []
        for entry in entries:
            if isinstance(entry.memory, ShortTermMemory):
                removed.append(entry)
                memories.append(entry.memory)
        nearest: ArchivedMemory | None = None
        best = (least_points, 0)
        for entry, receipt in zip(removed, self._receipts(memories, query), strict=True):
            rank = (receipt.match, entry.version)
            if receipt.match > least_points and rank > best:
                nearest = entry
                best = rank
        return nearest

    def _receipts(self, memories: Sequence[ShortTermMemory], query: RecallQuery) -> list[Receipt]:
        """Make the receipts of memories, judged only against each other."""
        parameters = self._services.parameters
        return receipts(
            memories,
            query,
            now_ms=self._services.clock(),
            parameters=parameters.recall,
            wording=parameters.wording.within(self.conversation_id),
        )

    async def _other_weights(self, texts: Sequence[str]) -> dict[str, float]:
        """Return the words of the caller's other texts, with reduced weights. Raises InvalidInput if there are too
        many."""
        usable_texts = other_words_of(texts, ()).texts
        weights = await self._weights("\n".join(usable_texts), ())
        factor = self._services.parameters.wording.emphasis.given_for_question
        return {word: weight * factor for word, weight in weights.items()}

    async def _weights(self, text: str, keywords: Sequence[str]) -> dict[str, float]:
        """Return the words of both with the weights of a user's words; a keyword that is not in the dictionary counts
        too, with their mean weight."""
        weights: dict[str, float] = {}
        joined = "\n".join((text, *keywords))
        if joined.strip():
            query = await self._short_term.query_of([Message("user", joined)])
            weights = {word: term.weight for word, term in query.words.items()}
        mean_weight = sum(weights.values()) / len(weights) if weights else 1.0
        for keyword in filter(None, map(str.strip, keywords)):
            weights.setdefault(keyword, mean_weight)
        return weights


def _is_of_kind(memory: Memory, kinds: str) -> bool:
    """Return whether a memory is of these kinds: `short_term`, `long_term` or `both`."""
    if kinds == "both":
        return True
    return isinstance(memory, ShortTermMemory) == (kinds == "short_term")


def _last_holding(text: str, memories: Sequence[ShortTermMemory]) -> str | None:
    """Return the id of the last of the memories whose text contains `text`, in whatever spelling, or None if none does
    or the text is empty."""
    seen_text = seen_form(text).strip()
    if not seen_text:
        return None
    for memory in reversed(memories):
        if seen_text in seen_form(memory.text):
            return memory.id
    return None

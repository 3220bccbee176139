"""Looking into the memories of a conversation: why one came or not, which ones meet a condition, what they have in
common. Nothing is written. Slow work runs in a thread, on records that do not change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memory_server.conversations.archive import Archived
from memory_server.conversations.found import Asking
from memory_server.conversations.model import Memory, ShortTermMemory
from memory_server.conversations.recall.filters import Filtered, MemoryFilter, Overview, SortBy, filtered, overview
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.relevance import receipts
from memory_server.conversations.recall.words import RecallQuery
from memory_server.conversations.services import ALL, Services
from memory_server.conversations.short_term import ShortTermManager
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.other_words import other_words_of
from nlp import ROLE_WEIGHTS
from nlp.index_terms import seen_form

if TYPE_CHECKING:
    from memory_server.conversations.recall.explanation import Explanation

KINDS = ("short_term", "long_term", "both")


@dataclass(frozen=True, slots=True)
class ExplainedMemory:
    """Why a memory came or not, and where it is kept. `searched` is False if the search does not look there: then the
    explanation is that of a search of all conversations. `archived`: its removal, if it was removed; then there is no
    explanation. `alike`: how many other memories share words with the text that found this one."""

    conversation_id: str
    memory: ShortTermMemory
    receipt: Receipt
    explanation: Explanation | None
    searched: bool = True
    archived: Archived | None = None
    alike: int = 0


class InsightManager:
    """Looks into the memories of `conversation_id`."""

    def __init__(self, conversation_id: str, services: Services, short_term: ShortTermManager) -> None:
        self.conversation_id = conversation_id
        self._services = services
        self._short_term = short_term

    async def explain(
        self,
        recent: Sequence[Message],
        *,
        memory_id: str | None = None,
        text: str | None = None,
        scope: str | None = None,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        other_words: Sequence[str] = (),
        session: Session | None = None,
        folder: str | None = None,
    ) -> ExplainedMemory:
        """Why a search by the recent messages and `other_words`, made now in `session` and `folder`, brings a memory or
        does not: the memory with `memory_id`, or the one that shares most with the words of `text`. Raises
        InvalidInput: both or neither was given, there is no message, there are too many other words, or there is no
        such scope; MemoryNotFound: no conversation has it, nor the archive of this one."""
        if (memory_id is None) == (text is None):
            raise InvalidInput("One memory must be named; give either its memory_id, or text with some of its words.")
        query = await self._short_term.query_of(recent, role_weights=role_weights, other_words=other_words)
        alike = 0
        if text is not None:
            nearest, alike = await self._nearest(text, scope)
            if isinstance(nearest, Archived):
                return replace(self._gone(nearest, query), alike=alike)
            memory_id = nearest
        assert memory_id is not None
        if found := await self._explained(memory_id, query, scope, session, folder):
            return replace(found, alike=alike)
        entries = await self._services.store.archive(self.conversation_id)
        of_kind = (entry for entry in reversed(entries) if isinstance(entry.memory, ShortTermMemory))
        if (gone := next((entry for entry in of_kind if entry.memory.key == memory_id), None)) is not None:
            return self._gone(gone, query)
        if found := await self._explained(memory_id, query, ALL, session, folder):
            return replace(found, searched=False)
        raise MemoryNotFound(
            "No conversation has a short-term memory `{memory}`, and the archive of {conversation} does "
            "not have it either; give text with some of its words instead.",
            memory_id,
            self.conversation_id,
        )

    async def search(
        self,
        wanted: MemoryFilter,
        *,
        text: str = "",
        keywords: Sequence[str] = (),
        other_words: Sequence[str] = (),
        kinds: str = "both",
        sort_by: SortBy = "relevance",
        descending: bool = True,
        scope: str | None = None,
        most: int | None = None,
        archived: bool = False,
    ) -> tuple[list[Filtered], int]:
        """The first `most` memories that meet the filter, and how many meet it. If `text` or `keywords` are given, a
        memory must also hold one of their words, or of `other_words`, which count less. `archived`: search the removed
        memories that can come back, each in its last version. Unreadable conversations of a wider scope are left out.
        Raises InvalidInput: there is no such scope, or there are too many other words."""
        if text or keywords or other_words:
            words = await self._other_weights(other_words) | dict(wanted.words) | await self._weights(text, keywords)
            if not words:  # 你来啦 has no word that says something: so it is found as it was typed
                words = {typed.strip(): 1.0 for typed in (text, *other_words) if typed.strip()}
            if not words:
                raise InvalidInput("The query has no words to look for; words of one character count only as keywords.")
            wanted = replace(wanted, words=words)
        removals: dict[int, Archived] = {}
        memories: list[tuple[str, list[Memory]]] = []
        for name in await self._short_term.conversations_of(scope):
            try:
                if archived:
                    entries = await self._services.store.archive(name)
                    last = {(type(entry.memory), entry.memory.key): entry for entry in entries}
                    removals |= {id(entry.memory): entry for entry in last.values()}
                    kept = [entry.memory for entry in last.values()]
                else:
                    state = await self._services.store.read(name)
                    kept = [*state.short_term.values(), *state.long_term.values()]
            except StorageError:
                if name == self.conversation_id:
                    raise
                continue
            short = kinds == "short_term"
            of_kind = kept if kinds == "both" else [m for m in kept if isinstance(m, ShortTermMemory) == short]
            memories.append((name, of_kind))
        found, count = await asyncio.to_thread(
            filtered,
            memories,
            wanted,
            now_ms=self._services.clock(),
            parameters=self._services.parameters.recall,
            sort_by=sort_by,
            descending=descending,
            most=most,
        )
        return [replace(hit, removal=removals.get(id(hit.memory))) for hit in found], count

    async def patterns(self, *, top: int = 20) -> tuple[Overview, Overview]:
        """What the short-term memories have in common, and the long-term ones."""
        state = await self._services.store.read(self.conversation_id)
        short, long = tuple(state.short_term.values()), tuple(state.long_term.values())
        prompts = [await self._weights(memory.prompt, ()) for memory in long]
        now_ms, zone = self._services.clock(), self._services.zone
        in_short = (tuple(zip(memory.words, memory.weights, strict=True)) for memory in short)
        in_long = [tuple(words.items()) for words in prompts]
        return (
            await asyncio.to_thread(overview, short, in_short, now_ms=now_ms, zone=zone, top=top),
            await asyncio.to_thread(overview, long, in_long, now_ms=now_ms, zone=zone, top=top),
        )

    async def _explained(
        self, memory_id: str, query: RecallQuery, scope: str | None, session: Session | None, folder: str | None
    ) -> ExplainedMemory | None:
        from memory_server.conversations.recall.explanation import explain

        decision = await self._short_term.decision(query, Asking(scope, session=session, folder=folder))
        row = decision.columns.row_of(memory_id)
        if row is None:
            return None
        told = explain(decision, row)
        where = decision.columns.kept_in(row) or self.conversation_id
        return ExplainedMemory(where, told.memory, told.receipt, told)

    def _gone(self, entry: Archived, query: RecallQuery) -> ExplainedMemory:
        assert isinstance(entry.memory, ShortTermMemory)
        [made] = self._receipts([entry.memory], query)
        return ExplainedMemory(self.conversation_id, entry.memory, made, None, archived=entry)

    async def _nearest(self, text: str, scope: str | None) -> tuple[str | Archived, int]:
        """The id of the memory (or the removed memory) that shares the heaviest words with `text`, or else contains it;
        and how many others share a word with it."""
        query = await self._short_term.query_of([Message("user", text)])
        entries = await self._services.store.archive(self.conversation_id)
        gone = [(entry, entry.memory) for entry in entries if isinstance(entry.memory, ShortTermMemory)]
        decision = await self._short_term.decision(replace(query, said=""), Asking(scope))
        points, row, sharing = decision.nearest()
        kept = None if row is None else decision.columns.memory(row).id
        memories = tuple(decision.columns.memories()) if row is None else ()
        # The decision is not used from here on: the conversation may change meanwhile.
        made = self._receipts([memory for _, memory in gone], query)
        of_gone = ((receipt.match, entry.version, entry) for receipt, (entry, _) in zip(made, gone, strict=True))
        shared, _, archived = max(of_gone, key=lambda item: item[:2], default=(0.0, 0, None))
        if archived is not None and shared > points:
            return archived, sharing
        sought = seen_form(text).strip()
        if kept is None and sought:
            # The last memory whose text contains it, in whatever spelling.
            holding = (memory.id for memory in reversed(memories) if sought in seen_form(memory.text))
            kept = await asyncio.to_thread(next, holding, None)
        if kept is None:
            raise MemoryNotFound(
                "No memory of {conversation} shares a word with that text; give more of its words, or its id.",
                self.conversation_id,
            )
        return kept, max(0, sharing - 1)

    def _receipts(self, memories: Sequence[ShortTermMemory], query: RecallQuery) -> list[Receipt]:
        parameters = self._services.parameters
        now_ms, wording = self._services.clock(), parameters.wording.within(self.conversation_id)
        return receipts(memories, query, now_ms=now_ms, parameters=parameters.recall, wording=wording)

    async def _other_weights(self, texts: Sequence[str]) -> dict[str, float]:
        """The words of the texts that a caller gives beside what is looked for. Raises InvalidInput: there are too
        many."""
        wanted = other_words_of(texts, ()).texts
        factor = self._services.parameters.wording.emphasis.given_for_question
        return {word: weight * factor for word, weight in (await self._weights("\n".join(wanted), ())).items()}

    async def _weights(self, text: str, keywords: Sequence[str]) -> dict[str, float]:
        """The words of both with the weights of a user's words; a keyword that is not in the dictionary counts too."""
        joined = "\n".join((text, *keywords))
        query = await self._short_term.query_of([Message("user", joined)]) if joined.strip() else RecallQuery()
        found = {word: sought.weight for word, sought in query.words.items()}
        usual = sum(found.values()) / len(found) if found else 1.0
        return found | {word: found.get(word, usual) for keyword in keywords if (word := keyword.strip())}

"""Short-term memories of one conversation: remember, recall, forget.

Segmentation and users' expressions run before the store's lock is taken; the decisions are in `recall/`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from memory_server.changes import Added, Change, CleanedUp, Forgotten
from memory_server.errors import InvalidInput, InvalidPattern, LockTimeout, StorageUnwritable
from memory_server.managers.indexing import Indexing
from memory_server.managers.surroundings import Surroundings
from memory_server.model import ConversationState, Message, ShortTermMemory, context_text, storable
from memory_server.recall import retention
from memory_server.recall.outcome import Recall
from nlp import ROLE_WEIGHTS, Keyword, extract_message_keywords
from sandbox import PatternError

SEARCH_WAIT_SECONDS = 1.0
"""How long a search waits for writers before it answers without reinforcing (docs/reference/data-folder.md)."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A memory was stored; `total` short-term memories are now in the conversation."""

    memory: ShortTermMemory
    total: int


@dataclass(frozen=True, slots=True)
class Found:
    """A search. `reinforced` is False where another process kept the lock or the folder is read-only."""

    recall: Recall
    reinforced: bool


@dataclass(frozen=True, slots=True)
class Removed:
    """What was forgotten, or would be, and how many memories remain."""

    forgotten: tuple[Forgotten, ...]
    remaining: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of the short-term memories of one conversation; scores are None where there is no memory."""

    total: int
    average_score: float | None
    highest_score: float | None
    lowest_score: float | None
    oldest_ms: int | None
    newest_ms: int | None
    last_cleanup_ms: int | None
    by_conversation: Mapping[str, int]


class ShortTermManager:
    """Remembers and recalls for `conversation_id`."""

    def __init__(self, conversation_id: str, surroundings: Surroundings) -> None:
        self.conversation_id = conversation_id
        self._around = surroundings
        self._indexing = Indexing()

    async def add(
        self, messages: Sequence[Message], *, role_weights: Mapping[str, float] = ROLE_WEIGHTS, by: str = "api"
    ) -> Stored:
        """Store the messages as one memory, dated by the last one's timestamp, else now.

        Raises:
            InvalidInput: there is no message, or none with any text, or a time is none.
            StorageError: nothing was stored.
        """
        messages = tuple(map(storable, messages))
        if not any(message.content.strip() for message in messages):
            raise InvalidInput("There is no text to remember; give at least one message with content.")
        now_ms = self._around.clock()
        keywords = await _keywords(messages, role_weights)
        last = messages[-1].time_ms
        memory = ShortTermMemory(
            id=secrets.token_hex(8),  # never from the seeded generator: two processes must not draw the same
            time_ms=now_ms if last is None else last,
            text=context_text(messages),
            words=tuple(keyword.word for keyword in keywords),
            weights=tuple(keyword.weight for keyword in keywords),
            score=0.0,
            conversation_id=self.conversation_id,
            messages=messages,
        )

        def decide(state: ConversationState) -> tuple[Sequence[Change], Stored]:
            return [Added(memory)], Stored(memory, len(state.short_term) + 1)

        return await self._around.store.update(self.conversation_id, decide, by=by)

    async def search(
        self, recent: Sequence[Message], *, role_weights: Mapping[str, float] = ROLE_WEIGHTS, by: str = "api"
    ) -> Found:
        """What the recent messages bring to mind; what comes as top or next is reinforced.

        Raises:
            InvalidInput: there is no message.
            StorageError: the conversation cannot be read.
        """
        if not recent:
            raise InvalidInput("There are no recent messages to search by; give the last few of the conversation.")
        # Not at the top: numpy would double the time that a client waits for the server to start.
        from memory_server.recall.postings import index_of
        from memory_server.recall.selection import select

        query = {keyword.word: keyword.weight for keyword in await _keywords(recent, role_weights)}
        now_ms, seed = self._around.clock(), self._around.rng.getrandbits(64)
        recall_parameters = self._around.parameters.recall
        await self._indexing.prepare(await self._around.store.read(self.conversation_id))

        def decide(state: ConversationState) -> tuple[Sequence[Change], Recall]:
            recall = select(
                state.short_term,
                index_of(state),
                query,
                conversation_id=self.conversation_id,
                now_ms=now_ms,
                rng=Random(seed),
                parameters=recall_parameters,
            )
            return recall.reinforcements(recall_parameters), recall

        try:
            recall = await self._around.store.update(
                self.conversation_id, decide, by=by, wait_seconds=SEARCH_WAIT_SECONDS
            )
        except (LockTimeout, StorageUnwritable):
            _, recall = decide(await self._around.store.read(self.conversation_id))
            return Found(recall, reinforced=False)
        return Found(recall, reinforced=True)

    async def delete(self, pattern: str, *, by: str = "api") -> Removed:
        """Forget every memory whose text holds `word`, or matches `/re/flags` (JavaScript syntax).

        Raises:
            InvalidPattern: the pattern is empty, no expression, or runs too long; nothing was deleted.
            StorageError: nothing was deleted.
        """
        known = tuple((await self._around.store.read(self.conversation_id)).short_term.values())
        try:
            hits = await self._around.runner.match_texts(pattern, [memory.text for memory in known])
        except PatternError as error:
            advice = "Nothing was deleted; write a word, or an expression such as /披萨|pizza/i."
            raise InvalidPattern(f"{str(error).rstrip('.')}. {advice}") from error
        matched = {memory.id: memory.text for memory, hit in zip(known, hits, strict=True) if hit}

        def decide(state: ConversationState) -> tuple[Sequence[Change], Removed]:
            gone = tuple(
                Forgotten(memory, "deleted")
                for memory in state.short_term.values()
                if matched.get(memory.id) == memory.text
            )
            return gone, Removed(gone, len(state.short_term) - len(gone))

        return await self._around.store.update(self.conversation_id, decide, by=by)

    async def clean_up(self, *, dry_run: bool = False, by: str = "api") -> Removed:
        """Forget what retention no longer keeps, or with `dry_run` only say what that would be.

        Raises:
            StorageError: nothing was forgotten.
        """
        now_ms = self._around.clock()

        def decide(state: ConversationState) -> tuple[Sequence[Change], Removed]:
            gone = retention.plan(state.short_term.values(), now_ms, self._around.parameters)
            changes: list[Change] = [*gone, CleanedUp(now_ms, state.last_cleanup_ms)] if state.short_term else []
            return changes, Removed(gone, len(state.short_term) - len(gone))

        if dry_run:
            return decide(await self._around.store.read(self.conversation_id))[1]
        return await self._around.store.update(self.conversation_id, decide, by=by)

    async def statistics(self) -> Statistics:
        """Figures of what is stored."""
        state = await self._around.store.read(self.conversation_id)
        memories = state.short_term.values()
        scores = [memory.score for memory in memories]
        times = [memory.time_ms for memory in memories]
        return Statistics(
            total=len(scores),
            average_score=sum(scores) / len(scores) if scores else None,
            highest_score=max(scores, default=None),
            lowest_score=min(scores, default=None),
            oldest_ms=min(times, default=None),
            newest_ms=max(times, default=None),
            last_cleanup_ms=state.last_cleanup_ms,
            by_conversation=dict(Counter(memory.conversation_id for memory in memories).most_common()),
        )

    async def memories(self) -> tuple[ShortTermMemory, ...]:
        """All of them, oldest first."""
        state = await self._around.store.read(self.conversation_id)
        return tuple(sorted(state.short_term.values(), key=lambda memory: (memory.time_ms, memory.id)))


async def _keywords(messages: Sequence[Message], role_weights: Mapping[str, float]) -> list[Keyword]:
    # In a thread: the first call loads a dictionary, and a long message takes tens of milliseconds.
    return await asyncio.to_thread(extract_message_keywords, messages, role_weights)

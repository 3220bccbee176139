"""Asks a model for the other words of memories which have none, in the clean-up and on request. Nothing waits for it.

What is asked and what an answer means is decided in `conversations/word_giving.py`. Each request is one change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from memory_server.conversations.changes import Change
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.services import Services
from memory_server.conversations.word_giving import (
    BY,
    PROMPT,
    SCHEMA,
    WordRequest,
    WordsKept,
    asked_once,
    keeping,
    requests_of,
    within,
    words_of,
)
from memory_server.kernel.errors import InvalidInput, ModelsFailed, StorageError
from memory_server.kernel.times import DAY_MS
from memory_server.knowledge.ports import ModelLedger, ModelResponse, Models
from sandbox.locale import _

log = logging.getLogger(__name__)
SHARE_OF_TOKENS = 0.5
"""Of `llm.tokens_per_day`: the rest is for facts and vectors, for which people wait."""
MOST_FAILURES = 2
"""Requests in a row without a usable answer after which a run ends: another answer is not likely to be better."""
NO_MODEL = _("no model is configured; set llm.providers")
_NOTHING_KEPT = WordsKept()


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many memories wait for words, in how many requests, and about how many tokens these take."""

    memories: int
    requests: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of a conversation: how many memories were `sent`, and what became of the answer. `problem`: why it
    could not be used, or why nothing more is sent; empty: it could."""

    place: str
    model: str = ""
    sent: int = 0
    kept: WordsKept = _NOTHING_KEPT
    tokens: int = 0
    problem: str = ""


@dataclass(eq=False)
class WordGiver:
    """Gives words to the memories of all `conversations`. `models` None: there is none. The tokens of all purposes are
    counted in `ledger`; `tokens_per_day` 0: there is no bound. `enabled`: the settings want it."""

    conversations: Conversations
    services: Services
    ledger: ModelLedger
    models: Models | None
    enabled: bool = False
    tokens_per_day: int = 200_000

    async def waiting(self, only: str | None = None) -> Waiting:
        """What would be sent of a conversation, or of all. Nothing is."""
        requests = [request for place in await self._places(only) for request in await self._requests(place)]
        memories = sum(len(request.memories) for request in requests)
        return Waiting(memories, len(requests), sum(request.tokens for request in requests))

    async def give(self, only: str | None = None) -> AsyncIterator[Asked]:
        """Ask for the words of a conversation, or of all, request by request. Raises InvalidInput: the settings do not
        want it, or name no model."""
        self.refuse()
        failures = 0
        for place in await self._places(only):
            try:
                requests = await self._requests(place)
            except StorageError as error:
                yield Asked(place, problem=str(error))
                continue
            for request in requests:
                fitting = within(request, await self._tokens_left())
                if reason := self._reason_to_wait(fitting):
                    yield Asked(place, problem=reason)
                    return
                assert fitting is not None
                asked, goes_on = await self._ask(place, fitting)
                yield asked
                failures = failures + 1 if asked.problem else 0
                if not goes_on or failures == MOST_FAILURES:
                    return

    async def keep_up(self) -> None:
        """Give words as part of the daily upkeep, where the settings want it. What fails is logged."""
        if not self.enabled or self.models is None:
            return
        async for asked in self.give():
            if asked.problem:
                log.warning("%s", _("{name}: {reason}", asked.place, asked.problem))
            else:
                log.info("words: %d of %d memories of %s", asked.kept.memories, asked.sent, asked.place)

    def refuse(self) -> None:
        """Raises InvalidInput: the settings do not want it, or name no model."""
        if self.models is None:
            raise InvalidInput("Nothing was sent: {reason}.", NO_MODEL)
        if not self.enabled:
            raise InvalidInput("Nothing was sent; set `words_for_memories = true` under `[llm]` to allow it.")

    def _reason_to_wait(self, fitting: WordRequest | None) -> str:
        """Why nothing is sent now; empty: it may be."""
        if (pause := self.services.paused()) is not None:
            return _("memory is {zone}", pause.text(self.services.zone))
        if self.services.full():
            return _("the memories take all the room that they may")
        if fitting is None:
            return _(
                "the rest waits: words may use half of the {tokens_per_day:,} tokens of llm.tokens_per_day",
                self.tokens_per_day,
            )
        return ""

    async def _ask(self, place: str, request: WordRequest) -> tuple[Asked, bool]:
        """Send one request and keep its answer; whether the next one may be sent."""
        assert self.models is not None
        sent = len(request.memories)
        read = partial(words_of, request=request)
        try:
            answer: ModelResponse[dict[str, tuple[str, ...]]] = await self.models.ask(
                "words", PROMPT, request.data, SCHEMA, read
            )
        except ModelsFailed as failure:
            if not failure.received:
                return Asked(place, problem=str(failure)), False
            tried = [asked_once(memory, None) for memory in request.memories]
            problem = await self._keep(place, request.memories, tried)
            return Asked(place, sent=sent, problem=problem if isinstance(problem, str) else str(failure)), True
        wording = self.services.parameters.wording.within(place)

        def worded(memory: ShortTermMemory) -> ShortTermMemory:
            asked = asked_once(memory, answer.value.get(memory.id, ()))
            return wording.of_text(asked) if asked.other_words else asked

        memories = await asyncio.to_thread(list, map(worded, request.memories))
        kept = await self._keep(place, request.memories, memories)
        tokens = answer.input_tokens + answer.output_tokens
        if isinstance(kept, str):
            return Asked(place, answer.provider, sent, tokens=tokens, problem=kept), False
        return Asked(place, answer.provider, sent, kept, tokens), True

    async def _keep(
        self, place: str, sent: Sequence[ShortTermMemory], worded: Sequence[ShortTermMemory]
    ) -> WordsKept | str:
        """What was kept, or why it could not be."""

        def decide(state: ConversationState) -> tuple[Sequence[Change], WordsKept]:
            return keeping(state, sent, worded)

        try:
            return await self.services.commit(place, decide, by=BY)
        except StorageError as error:
            return str(error)

    async def _tokens_left(self) -> float:
        if not self.tokens_per_day:
            return inf
        now_ms = self.services.clock()
        used = await self.ledger.tokens(now_ms - DAY_MS, now_ms)
        return self.tokens_per_day * SHARE_OF_TOKENS - used

    async def _places(self, only: str | None) -> list[str]:
        return await self.conversations.ids() if only is None else [only]

    async def _requests(self, place: str) -> list[WordRequest]:
        state = await self.services.store.read(place)
        memories = tuple(state.short_term.values())
        return await asyncio.to_thread(requests_of, memories)

"""Ask a model for the other words of memories that have none, in the clean-up and on request. Nothing waits for it.

`conversations/word_giving.py` decides what is asked and what an answer means. Each request is one change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from languages import N_, _
from memory_server.conversations.changes import Change
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.services import Services
from memory_server.conversations.word_giving import (
    BY,
    PROMPT,
    SCHEMA,
    KeptWords,
    WordRequest,
    changes_keeping,
    counted_as_asked,
    requests_of,
    within,
    words_of,
)
from memory_server.kernel.errors import InvalidInput, ModelsFailed, StorageError
from memory_server.kernel.times import DAY_MS
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge.ports import ModelLedger, ModelResponse, Models

log = logging.getLogger(__name__)
SHARE_OF_TOKENS = 0.5
"""The share of `llm.tokens_per_day` that words may use: the rest is for facts and vectors, for which people wait."""
MOST_FAILURES = 2
"""Requests in a row without a usable answer after which a run ends: another answer is not likely to be better."""
NO_MODEL = N_("no model is configured; set llm.providers")
_NOTHING_KEPT = KeptWords()


@frozen
class PendingRequests:
    """The number of memories that wait for words, of their requests, and about how many tokens these take."""

    memories: int
    requests: int
    tokens: int


@frozen
class RequestResult:
    """A request of a conversation: how many memories were `sent`, and what was kept of the answer. `problem` says why
    the answer could not be used, or why nothing more is sent; it is empty if all went well. `is_last` means that no
    request may follow."""

    place: str
    model: str = ""
    sent: int = 0
    kept: KeptWords = _NOTHING_KEPT
    tokens: int = 0
    problem: str = ""
    is_last: bool = False


@dataclass(eq=False)
class WordGiver:
    """Gives words to the memories of all `conversations`. `models` is None without a model. The tokens of all
    purposes are counted in `ledger`; `tokens_per_day` 0 means no limit. `enabled` means that the settings
    want it."""

    conversations: Conversations
    services: Services
    ledger: ModelLedger
    models: Models | None
    enabled: bool = False
    tokens_per_day: int = 200_000

    async def waiting(self, only: str | None = None) -> PendingRequests:
        """Count what would be sent of a conversation, or of all. Nothing is sent."""
        requests: list[WordRequest] = []
        for conversation_id in await self._conversation_ids(only):
            requests += await self._requests(conversation_id)
        memories = sum(len(request.memories) for request in requests)
        return PendingRequests(memories, len(requests), sum(request.tokens for request in requests))

    async def give(self, only: str | None = None) -> AsyncIterator[RequestResult]:
        """Ask for the words of a conversation, or of all, and yield what became of each request.
        End early if the tokens are used up or several requests in a row fail. Raises InvalidInput
        if the settings do not want it, or name no model."""
        self.refuse()
        failures = 0
        for conversation_id in await self._conversation_ids(only):
            try:
                requests = await self._requests(conversation_id)
            except StorageError as error:
                yield RequestResult(conversation_id, problem=str(error))
                continue

            for request in requests:
                affordable = within(request, await self._tokens_left())
                reason = self._reason_to_wait(affordable)
                if reason:
                    yield RequestResult(conversation_id, problem=reason)
                    return

                assert affordable is not None
                asked = await self._send(conversation_id, affordable)
                yield asked
                failures = failures + 1 if asked.problem else 0

                if asked.is_last or failures == MOST_FAILURES:
                    return

    async def keep_up(self) -> None:
        """Give words as part of the daily upkeep, if the settings want it. Failures are logged."""
        if not self.enabled or self.models is None:
            return
        async for asked in self.give():
            if asked.problem:
                log.warning("%s", _("{name}: {reason}", asked.place, asked.problem))
            else:
                log.info(
                    "words: %d of %d memories of %s", asked.kept.memories, asked.sent, asked.place
                )

    def refuse(self) -> None:
        """Refuse if the settings do not want it, or name no model. Raises InvalidInput."""
        if self.models is None:
            raise InvalidInput("Nothing was sent: {reason}.", _(NO_MODEL))
        if not self.enabled:
            raise InvalidInput(
                "Nothing was sent; set `words_for_memories = true` under `[llm]` to allow it."
            )

    def _reason_to_wait(self, affordable: WordRequest | None) -> str:
        """Return why nothing is sent now; empty if something may be sent. `affordable` is the request that the tokens
        allow, or None if they allow no request."""
        pause = self.services.paused()
        if pause is not None:
            return _("memory is {zone}", pause.text(self.services.zone))
        if self.services.full():
            return _("the memories take all the room that they may")
        if affordable is None:
            return _(
                "the rest waits: words may use half of the {tokens_per_day:,} tokens of llm.tokens_per_day",
                self.tokens_per_day,
            )
        return ""

    async def _send(self, conversation_id: str, request: WordRequest) -> RequestResult:
        """Send one request, keep its answer, and return what became of it. It is the last one if no model answered, or
        if the words of an answer could not be kept. After a useless answer the memories count as asked about."""
        assert self.models is not None
        sent = len(request.memories)
        read = partial(words_of, request=request)

        try:
            answer: ModelResponse[dict[str, tuple[str, ...]]] = await self.models.ask(
                "words", PROMPT, request.data, SCHEMA, read
            )
        except ModelsFailed as failure:
            if not failure.received:
                return RequestResult(conversation_id, problem=str(failure), is_last=True)

            # The answer was useless, so these memories are not asked about again.
            problem = str(failure)
            tried_memories = [counted_as_asked(memory, None) for memory in request.memories]
            try:
                await self._keep(conversation_id, request.memories, tried_memories)
            except StorageError as error:
                problem = str(error)
            return RequestResult(conversation_id, sent=sent, problem=problem)

        worded_memories = await asyncio.to_thread(
            self._worded, conversation_id, request.memories, answer.value
        )
        tokens = answer.input_tokens + answer.output_tokens
        asked = RequestResult(conversation_id, answer.provider, sent, tokens=tokens)
        try:
            words_kept = await self._keep(conversation_id, request.memories, worded_memories)
        except StorageError as error:
            return replace(asked, problem=str(error), is_last=True)
        return replace(asked, kept=words_kept)

    def _worded(
        self,
        conversation_id: str,
        memories: Sequence[ShortTermMemory],
        words: Mapping[str, tuple[str, ...]],
    ) -> list[ShortTermMemory]:
        """Return the memories with the words of an answer, by their ids; each counts as asked
        about, also one without words. Blocking."""
        wording = self.services.parameters.wording.within(conversation_id)
        worded_memories: list[ShortTermMemory] = []
        for memory in memories:
            worded = counted_as_asked(memory, words.get(memory.id, ()))
            if worded.other_words:
                worded = wording.of_text(worded)
            worded_memories.append(worded)
        return worded_memories

    async def _keep(
        self,
        conversation_id: str,
        sent: Sequence[ShortTermMemory],
        worded: Sequence[ShortTermMemory],
    ) -> KeptWords:
        """Store the words of an answer, and return how many were kept. Raises StorageError if they
        could not be kept."""

        def decide(state: ConversationState) -> tuple[Sequence[Change], KeptWords]:
            return changes_keeping(state, sent, worded)

        return await self.services.commit(conversation_id, decide, by=BY)

    async def _tokens_left(self) -> float:
        """Return the tokens that words may still use today."""
        if not self.tokens_per_day:
            return inf
        now_ms = self.services.clock()
        allowed = self.tokens_per_day * SHARE_OF_TOKENS
        return allowed - await self.ledger.tokens(now_ms - DAY_MS, now_ms)

    async def _conversation_ids(self, only: str | None) -> list[str]:
        return await self.conversations.ids() if only is None else [only]

    async def _requests(self, conversation_id: str) -> list[WordRequest]:
        """Return the requests for the memories of a conversation that need words."""
        state = await self.services.store.read(conversation_id)
        memories = tuple(state.short_term.values())
        return await asyncio.to_thread(requests_of, memories)

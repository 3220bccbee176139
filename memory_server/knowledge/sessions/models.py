"""What models do for sessions, within the time that a whole call may take."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from languages import N_
from memory_server.kernel.errors import ModelsFailed, NothingToKeep
from memory_server.kernel.values import dataclass
from memory_server.knowledge.embeddings import TextVectors
from memory_server.knowledge.entry import Entry, Hit, Operation, Query
from memory_server.knowledge.options import SessionSettings
from memory_server.knowledge.policies import to_keep
from memory_server.knowledge.ports import EntryStore, ModelResponse, Models, ScopeView
from memory_server.knowledge.ranking import LEAST_SHARE, by_ranks
from memory_server.knowledge.sessions.facts import (
    EXTRACTION,
    FACTS_SCHEMA,
    MERGE,
    SHOWN,
    TEXT_SCHEMA,
    Fact,
    SessionText,
    asked,
    facts_of,
    merged_of,
)
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.knowledge.sessions.records import hits_of, scope_of, where_of

T = TypeVar("T")
NO_MODEL = N_("no model is configured; set llm.providers")
VECTOR_SECONDS = 2.0
"""The time that a call waits for vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions(SessionSettings):
    """The options of sessions. `total_seconds`: the time of all models together; `page_bytes`: JSON of a page of
    memories."""

    least_share: float = LEAST_SHARE
    total_seconds: float = 20.0
    page_bytes: int = 30_000
    extraction_prompt: str | None = None
    merge_prompt: str | None = None


class OperationInProgress:
    """A call of `caller` that is going on: what its note will say."""

    def __init__(self, caller: SessionIds, op: str, by: str) -> None:
        self.caller = caller
        self._op = op
        self._by = by
        self.began = time.perf_counter()
        self.ids: Sequence[int] = ()
        self.noted = False
        self.detail: dict[str, Any] = {}

    def spent(self, response: ModelResponse[Any]) -> None:
        """Count what a model took."""
        amounts = {
            "input_tokens": response.input_tokens,
            "output_tokens": response.output_tokens,
            "cost": response.cost,
            "model_calls": 1,
        }
        for name, amount in amounts.items():
            self.detail[name] = self.detail.get(name, 0) + amount

    @property
    def took_ms(self) -> float:
        return (time.perf_counter() - self.began) * 1000

    def note(self) -> Operation:
        """Return what the history says of the call as it is now."""
        caller: dict[str, Any] = self.caller.ids | {"sources": dict(self.caller.sources)}
        if self.caller.metadata:
            caller["metadata"] = dict(self.caller.metadata)
        if self.caller.overridden:
            caller["overridden"] = list(self.caller.overridden)
        return Operation(
            self._op, self._by, caller=caller, took_ms=self.took_ms, detail=self.detail
        )


@dataclass(frozen=True, eq=False)
class SessionModels:
    """The models of the settings (None without models), and the vectors of the memories in `store`."""

    store: EntryStore
    options: SessionOptions
    models: Models | None
    vectors: TextVectors

    async def ask(
        self,
        operation: OperationInProgress,
        purpose: str,
        system: str,
        data: str,
        schema: Mapping[str, Any],
        read: Callable[[Any], T],
    ) -> T:
        """Return the answer of a model, and note with `operation` what it took. Raise ModelsFailed
        if no model is configured, or no model answered in the time that the operation has left."""
        if self.models is None:
            raise ModelsFailed(NO_MODEL)
        response = await self.models.ask(
            purpose,
            system,
            data=data,
            schema=schema,
            read=read,
            seconds=self.seconds_left(operation),
        )
        operation.detail |= {"mode": "inference", "model": response.provider}
        operation.spent(response)
        return response.value

    async def embed(self, operation: OperationInProgress, texts: Sequence[str]) -> None:
        """Make vectors of texts that will be stored. Where none come in time, the clean-up makes them."""
        with suppress(ModelsFailed):
            seconds = min(VECTOR_SECONDS, self.seconds_left(operation))
            await self.vectors.vectors(
                scope_of(operation.caller), texts, seconds=seconds, spent=operation.spent
            )

    def seconds_left(self, operation: OperationInProgress) -> float:
        """Seconds that the whole call may still take."""
        return max(0.0, self.options.total_seconds - operation.took_ms / 1000)

    async def vector_of(self, operation: OperationInProgress, query: str) -> bytes:
        """Return the vector of a query; empty if there is nothing to compare it with. Raise ModelsFailed if no model
        gives it, and NothingToKeep if all of it is private or recalled."""
        scope = scope_of(operation.caller)
        where = where_of(operation.caller)
        text = to_keep(query)
        if self.vectors.embeddings is not None:
            count = await self.store.read(scope, lambda view: view.count(where))
            if count == 0:
                return b""
        vectors = await self.vectors.vectors(
            scope, [text], seconds=VECTOR_SECONDS, spent=operation.spent
        )
        if text not in vectors:
            raise ModelsFailed("the model does not take this query")
        return vectors[text]

    async def related(self, operation: OperationInProgress, words: str) -> list[Entry]:
        """Return at most `SHOWN` memories that share words with these words or are near to them in meaning, the best
        in both first. If there is no vector, only words count."""
        vector = b""
        with suppress(ModelsFailed, NothingToKeep):
            vector = await self.vector_of(operation, words)
        scope = scope_of(operation.caller)
        where = where_of(operation.caller)

        def read(view: ScopeView) -> list[Entry]:
            worded = view.search(Query(words, where, SHOWN)).hits
            near: list[Hit] = []
            if vector:
                cosines, _missing = view.nearest(vector, where)
                near = hits_of(view, scope, cosines[:SHOWN])
            return [hit.entry for hit in by_ranks(worded, near)[:SHOWN]]

        return await self.store.read(scope, read)

    async def facts(
        self,
        operation: OperationInProgress,
        texts: Sequence[SessionText],
        memories: Sequence[Entry],
        prompt: str | None,
    ) -> tuple[Fact, ...]:
        """Return the facts that a model finds in texts, with `prompt` added to its own prompt. Raise ModelsFailed if no
        model answered."""
        system = self.options.extraction_prompt or EXTRACTION
        if prompt:
            system += f"\n{prompt}"
        return await self.ask(
            operation,
            "extract",
            system=system,
            data=asked(texts, memories),
            schema=FACTS_SCHEMA,
            read=facts_of,
        )

    async def merged(self, operation: OperationInProgress, memory: str, data: str) -> str:
        """Return the text that a model makes of a memory and new data. Raise ModelsFailed if no
        model answered."""
        system = self.options.merge_prompt or MERGE
        texts = json.dumps({"memory": memory, "data": data}, ensure_ascii=False)
        try:
            return await self.ask(
                operation, "merge", system=system, data=texts, schema=TEXT_SCHEMA, read=merged_of
            )
        except ModelsFailed as failure:
            raise ModelsFailed(
                "Nothing was changed: {reason}; try again, or give mode: direct.", failure
            ) from failure

"""What models do for sessions, within the time that a whole call may take."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from memory_server.kernel.errors import ModelsFailed
from memory_server.knowledge.embeddings import TextVectors
from memory_server.knowledge.options import SessionSettings
from memory_server.knowledge.policies import to_keep
from memory_server.knowledge.ports import EntryStore, ModelResponse, Models
from memory_server.knowledge.ranking import LEAST_SHARE
from memory_server.knowledge.sessions.facts import MERGE, TEXT_SCHEMA, merged_of
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.knowledge.sessions.records import scope_of, where_of
from sandbox.locale import _

T = TypeVar("T")
NO_MODEL = _("no model is configured; set llm.providers")
VECTOR_SECONDS = 2.0
"""How long a call waits for vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions(SessionSettings):
    """`total_seconds`: of all models together; `page_bytes`: JSON of a page of memories."""

    least_share: float = LEAST_SHARE
    total_seconds: float = 20.0
    page_bytes: int = 30_000
    extraction_prompt: str | None = None
    merge_prompt: str | None = None


class OperationInProgress:
    """A call that is going on: what its note will say."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.ids: Sequence[int] = ()
        self.noted = False
        self.detail: dict[str, Any] = {}

    def spent(self, done: ModelResponse[Any]) -> None:
        """Count what a model took."""
        took = {"input_tokens": done.input_tokens, "output_tokens": done.output_tokens, "cost": done.cost}
        for name, value in (took | {"model_calls": 1}).items():
            self.detail[name] = self.detail.get(name, 0) + value

    @property
    def took_ms(self) -> float:
        return (time.perf_counter() - self.began) * 1000


@dataclass(frozen=True, eq=False)
class SessionModels:
    """The models of the settings (None: there are none), and the vectors of the memories in `store`."""

    store: EntryStore
    options: SessionOptions
    models: Models | None
    vectors: TextVectors

    async def ask(
        self,
        doing: OperationInProgress,
        purpose: str,
        system: str,
        data: str,
        schema: Mapping[str, Any],
        read: Callable[[Any], T],
    ) -> T:
        """Ask a model, and note what it took. Raises ModelsFailed: there is none, or none answered."""
        if self.models is None:
            raise ModelsFailed(NO_MODEL)
        done = await self.models.ask(purpose, system, data, schema, read, self.left(doing))
        doing.detail |= {"mode": "inference", "model": done.provider}
        doing.spent(done)
        return done.value

    async def embed(self, caller: SessionIds, doing: OperationInProgress, texts: Sequence[str]) -> None:
        """Make vectors of texts that will be stored. Where none come in time, the clean-up makes them."""
        with suppress(ModelsFailed):
            seconds = min(VECTOR_SECONDS, self.left(doing))
            await self.vectors.vectors(scope_of(caller), texts, seconds, doing.spent)

    def left(self, doing: OperationInProgress) -> float:
        """Seconds that the whole call may still take."""
        return max(0.0, self.options.total_seconds - doing.took_ms / 1000)

    async def vector_of(self, caller: SessionIds, doing: OperationInProgress, query: str) -> bytes:
        """The vector of a query; empty: there is nothing to compare it with. Raises ModelsFailed: no model gives it.
        NothingToKeep: all of it is private or recalled."""
        scope, where, meant = scope_of(caller), where_of(caller), to_keep(query)
        if self.vectors.embeddings is not None and not await self.store.read(scope, lambda held: held.count(where)):
            return b""
        vectors = await self.vectors.vectors(scope, [meant], VECTOR_SECONDS, doing.spent)
        if meant not in vectors:
            raise ModelsFailed("the model does not take this query")
        return vectors[meant]

    async def merged(self, doing: OperationInProgress, memory: str, data: str) -> str:
        """What a model makes of both. Raises ModelsFailed: none answered."""
        system = self.options.merge_prompt or MERGE
        asked_ = json.dumps({"memory": memory, "data": data}, ensure_ascii=False)
        try:
            return await self.ask(doing, "merge", system, asked_, TEXT_SCHEMA, merged_of)
        except ModelsFailed as failure:
            raise ModelsFailed("Nothing was changed: {reason}; try again, or give mode: direct.", failure) from failure

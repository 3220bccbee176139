"""What calls of sessions are given and give: texts, what a caller may see, outcomes and figures. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Literal

from memory_server.kernel.errors import MemoryNotFound, NothingToKeep
from memory_server.kernel.fusion import FUSED
from memory_server.kernel.items import Scope
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.messages import NOTHING, GivenMessage, Message, messages_of
from memory_server.kernel.values import JsonObject, frozen
from memory_server.knowledge.entry import Entry, Figures, Filter, Hit, Operation, Query
from memory_server.knowledge.policies import to_keep
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.ranking import by_meaning, by_ranks, by_relevance
from memory_server.knowledge.sessions.facts import MemoryEvent, SessionText
from memory_server.knowledge.sessions.ids import SessionIds

Mode = Literal["inference", "direct"]
SearchType = Literal["vector", "text", "hybrid"]


@frozen
class Outcome:
    """What a call did. `entries`: the memories, and what happened to them; `reason`: why it was not done as it was
    asked."""

    entries: tuple[MemoryEvent, ...]
    mode_used: Mode = "direct"
    reason: str | None = None
    change_id: str | None = None


@frozen
class SessionHits:
    """The result of a search, best first. `total` counts the matches beyond the limit too. `reason` says why the search
    was not by meaning as asked (`search_type_used` is what it was), or None."""

    hits: tuple[Hit, ...]
    total: int
    search_type_used: SearchType
    reason: str | None
    took_ms: float


@frozen
class OperationStats:
    """Figures of a kind of operation: how often it was done, how often in vain, and how long it took."""

    count: int
    errors: int
    p50_ms: float
    p95_ms: float


@frozen
class SessionFigures:
    """Figures of what a caller may see."""

    figures: Figures
    by_agent: Mapping[str, int]
    by_run: Mapping[str, int]
    storage_bytes: int
    vectors: int
    operations: Mapping[str, OperationStats] = field(default_factory=lambda: NOTHING)
    models: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    sources: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: NOTHING)


def measured(operations: Sequence[Operation]) -> dict[str, OperationStats]:
    """Return the figures of each kind of operation."""
    by_kind: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_kind[operation.op].append(operation)
    return {
        kind: _measured(operations_of_kind) for kind, operations_of_kind in sorted(by_kind.items())
    }


def spent(operations: Sequence[Operation]) -> dict[str, float]:
    """Sum up what models took for these operations: calls, tokens and cost."""
    amounts: dict[str, float] = {}
    for name in ("model_calls", "input_tokens", "output_tokens", "cost"):
        amounts[name] = sum(operation.detail.get(name, 0) for operation in operations)
    return amounts


def sources_of(operations: Sequence[Operation]) -> dict[str, dict[str, int]]:
    """Count, for each id, how often it came from each source, and how often it replaced another id (`overridden`)."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for operation in operations:
        for name, source in operation.caller.get("sources", {}).items():
            counts[name][source] += 1
        for name in operation.caller.get("overridden", ()):
            counts[name]["overridden"] += 1
    return {name: dict(sorted(count.items())) for name, count in sorted(counts.items())}


def _measured(operations: Sequence[Operation]) -> OperationStats:
    """Return the figures of these operations: their number, how many failed, and their durations at the middle and at
    95 %."""
    durations_ms = sorted(operation.took_ms or 0.0 for operation in operations)
    errors = sum(operation.error is not None for operation in operations)
    return OperationStats(
        count=len(durations_ms),
        errors=errors,
        p50_ms=_quantile(durations_ms, 0.5),
        p95_ms=_quantile(durations_ms, 0.95),
    )


def _quantile(in_order: Sequence[float], share: float) -> float:
    position = math.ceil(share * len(in_order)) - 1
    return in_order[max(0, position)]


def texts_of(messages: str | Sequence[GivenMessage]) -> list[SessionText]:
    """Return the texts to keep, with what is known about each. Raise NothingToKeep if no text is left."""
    if isinstance(messages, str):
        return [SessionText(to_keep(without_surrogates(messages)), {})]
    texts: list[SessionText] = []
    for message in messages_of(messages):
        if message.role == "system":
            continue
        with suppress(NothingToKeep):
            text = to_keep(message.content)
            if text.strip():
                texts.append(SessionText(text, _metadata_of(message)))
    if not texts:
        raise NothingToKeep(
            "No text to keep is in the messages: those of the system, private and recalled parts are not stored."
        )
    return texts


def _metadata_of(message: Message) -> JsonObject:
    metadata = {"role": message.role, "name": message.name, "timestamp": message.time_ms}
    return {name: value for name, value in metadata.items() if value is not None}


def counts_of(view: ScopeView, where: Filter) -> SessionFigures:
    """Return the counts and sizes of the memories that meet a condition, without operations."""
    return SessionFigures(
        figures=view.figures(replace(where, archived=None)),
        by_agent=view.counted("agent_id", where),
        by_run=view.counted("run_id", where),
        storage_bytes=view.stored_bytes(where),
        vectors=view.vectors(where),
    )


def own(view: ScopeView, caller: SessionIds, memory_id: int) -> Entry:
    """Return the live memory of this session. Raise MemoryNotFound if it does not exist or belongs to another user; the
    sentence is the same in both cases."""
    entry = view.get(id=memory_id)
    if entry is None or entry.archived_ms is not None or not _is_of(entry, caller):
        raise MemoryNotFound(
            "Memory {memory} is not in this session; memory_search and memory_get_all show those that are.",
            memory_id,
        )
    return entry


def _is_of(entry: Entry, caller: SessionIds) -> bool:
    return all(getattr(entry, name) == value for name, value in narrowed(caller).items())


def scope_of(caller: SessionIds) -> Scope:
    """Return the scope of the user."""
    return Scope("sessions", caller.user_id)


def narrowed(caller: SessionIds) -> dict[str, str]:
    """Return the agent and run that are set."""
    return {name: value for name, value in caller.ids.items() if name != "user_id"}


def where_of(caller: SessionIds) -> Filter:
    """Return the filter for the memories that a caller sees, in the scope of the user."""
    return Filter(**narrowed(caller))  # type: ignore[arg-type]


@frozen
class FoundMemories:
    """The hits of a search, how many memories match, and how many have no vector."""

    hits: Sequence[Hit]
    total: int
    missing: int = 0


@frozen
class _NearMemories:
    """The nearest memories, the ids of all that are near enough, and how many have no vector."""

    hits: list[Hit]
    ids: frozenset[int]
    missing: int


@frozen
class MemorySearch:
    """A search in the scope of a user. `vector` is the vector of the query; if it is empty, only words are searched."""

    scope: Scope
    words: Query
    vector: bytes
    min_similarity: float
    limit: int

    @property
    def searches(self) -> Mapping[SearchType, Callable[[ScopeView], FoundMemories]]:
        """The kinds of searches."""
        return {"text": self.by_words, "vector": self.by_vector, "hybrid": self.by_both}

    def by_words(self, view: ScopeView) -> FoundMemories:
        """Search memories by words in any language."""
        matches = view.search(self.words)
        return FoundMemories(by_relevance(matches.hits), matches.total)

    def by_vector(self, view: ScopeView) -> FoundMemories:
        """Search memories by meaning."""
        near = self._near(view)
        return FoundMemories(near.hits[: self.limit], len(near.ids), near.missing)

    def by_both(self, view: ScopeView) -> FoundMemories:
        """Search memories by words and by meaning."""
        matches = view.search(self.words)
        near = self._near(view)
        in_both = sum(hit.entry.id in near.ids for hit in matches.hits)
        ranked = by_ranks(by_relevance(matches.hits), near.hits)
        total = matches.total + len(near.ids) - in_both
        return FoundMemories(ranked[: self.limit], total, near.missing)

    def _near(self, view: ScopeView) -> _NearMemories:
        """Find the memories that are near enough to the vector; only the first `FUSED` are read as hits."""
        cosines, missing = view.nearest(self.vector, self.words.where)
        near = [(entry_id, cosine) for entry_id, cosine in cosines if cosine >= self.min_similarity]
        hits = by_meaning(hits_of(view, self.scope, near[:FUSED]))
        return _NearMemories(hits, frozenset(entry_id for entry_id, _cosine in near), missing)


def hits_of(view: ScopeView, scope: Scope, cosines: Sequence[tuple[int, float]]) -> list[Hit]:
    """Return the entries of these ids that still exist, with their cosines as relevance."""
    hits = []
    for entry_id, cosine in cosines:
        entry = view.get(id=entry_id)
        if entry is not None:
            hits.append(Hit(entry, cosine, matched=NOTHING, scope=scope))
    return hits

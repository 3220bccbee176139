"""What calls of sessions are given and give: texts, what a caller may see, outcomes and figures. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from memory_server.kernel.errors import MemoryNotFound, NothingToKeep
from memory_server.kernel.messages import Message, without_surrogates
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import Entry, Figures, Filter, Hit, Operation
from memory_server.knowledge.policies import to_keep
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.sessions.ids import SessionIds

Mode = Literal["inference", "direct"]
SearchType = Literal["vector", "text", "hybrid"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call did. `entries`: with what happened to each (`ADD`, `UPDATE`, `NONE`, `DELETE`); `reason`: why it was
    not done as it was asked."""

    entries: tuple[tuple[str, Entry], ...]
    mode_used: Mode = "direct"
    reason: str | None = None
    change_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionHits:
    """What a search found, best first, and how it searched."""

    hits: tuple[Hit, ...]
    total: int
    search_type_used: SearchType
    reason: str | None
    took_ms: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one kind of operation: how often, how often in vain, and how long it took."""

    count: int
    errors: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """Figures of what a caller may see."""

    figures: Figures
    by_agent: Mapping[str, int]
    by_run: Mapping[str, int]
    storage_bytes: int
    vectors: int
    operations: Mapping[str, Measured]
    models: Mapping[str, float]
    sources: Mapping[str, Mapping[str, int]]


def measured(operations: Sequence[Operation]) -> dict[str, Measured]:
    """The figures of each kind of operation."""
    done: dict[str, list[Operation]] = defaultdict(list)
    for each in operations:
        done[each.op].append(each)
    return {op: _measured(each) for op, each in sorted(done.items())}


def spent(operations: Sequence[Operation]) -> dict[str, float]:
    """What models took for these operations: calls, tokens and cost."""
    names = ("model_calls", "input_tokens", "output_tokens", "cost")
    return {name: sum(each.detail.get(name, 0) for each in operations) for name in names}


def sources_of(operations: Sequence[Operation]) -> dict[str, dict[str, int]]:
    """For each id, how often it came from each source, and how often it replaced another one (`overridden`)."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for operation in operations:
        for name, source in operation.caller.get("sources", {}).items():
            counts[name][source] += 1
        for name in operation.caller.get("overridden", ()):
            counts[name]["overridden"] += 1
    return {name: dict(sorted(count.items())) for name, count in sorted(counts.items())}


def _measured(operations: Sequence[Operation]) -> Measured:
    took = sorted(each.took_ms or 0.0 for each in operations)

    def quantile(share: float) -> float:
        return took[max(0, math.ceil(share * len(took)) - 1)]

    return Measured(len(took), sum(each.error is not None for each in operations), quantile(0.5), quantile(0.95))


def texts_of(messages: str | Sequence[Message]) -> list[tuple[str, dict[str, Any]]]:
    """The texts to keep, with what is known of each."""
    if isinstance(messages, str):
        return [(to_keep(without_surrogates(messages)), {})]
    texts: list[tuple[str, dict[str, Any]]] = []
    for each in messages:
        facts = {"role": each.role, "name": each.name, "timestamp": each.time_ms}
        with suppress(NothingToKeep):
            if each.role != "system" and (kept := to_keep(each.content)).strip():
                texts.append((kept, {name: value for name, value in facts.items() if value is not None}))
    if not texts:
        raise NothingToKeep(
            "No text to keep is in the messages: those of the system, private and recalled parts are not stored."
        )
    return texts


def own(held: ScopeView, caller: SessionIds, memory_id: int) -> Entry:
    """The live memory of this session. Raises MemoryNotFound: there is none, or it is somebody else's; the sentence is
    the same."""
    entry = held.get(id=memory_id)
    ids = narrowed(caller).items()
    if entry is None or entry.archived_ms is not None or any(getattr(entry, name) != value for name, value in ids):
        raise MemoryNotFound(
            "Memory {memory} is not in this session; memory_search and memory_get_all show those that are.", memory_id
        )
    return entry


def scope_of(caller: SessionIds) -> Scope:
    """The scope of the user."""
    return Scope("sessions", caller.user_id)


def narrowed(caller: SessionIds) -> dict[str, str]:
    """The agent and run that are set."""
    return {name: value for name, value in caller.ids.items() if name != "user_id"}


def where_of(caller: SessionIds) -> Filter:
    """The memories that a caller sees, in the scope of the user."""
    return Filter(**narrowed(caller))  # type: ignore[arg-type]


def caller_json(caller: SessionIds) -> dict[str, Any]:
    """A caller as the history keeps it."""
    caller_json: dict[str, Any] = caller.ids | {"sources": dict(caller.sources)}
    if caller.metadata:
        caller_json["metadata"] = dict(caller.metadata)
    if caller.overridden:
        caller_json["overridden"] = list(caller.overridden)
    return caller_json

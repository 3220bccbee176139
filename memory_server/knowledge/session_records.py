"""What the calls of sessions give: outcomes, hits and figures. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memory_server.knowledge.entry import Entry, Figures, Hit, Operation

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
    operations: Mapping[str, Measured]
    models: Mapping[str, float]


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


def _measured(operations: Sequence[Operation]) -> Measured:
    took = sorted(each.took_ms or 0.0 for each in operations)

    def quantile(share: float) -> float:
        return took[max(0, math.ceil(share * len(took)) - 1)]

    return Measured(len(took), sum(each.error is not None for each in operations), quantile(0.5), quantile(0.95))

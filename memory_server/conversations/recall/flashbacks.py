"""Flashbacks: the weight of each memory in the draw, and draws that lie apart in time, one memory at a time and over an
index. Pure; numpy is imported only for an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.relevance import age_of

if TYPE_CHECKING:
    from memory_server.conversations.recall.columns import Columns
    from memory_server.conversations.recall.index import Floats, Integers


def flashback_weight(memory: ShortTermMemory, now_ms: int, parameters: RecallParameters) -> float:
    """Weight of a memory in the draw: 1 + 1.7 · max(0, 1 − age/365 d) + 1.1 · clamp(score, 0, 50)/50."""
    recency = max(0.0, 1.0 - age_of(memory.time_ms, now_ms) / parameters.flashback_horizon_ms)
    score_share = (
        min(max(memory.score, 0.0), parameters.flashback_score_full)
        / parameters.flashback_score_full
    )
    return (
        1.0
        + parameters.flashback_recency_weight * recency
        + parameters.flashback_score_weight * score_share
    )


def flashback_weights(ages: Integers, scores: Floats, parameters: RecallParameters) -> Floats:
    """The weights of all rows at once, by the formula of `flashback_weight`; `ages` in milliseconds."""
    recency = (1.0 - ages / parameters.flashback_horizon_ms).clip(0.0)
    score_share = (
        scores.clip(0.0, parameters.flashback_score_full) / parameters.flashback_score_full
    )
    weights: Floats = 1.0 + parameters.flashback_recency_weight * recency
    weights += parameters.flashback_score_weight * score_share
    return weights


def flashbacks(
    eligible: Iterable[ShortTermMemory],
    chosen: Sequence[ShortTermMemory],
    now_ms: int,
    rng: Random,
    parameters: RecallParameters,
) -> list[ShortTermMemory]:
    """Weighted draws without replacement from what was not chosen, under the 10-minute rule after each draw."""
    chosen_ids = {memory.id for memory in chosen}
    pool = [memory for memory in eligible if memory.id not in chosen_ids]
    for chosen_memory in chosen:
        pool = [
            memory
            for memory in pool
            if abs(memory.time_ms - chosen_memory.time_ms) >= parameters.spacing_ms
        ]
    # The order of the pool decides what a seed draws, so it must not depend on the order of the store.
    pool.sort(key=attrgetter("time_ms", "id"))
    weights = [flashback_weight(memory, now_ms, parameters) for memory in pool]
    drawn: list[ShortTermMemory] = []
    while len(drawn) < parameters.flashback_count and any(weights):
        [memory] = rng.choices(pool, weights)
        drawn.append(memory)
        for number, candidate in enumerate(pool):
            is_near = abs(candidate.time_ms - memory.time_ms) < parameters.spacing_ms
            if candidate is memory or is_near:
                weights[number] = 0.0
    return drawn


def drawn_rows(
    weights: Floats, columns: Columns, rng: Random, parameters: RecallParameters
) -> list[int]:
    """The rows that the same draws bring, by the weights of all rows: 0 for a row that cannot be drawn."""
    import numpy as np

    if not len(weights):
        return []
    # The order decides what a seed draws, so it must not depend on that of the store.
    order, times = columns.oldest_first()
    weights = weights[order]
    sums = np.empty_like(weights)
    drawn: list[int] = []
    while len(drawn) < parameters.flashback_count:
        np.cumsum(weights, out=sums)
        if not sums[-1] > 0.0:
            break
        position = int(sums.searchsorted(rng.random() * sums[-1], side="right"))
        position = min(position, len(sums) - 1)
        drawn.append(int(order[position]))
        weights[position] = 0.0
        weights[around(int(times[position]), times, parameters.spacing_ms)] = 0.0
    return drawn


def around(time_ms: int, times: Integers, spacing_ms: int) -> slice:
    """The positions in the ascending `times` that are less than `spacing_ms` from `time_ms`."""
    first = int(times.searchsorted(time_ms - spacing_ms, side="right"))
    end = int(times.searchsorted(time_ms + spacing_ms, side="left"))
    return slice(first, max(first, end))

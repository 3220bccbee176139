"""Flashbacks over an index: their weights, and drawing them apart in time. Pure."""

from __future__ import annotations

from random import Random

import numpy as np

from memory_server.conversations.recall.columns import Columns
from memory_server.conversations.recall.index import Floats, Integers
from memory_server.conversations.recall.parameters import RecallParameters


def flashback_weights(ages: Integers, scores: Floats, parameters: RecallParameters) -> Floats:
    """Weights in the draw: 1 + 1.7 · max(0, 1 − age/365 d) + 1.1 · clamp(score, 0, 50)/50."""
    recency = np.maximum(0.0, 1.0 - ages / parameters.flashback_horizon_ms)
    liked = np.clip(scores, 0.0, parameters.flashback_score_full) / parameters.flashback_score_full
    weights: Floats = 1.0 + parameters.flashback_recency_weight * recency + parameters.flashback_score_weight * liked
    return weights


def drawn(weights: Floats, columns: Columns, rng: Random, parameters: RecallParameters) -> list[int]:
    """Weighted draws without replacement, each barring what lies within 10 minutes of it. The order decides what a seed
    draws, so it must not depend on the order of the store."""
    if not len(weights):
        return []
    order, times = columns.oldest_first()
    weights = weights[order]
    sums = np.empty_like(weights)
    drawn: list[int] = []
    while len(drawn) < parameters.flashback_count:
        np.cumsum(weights, out=sums)
        if not sums[-1] > 0.0:
            break
        place = min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), len(sums) - 1)
        drawn.append(int(order[place]))
        weights[place] = 0.0
        weights[around(int(times[place]), times, parameters.spacing_ms)] = 0.0
    return drawn


def around(time_ms: int, times: Integers, spacing_ms: int) -> slice:
    """The places in the ascending `times` that are less than `spacing_ms` from `time_ms`."""
    first = int(np.searchsorted(times, time_ms - spacing_ms, side="right"))
    return slice(first, max(first, int(np.searchsorted(times, time_ms + spacing_ms, side="left"))))

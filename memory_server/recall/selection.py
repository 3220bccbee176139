"""Which memories a search gives: two top, one next, two flashbacks, and what was held back by which rule.

Source: the Node original; docs/explanation/recall.md. Ties are broken by time, then id, newest first, so that the
same input, clock and seed give the same answer. Works on whole columns at once: equal to the plain formula of
`relevance.py` within 1e-12, with the same selection (tests/plain_selection.py is the plain form).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

import numpy as np

from memory_server.model import ShortTermMemory
from memory_server.recall.outcome import HeldBack, Recall, Recalled
from memory_server.recall.parameters import RecallParameters
from memory_server.recall.postings import Floats, Integers, Mask, Postings
from memory_server.recall.relevance import Query, receipt

_FIRST_RANKED = 64
"""Candidates that are sorted at first; the spacing rule seldom needs more to fill three places."""


def select(
    memories: Mapping[str, ShortTermMemory],
    index: Postings,
    query: Query,
    *,
    conversation_id: str,
    now_ms: int,
    rng: Random,
    parameters: RecallParameters,
) -> Recall:
    """Decide what comes to mind in `conversation_id` at `now_ms`, given the words of `query`.

    `index` is that of `memories`.
    """
    if not memories:
        return Recall((), (), (), HeldBack(0, 0), 0)
    times = index.times
    ages = np.maximum(now_ms - times, 0)
    alive = index.alive()
    eligible = alive & ~(index.of_conversation(conversation_id) & (ages < parameters.own_conversation_ms))
    decay = parameters.decay_ceiling * (1.0 - np.exp(-ages * parameters.decay_per_ms))
    relevance = index.match(query) - decay + index.scores

    places = parameters.top_count + parameters.next_count
    candidates = np.flatnonzero(eligible & (relevance >= parameters.threshold))
    chosen, adjacent = _spaced(_ranked(candidates, relevance, index), times, places, parameters.spacing_ms)

    free = eligible.copy()
    free[chosen] = False
    for row in chosen:
        free &= np.abs(times - times[row]) >= parameters.spacing_ms
    weights = np.where(free, _flashback_weights(ages, index.scores, parameters), 0.0)
    drawn = _drawn(weights, times, index.oldest_first(), rng, parameters)

    def explained(rows: Sequence[int]) -> tuple[Recalled, ...]:
        tier = (memories[index.ids[row]] for row in rows)
        return tuple(Recalled(memory, receipt(memory, query, now_ms, parameters)) for memory in tier)

    return Recall(
        top=explained(chosen[: parameters.top_count]),
        next=explained(chosen[parameters.top_count :]),
        flashback=explained(drawn),
        held_back=HeldBack(recent=len(index) - int(np.count_nonzero(eligible)), adjacent=adjacent),
        searched=len(index),
    )


def _ranked(candidates: Integers, relevance: Floats, index: Postings) -> Iterator[int]:
    """The candidates, most relevant first; ties newest first, then by id. Sorts no more than is asked for."""
    size, given = _FIRST_RANKED, 0
    while given < len(candidates):
        best = candidates
        if size < len(candidates):
            worth = relevance[candidates]
            # With everything that ties with the last of them, so that a tie is not cut by the partition.
            best = candidates[worth >= np.partition(worth, len(worth) - size)[len(worth) - size]]
        rows = sorted(best.tolist(), key=lambda row: (-relevance[row], -index.times[row], index.ids[row]))
        yield from rows[given:]
        given, size = len(rows), size * 8


def _spaced(ranked: Iterator[int], times: Integers, places: int, spacing_ms: int) -> tuple[list[int], int]:
    """The first `places` rows that keep their distance from each other, and how many were passed over for it."""
    chosen: list[int] = []
    passed_over = 0
    while len(chosen) < places and (row := next(ranked, None)) is not None:
        if any(abs(int(times[row]) - int(times[other])) < spacing_ms for other in chosen):
            passed_over += 1
        else:
            chosen.append(row)
    return chosen, passed_over


def _flashback_weights(ages: Integers, scores: Floats, parameters: RecallParameters) -> Floats:
    """Weights in the draw: 1 + 1.7 · max(0, 1 − age/365 d) + 1.1 · clamp(score, 0, 50)/50."""
    recency = np.maximum(0.0, 1.0 - ages / parameters.flashback_horizon_ms)
    liked = np.clip(scores, 0.0, parameters.flashback_score_full) / parameters.flashback_score_full
    weights: Floats = 1.0 + parameters.flashback_recency_weight * recency + parameters.flashback_score_weight * liked
    return weights


def _drawn(weights: Floats, times: Integers, order: Integers, rng: Random, parameters: RecallParameters) -> list[int]:
    """Weighted draws without replacement, each barring what lies within 10 minutes of it.

    The order decides what a seed draws, so it is one that does not depend on that of the store.
    """
    weights, ordered_times = weights[order], times[order]
    drawn: list[int] = []
    while len(drawn) < parameters.flashback_count:
        sums = np.cumsum(weights)
        if not sums[-1] > 0.0:
            break
        place = min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), len(sums) - 1)
        drawn.append(int(order[place]))
        barred: Mask = np.abs(ordered_times - ordered_times[place]) < parameters.spacing_ms
        barred[place] = True
        weights[barred] = 0.0
    return drawn

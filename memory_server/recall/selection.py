"""Which memories a search gives: two top, one next, two flashbacks, and what was held back by which rule.

Source: the Node original; docs/explanation/recall.md. Ties are broken by time, then id, newest first, so that the
same input, clock and seed give the same answer. Works on whole columns at once: equal to the plain formula of
`relevance.py` within 1e-12, with the same selection (`plain_selection.py` is the plain form).

`decide` keeps everything it looked at, so that `explanation.py` tells the reasons of this very decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from memory_server.model import ShortTermMemory
from memory_server.recall.columns import Columns, Searched
from memory_server.recall.outcome import HeldBack, Recall, Recalled
from memory_server.recall.parameters import DAY_MS, RecallParameters
from memory_server.recall.postings import Floats, Integers, Mask, Postings
from memory_server.recall.relevance import Query, receipt

_FIRST_RANKED = 64
"""Candidates that are sorted at first; the spacing rule seldom needs more to fill three places."""

_SAMPLED = 16
"""One in so many candidates says which ones are worth sorting."""


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What was decided about every row: valid until the next change of a conversation that was searched."""

    columns: Columns
    query: Query
    now_ms: int
    parameters: RecallParameters
    eligible: Mask
    """Alive, and not held back by the 20-minute rule."""
    relevance: Floats
    chosen: list[int]
    """Rows that came as top and next, most relevant first."""
    passed_over: dict[int, int]
    """Relevant rows that the 10-minute rule held back while there was a place, each with the chosen row it is near."""
    weights: Floats
    """In the draw of flashbacks; 0 for what cannot be drawn."""
    drawn: list[int]
    """Rows that came as flashbacks."""

    @property
    def recall(self) -> Recall:
        """The answer, with a receipt for each memory that came."""
        top = self.parameters.top_count
        return Recall(
            top=self.explained(self.chosen[:top]),
            next=self.explained(self.chosen[top:]),
            flashback=self.explained(self.drawn),
            held_back=HeldBack(
                recent=len(self.columns) - int(np.count_nonzero(self.eligible)), adjacent=len(self.passed_over)
            ),
            searched=len(self.columns),
        )

    def explained(self, rows: Sequence[int]) -> tuple[Recalled, ...]:
        """The memories of `rows` with their receipts."""
        memories = ((self.columns.memory(row), self.columns.kept_in(row)) for row in rows)
        return tuple(
            Recalled(memory, receipt(memory, self.query, self.now_ms, self.parameters), kept_in)
            for memory, kept_in in memories
        )


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
    return decide(
        [Searched(memories, index)],
        query,
        conversation_id=conversation_id,
        now_ms=now_ms,
        rng=rng,
        parameters=parameters,
    ).recall


def decide(
    searched: Sequence[Searched],
    query: Query,
    *,
    conversation_id: str,
    now_ms: int,
    rng: Random,
    parameters: RecallParameters,
) -> Decision:
    """Decide it over all that is searched, at least one conversation. The 20-minute rule holds for memories made in
    `conversation_id`, where the search is made."""
    columns = Columns(searched)
    times = columns.times
    ages = np.maximum(now_ms - times, 0)
    eligible = columns.alive & ~(columns.of_conversation(conversation_id) & (ages < parameters.own_conversation_ms))
    # In place, here and for the flashbacks: making room for another column takes as long as reckoning it.
    decay = np.multiply(ages, -parameters.decay_per_ms)
    np.exp(decay, out=decay)
    np.subtract(1.0, decay, out=decay)
    decay *= parameters.decay_ceiling
    relevance = columns.match(query)
    gained = _hour_affinity(times, relevance, now_ms, parameters) if parameters.hour_affinity else None
    relevance -= decay
    relevance += columns.scores
    if gained is not None:
        relevance += gained

    places = parameters.top_count + parameters.next_count
    candidates = np.flatnonzero(eligible & (relevance >= parameters.threshold))
    chosen, passed_over = _spaced(_ranked(candidates, relevance, columns), times, places, parameters.spacing_ms)

    weights = _flashback_weights(ages, columns.scores, parameters)
    weights[~eligible] = 0.0
    if chosen:
        order, ordered_times = columns.oldest_first(), columns.oldest_first_times()
        weights[chosen] = 0.0
        for row in chosen:
            weights[order[_around(int(times[row]), ordered_times, parameters.spacing_ms)]] = 0.0
    drawn = _drawn(weights, columns, rng, parameters)
    return Decision(columns, query, now_ms, parameters, eligible, relevance, chosen, passed_over, weights, drawn)


def _ranked(candidates: Integers, relevance: Floats, columns: Columns) -> Iterator[int]:
    """The candidates, most relevant first; ties newest first, then by id. Sorts no more than is asked for."""
    size, given = _FIRST_RANKED, 0
    while given < len(candidates):
        best = candidates
        if size < len(candidates):
            worth = relevance[candidates]
            # With everything that ties with the last of them, so that no tie is cut.
            best = candidates[worth >= _at_least_best(worth, size)]
        rows = sorted(best.tolist(), key=lambda row: (-relevance[row], -columns.times[row], columns.name_of(row)))
        yield from rows[given:]
        given, size = len(rows), size * 8


def _at_least_best(worth: Floats, size: int) -> float:
    """A bound that the `size` greatest of `worth` reach, and not many more."""
    # Partitioning everything would take as long as scoring it: a bound that a part of it gives is mostly good.
    part, wanted = worth[::_SAMPLED], max(4, 2 * size // _SAMPLED)
    if len(part) > wanted:
        bound = float(np.partition(part, len(part) - wanted)[len(part) - wanted])
        if np.count_nonzero(worth >= bound) >= size:
            return bound
    return float(np.partition(worth, len(worth) - size)[len(worth) - size])


def _spaced(ranked: Iterator[int], times: Integers, places: int, spacing_ms: int) -> tuple[list[int], dict[int, int]]:
    """The first `places` rows that keep their distance from each other, and those passed over for it, each with the
    most relevant chosen row that it is near."""
    chosen: list[int] = []
    passed_over: dict[int, int] = {}
    while len(chosen) < places and (row := next(ranked, None)) is not None:
        near = next((other for other in chosen if abs(int(times[row]) - int(times[other])) < spacing_ms), None)
        if near is None:
            chosen.append(row)
        else:
            passed_over[row] = near
    return chosen, passed_over


def _hour_affinity(times: Integers, match: Floats, now_ms: int, parameters: RecallParameters) -> Floats:
    """The gain for the same time of day, for rows that share a word; `relevance.hour_affinity` says it for one."""
    apart = np.abs(now_ms - times) % DAY_MS
    near = np.minimum(apart, DAY_MS - apart) / parameters.hour_affinity_ms
    gained: Floats = np.where(match > 0.0, parameters.hour_affinity * np.exp(-0.5 * near**2), 0.0)
    return gained


def _flashback_weights(ages: Integers, scores: Floats, parameters: RecallParameters) -> Floats:
    """Weights in the draw: 1 + 1.7 · max(0, 1 − age/365 d) + 1.1 · clamp(score, 0, 50)/50."""
    weights: Floats = ages / parameters.flashback_horizon_ms
    np.subtract(1.0, weights, out=weights)
    np.maximum(0.0, weights, out=weights)
    weights *= parameters.flashback_recency_weight
    weights += 1.0
    liked = np.clip(scores, 0.0, parameters.flashback_score_full)
    liked /= parameters.flashback_score_full
    liked *= parameters.flashback_score_weight
    weights += liked
    return weights


def _drawn(weights: Floats, columns: Columns, rng: Random, parameters: RecallParameters) -> list[int]:
    """Weighted draws without replacement, each barring what lies within 10 minutes of it.

    The order decides what a seed draws, so it is one that does not depend on that of the store.
    """
    if not len(weights) or not parameters.flashback_count:
        return []
    order, times = columns.oldest_first(), columns.oldest_first_times()
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
        weights[_around(int(times[place]), times, parameters.spacing_ms)] = 0.0
    return drawn


def _around(time_ms: int, times: Integers, spacing_ms: int) -> slice:
    """The places of the ascending `times` that lie less than `spacing_ms` from `time_ms`."""
    first = int(np.searchsorted(times, time_ms - spacing_ms, side="right"))
    return slice(first, max(first, int(np.searchsorted(times, time_ms + spacing_ms, side="left"))))

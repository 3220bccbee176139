"""A search over indexes: the points of all memories at once. `order.py` decides by them, as for `selection.py`.

Ties are broken by time, then id, newest first. Relevance equals that of `relevance.py` except for the last bits of
sums. `decide` keeps everything that it computed, so that `explanation.py` gives the reasons of this very decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.columns import Columns, Searched
from memory_server.conversations.recall.exclusions import exclusions_of_rows
from memory_server.conversations.recall.flashbacks import around, drawn_rows, flashback_weights
from memory_server.conversations.recall.index import Floats, Integers, Mask
from memory_server.conversations.recall.indexed_match import Match, matched
from memory_server.conversations.recall.order import Cosines, Order, Recalled, explained, order_of, threshold
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.relevance import age_of, decay, match_needed, score_points
from memory_server.conversations.recall.same_words import Standing
from memory_server.conversations.recall.selection import HeldBack, Recall, recall_of
from memory_server.conversations.recall.typos import corrected
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.messages import Session

_FIRST_RANKED = 64
"""Candidates that are sorted first; the rule of spacing seldom needs more to fill three places."""


@dataclass(frozen=True, slots=True, eq=False)
class Indexed:
    """All rows of a search with their points: `order.Counted`. `strong`: relevant enough to come unasked; `eligible`:
    alive, and not excluded; `scores`: points for having been recalled."""

    columns: Columns
    query: RecallQuery
    parameters: RecallParameters
    match: Match
    now_ms: int
    strong: Mask
    eligible: Mask
    scores: Floats
    relevances: Floats

    @property
    def size(self) -> int:
        return len(self.columns)

    def candidates(self) -> Integers:
        by_any_word = self.parameters.weak_too and self.parameters.must_share
        return np.flatnonzero(self.eligible & (self.match.shares_any if by_any_word else self.strong))

    def relevant_beside(self, enough: float) -> Integers:
        beside = self.match.shares_any & (self.relevances >= enough)
        return np.flatnonzero(self.eligible & (self.strong | beside))

    def best_first(self, rows: Any, worth: Any) -> Iterator[int]:
        """It sorts no more than the caller takes."""
        if isinstance(worth, dict):
            yield from self._sorted(rows, worth)
            return
        size, given = _FIRST_RANKED, 0
        while given < len(rows):
            best = rows
            if size < len(rows):
                values = worth[rows]
                # Include everything that ties with the last of them, so that no tie is cut.
                best = rows[values >= np.partition(values, len(values) - size)[len(values) - size]]
            ordered = self._sorted(best.tolist(), worth)
            yield from ordered[given:]
            given, size = len(ordered), size * 8

    def _sorted(self, rows: Iterable[int], worth: Any) -> list[int]:
        times, name_of = self.columns.times, self.columns.name_of
        return sorted(rows, key=lambda row: (-worth[row], -times[row], name_of(row)))

    def relevance(self) -> Floats:
        return self.relevances

    def at_least(self, rows: Integers, least: float) -> Integers:
        return rows[self.relevances[rows] >= least]

    def among(self, rows: Integers, few: Iterable[int]) -> set[int]:
        is_among = np.zeros(len(self.eligible), np.bool_)
        is_among[rows] = True
        return {row for row in few if is_among[row]}

    def eligible_rows(self) -> list[int]:
        rows: list[int] = np.flatnonzero(self.eligible).tolist()
        return rows

    def sharing(self) -> Integers:
        return np.flatnonzero(self.eligible & (self.match.points + self.match.around + self.match.span > 0.0))

    def cosines(self) -> Cosines | None:
        by_row = self.columns.cosines()
        if by_row is None:
            return None
        return Cosines(np.flatnonzero(self.eligible & np.isfinite(by_row)), by_row)

    def memory(self, row: int) -> ShortTermMemory:
        return self.columns.memory(row)

    def time_ms(self, row: int) -> int:
        return int(self.columns.times[row])

    def standing(self, row: int) -> Standing:
        match, score = float(self.match.points[row]), float(self.scores[row])
        return Standing(self.time_ms(row), match, score, float(self.relevances[row]))

    def receipt(self, row: int) -> Receipt:
        memory, match, parameters = self.columns.memory(row), self.match, self.parameters
        age_ms = age_of(memory.time_ms, self.now_ms)
        return Receipt(
            match.words_of(row),
            decay(age_ms, parameters),
            age_ms,
            score_points(memory, parameters),
            around=float(match.around[row]),
            span=float(match.span[row]),
            overview=self.query.overview is not None,
        )

    def kept_in(self, row: int) -> str | None:
        return self.columns.kept_in(row)

    def said_next(self, row: int) -> int | None:
        rows, _, together, _ = self.columns.timeline(self.parameters.episode_pause_ms)
        place = row if rows is None else int(np.flatnonzero(rows == row)[0])
        if place >= len(together) or not together[place]:
            return None
        following = place + 1 if rows is None else int(rows[place + 1])
        return following if self.eligible[following] else None


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The decision about every row: valid until the next change of a searched conversation. `in_context`, `muted`: what
    is excluded and why. `weights`: in the draw of flashbacks, 0 if a row cannot be drawn; `drawn`: what came so."""

    counted: Indexed
    order: Order
    in_context: Mask
    muted: Mask
    weights: Floats
    drawn: Sequence[int]

    @property
    def columns(self) -> Columns:
        return self.counted.columns

    @property
    def query(self) -> RecallQuery:
        return self.counted.query

    @property
    def parameters(self) -> RecallParameters:
        return self.counted.parameters

    @property
    def needed(self) -> float:
        """The threshold: in the Node original for the relevance, else for the evidence."""
        return threshold(self.counted)

    @property
    def recall(self) -> Recall:
        """The answer, with a receipt for each memory that came."""
        in_context, muted = int(np.count_nonzero(self.in_context)), int(np.count_nonzero(self.muted))
        excluded = len(self.columns) - int(np.count_nonzero(self.counted.eligible))
        held_back = HeldBack(excluded - in_context - muted, len(self.order.passed_over), in_context, muted)
        return recall_of(self.counted, self.order, self.drawn, held_back)

    def explained(self, rows: Sequence[int]) -> tuple[Recalled, ...]:
        return tuple(explained(self.counted, self.order, row) for row in rows)

    def nearest(self) -> tuple[float, int | None, int]:
        """The most points that a memory shares with the query, its row (the newest of equal ones; None if no memory
        shares any), and how many memories share something."""
        points = self.counted.match.points
        if not len(points) or not (most := float(points.max())) > 0.0:
            return 0.0, None, 0
        best = np.flatnonzero(points == most)
        return most, int(best[np.argmax(self.columns.times[best])]), int(np.count_nonzero(points))


def decide(
    searched: Sequence[Searched],
    query: RecallQuery,
    *,
    conversation_id: str,
    now_ms: int,
    rng: Random,
    parameters: RecallParameters,
    session: Session | None = None,
    places: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> Decision:
    """Decide a search over one or more conversations, for `session`, which asks in `conversation_id`; what is muted in
    one of `places` does not come, nor what is `without`."""
    columns = Columns(searched)
    times = columns.times
    ages = np.maximum(now_ms - times, 0)
    in_context, too_young = exclusions_of_rows(
        columns, ages, conversation_id=conversation_id, session=session, parameters=parameters
    )
    muted, had = columns.muted_in(places), columns.of_ids(without)
    in_context, muted = in_context | had, muted & ~had
    eligible = columns.alive & ~(in_context | too_young | muted)
    query = corrected(query, columns, parameters)
    match = matched(columns, query, parameters)
    shared = match.points + match.around + match.span
    scores = np.minimum(columns.scores, parameters.score_ceiling) if parameters.must_share else columns.scores
    relevance: Floats = parameters.decay_ceiling * (np.exp(ages * -parameters.decay_per_ms) - 1.0) + shared + scores
    strong = (relevance >= parameters.threshold) & (match.evidence >= match_needed(len(columns), query, parameters))
    if parameters.must_share:
        strong &= match.shares
    counted = Indexed(columns, query, parameters, match, now_ms, strong, eligible, scores, relevance)
    order = order_of(counted)
    weights = flashback_weights(ages, columns.scores, parameters)
    weights[~eligible] = 0.0
    if order.chosen:
        in_time, ordered_times = columns.oldest_first()
        weights[order.chosen] = 0.0
        for row in order.chosen:
            weights[in_time[around(int(times[row]), ordered_times, parameters.spacing_ms)]] = 0.0
    draws = parameters.draws(question=query.question, came=bool(order.chosen))
    drawn = drawn_rows(weights, columns, rng, parameters) if draws else []
    return Decision(counted, order, in_context & columns.alive & ~muted, muted, weights, drawn)

"""A search over indexes: the points of all memories at once. `order.py` decides by them, as for `selection.py`.

Ties are broken by time, then id, newest first. Relevance equals that of `relevance.py` except for the last bits of
sums. `decide` keeps everything that it computed, so that `explanation.py` gives the reasons of this very decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.columns import Columns, Searched
from memory_server.conversations.recall.exclusions import exclusions_of_rows
from memory_server.conversations.recall.flashbacks import around, drawn_rows, flashback_weights
from memory_server.conversations.recall.index import Floats, Integers, Mask
from memory_server.conversations.recall.indexed_match import Match, matched
from memory_server.conversations.recall.order import (
    Cosines,
    Order,
    Recalled,
    explained,
    order_of,
    threshold,
)
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.relevance import age_of, decay, match_needed, score_points
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.same_words import Standing
from memory_server.conversations.recall.selection import HeldBack, Recall, recall_of
from memory_server.conversations.recall.typos import corrected
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.values import dataclass

_FIRST_RANKED = 64
"""Candidates that are sorted first; the rule of spacing seldom needs more to fill three places."""
_RANKED_MORE = 8
"""Times as many are sorted next, if these were not enough."""


@dataclass(frozen=True, slots=True, eq=False)
class Indexed:
    """All rows of a search with their points; it is an `order.Counted`."""

    columns: Columns
    query: RecallQuery
    parameters: RecallParameters
    match: Match
    now_ms: int
    strong: Mask
    """The rows that are relevant enough to come unasked."""
    eligible: Mask
    """The rows that are alive and not excluded."""
    scores: Floats
    """The points of each row for having been recalled."""
    relevances: Floats

    @property
    def size(self) -> int:
        return len(self.columns)

    def candidates(self) -> Integers:
        if self.parameters.weak_too and self.parameters.must_share:
            return np.flatnonzero(self.eligible & self.match.shares_any)
        return np.flatnonzero(self.eligible & self.strong)

    def relevant_beside(self, enough: float) -> Integers:
        beside = self.match.shares_any & (self.relevances >= enough)
        return np.flatnonzero(self.eligible & (self.strong | beside))

    def best_first(self, rows: Any, worth: Any) -> Iterator[int]:
        """It sorts no more than the caller takes."""
        if isinstance(worth, dict):
            yield from self._sorted(rows, worth)
            return
        size = _FIRST_RANKED
        yielded = 0
        while yielded < len(rows):
            best = rows
            if size < len(rows):
                values = worth[rows]
                least = np.partition(values, len(values) - size)[len(values) - size]
                best = rows[
                    values >= least
                ]  # with everything that ties with the last of them, so that no tie is cut
            ordered = self._sorted(best.tolist(), worth)
            yield from ordered[yielded:]
            yielded = len(ordered)
            size *= _RANKED_MORE

    def _sorted(self, rows: Iterable[int], worth: Any) -> list[int]:
        times = self.columns.times
        name_of = self.columns.name_of

        def rank_key(row: int) -> Any:
            return -worth[row], -times[row], name_of(row)

        return sorted(rows, key=rank_key)

    def relevance(self) -> Floats:
        return self.relevances

    def near_best(self, rows: Integers, least: float) -> Integers:
        is_near = self.relevances >= least
        shared = self.match.shared
        tells_of_change = shared.of_terms(lambda term: term.tells_of_change)
        return rows[(is_near | shared.rows_with(tells_of_change))[rows]]

    def among(self, rows: Integers, few: Iterable[int]) -> set[int]:
        is_among = np.zeros(len(self.eligible), np.bool_)
        is_among[rows] = True
        return {row for row in few if is_among[row]}

    def eligible_rows(self) -> list[int]:
        rows: list[int] = np.flatnonzero(self.eligible).tolist()
        return rows

    def sharing(self) -> Integers:
        return np.flatnonzero(self.eligible & (self.match.total > 0.0))

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
        return Standing(
            time_ms=self.time_ms(row),
            match=float(self.match.points[row]),
            score=float(self.scores[row]),
            relevance=float(self.relevances[row]),
        )

    def receipt(self, row: int) -> Receipt:
        memory = self.columns.memory(row)
        age_ms = age_of(memory.time_ms, self.now_ms)
        return Receipt(
            self.match.words_of(row),
            decay=decay(age_ms, self.parameters),
            age_ms=age_ms,
            score=score_points(memory, self.parameters),
            around=float(self.match.around[row]),
            span=float(self.match.span[row]),
            overview=self.query.overview is not None,
        )

    def kept_in(self, row: int) -> str | None:
        return self.columns.kept_in(row)

    def said_next(self, row: int) -> int | None:
        timeline = self.columns.timeline(self.parameters.episode_pause_ms)
        rows = timeline.rows
        position = row if rows is None else int(np.flatnonzero(rows == row)[0])
        is_last = position >= len(timeline.together)
        if is_last or not timeline.together[position]:
            return None
        following = position + 1 if rows is None else int(rows[position + 1])
        if not self.eligible[following]:
            return None
        return following


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The decision about every row: valid until the next change of a searched conversation."""

    counted: Indexed
    order: Order
    in_context: Mask
    """The rows that the asker has in its context."""
    muted: Mask
    weights: Floats
    """The weight of each row in the draw of flashbacks; 0 if it cannot be drawn."""
    drawn: Sequence[int]
    """The rows that came as flashbacks."""

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
        in_context = int(np.count_nonzero(self.in_context))
        muted = int(np.count_nonzero(self.muted))
        excluded = len(self.columns) - int(np.count_nonzero(self.counted.eligible))
        held_back = HeldBack(
            recent=excluded - in_context - muted,
            adjacent=len(self.order.passed_over),
            in_context=in_context,
            muted=muted,
        )
        return recall_of(self.counted, self.order, self.drawn, held_back)

    def explained(self, rows: Sequence[int]) -> tuple[Recalled, ...]:
        """The memories of these rows with their receipts."""
        return explained(self.counted, self.order, rows)

    def nearest(self) -> tuple[float, int | None, int]:
        """The most points that a memory shares with the query, its row (the newest of equal ones; None if no memory
        shares any), and how many memories share something."""
        points = self.counted.match.points
        most = float(points.max(initial=0.0))
        if most <= 0.0:
            return 0.0, None, 0
        best = np.flatnonzero(points == most)
        newest = int(best[np.argmax(self.columns.times[best])])
        return most, newest, int(np.count_nonzero(points))


def decide(
    searched: Sequence[Searched],
    query: RecallQuery,
    context: RecallContext,
) -> Decision:
    """Decide a search over one or more conversations."""
    parameters = context.parameters
    columns = Columns(searched)
    ages = np.maximum(context.now_ms - columns.times, 0)
    in_context, too_young = exclusions_of_rows(columns, context)
    had = columns.of_ids(context.without)
    in_context = in_context | had
    muted = columns.muted_in(context.places) & ~had
    eligible = columns.alive & ~(in_context | too_young | muted)
    counted = _counted(
        columns,
        corrected(query, columns, parameters),
        ages=ages,
        eligible=eligible,
        now_ms=context.now_ms,
        parameters=parameters,
    )
    order = order_of(counted)
    weights = _draw_weights(
        columns, ages=ages, eligible=eligible, order=order, parameters=parameters
    )
    drawn: Sequence[int] = []
    if parameters.draws(question=query.question, came=bool(order.chosen)):
        drawn = drawn_rows(weights, columns, context.rng, parameters)
    return Decision(
        counted,
        order,
        in_context=in_context & columns.alive & ~muted,
        muted=muted,
        weights=weights,
        drawn=drawn,
    )


def _counted(
    columns: Columns,
    query: RecallQuery,
    *,
    ages: Integers,
    eligible: Mask,
    now_ms: int,
    parameters: RecallParameters,
) -> Indexed:
    """The points of all rows. `ages`: milliseconds, 0 for a time in the future."""
    match = matched(columns, query, parameters)
    scores = columns.scores
    if parameters.must_share:
        scores = np.minimum(scores, parameters.score_ceiling)
    decays: Floats = parameters.decay_ceiling * (np.exp(ages * -parameters.decay_per_ms) - 1.0)
    relevances = decays + match.total + scores
    needed = match_needed(len(columns), query, parameters)
    strong = (relevances >= parameters.threshold) & (match.evidence >= needed)
    if parameters.must_share:
        strong &= match.shares
    return Indexed(
        columns,
        query,
        parameters,
        match=match,
        now_ms=now_ms,
        strong=strong,
        eligible=eligible,
        scores=scores,
        relevances=relevances,
    )


def _draw_weights(
    columns: Columns, *, ages: Integers, eligible: Mask, order: Order, parameters: RecallParameters
) -> Floats:
    """The weight of each row in the draw of flashbacks: 0 for what cannot come, and for what is near to what came."""
    weights = flashback_weights(ages, columns.scores, parameters)
    weights[~eligible] = 0.0
    if not order.chosen:
        return weights
    weights[order.chosen] = 0.0
    in_time, ordered_times = columns.oldest_first()
    for row in order.chosen:
        nearby = around(int(columns.times[row]), ordered_times, parameters.spacing_ms)
        weights[in_time[nearby]] = 0.0
    return weights

"""The selection of `selection.py` on whole columns at once: which memories come as top, next and flashback.

Ties are broken by time, then id, newest first. Relevance equals that of `relevance.py` except for the last bits of
sums. `decide` keeps everything that it computed, so that `explanation.py` gives the reasons of this very decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

import numpy as np

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.columns import Columns, Searched
from memory_server.conversations.recall.flashbacks import around, drawn_rows, flashback_weights
from memory_server.conversations.recall.index import Floats, Integers, Mask
from memory_server.conversations.recall.indexed_match import Match, matched
from memory_server.conversations.recall.overviews import pinned_points, spread
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.relevance import Receipt, age_of, cue_points, decay, match_needed, score_points
from memory_server.conversations.recall.same_words import LOOKED_AT, Held, Standing, lent_points
from memory_server.conversations.recall.selection import (
    NEAR,
    HeldBack,
    Missed,
    Recall,
    Recalled,
    asks,
    holds_of_rows,
    lack,
)
from memory_server.conversations.recall.typos import corrected
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.fusion import FUSED, MEANING, OFFSET, Nearness, fused, needed_cosine
from memory_server.kernel.messages import Session

_FIRST_RANKED = 64
"""Candidates that are sorted first; the 10-minute rule seldom needs more to fill three places."""


@dataclass(frozen=True, slots=True, eq=False)
class Nearnesses:
    """How near the rows are by meaning, -inf without a vector; from which cosine a row comes by that alone; and the
    best rows of both rankings."""

    cosines: Floats
    needed: float
    near: list[int]
    worded: list[int]

    def of(self, row: int) -> Nearness | None:
        if not np.isfinite(self.cosines[row]):
            return None
        near, worded = (rows.index(row) + 1 if row in rows else None for rows in (self.near, self.worded))
        return Nearness(float(self.cosines[row]), near, worded, bool(self.cosines[row] >= self.needed))


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The decision about every row: valid until the next change of a searched conversation."""

    columns: Columns
    query: RecallQuery
    match: Match
    now_ms: int
    parameters: RecallParameters
    strong: Mask
    """Relevant enough to come unasked."""
    eligible: Mask
    """Alive, and not held back by `hold_on`."""
    in_context: Mask
    """Held back because the asking session still has it in its context."""
    muted: Mask
    """Held back because it is muted where the search is made."""
    relevance: Floats
    """With the `cue_points` of the rows that can come forward by them."""
    cues: Mapping[int, float]
    """These points, where there are any."""
    lent: Mapping[int, tuple[float, int]]
    """Points that rows get from an older one with the same words, and that row."""
    least_beside: float
    """The relevance that is needed beside the best memory; 0: any."""
    chosen: list[int]
    """Rows that came as top and next, most relevant first."""
    passed_over: dict[int, int]
    """Relevant rows that the 10-minute rule held back while there was a free place, each with the chosen row near
    it."""
    weights: Floats
    """Weights in the draw of flashbacks; 0 if a row cannot be drawn."""
    drawn: list[int]
    """Rows that came as flashbacks."""
    nearness: Nearnesses | None = None
    """None: the search knows no vectors."""

    @property
    def recall(self) -> Recall:
        """The answer, with a receipt for each memory that came."""
        top, in_context = self.parameters.top_count, int(np.count_nonzero(self.in_context))
        muted = int(np.count_nonzero(self.muted))
        return Recall(
            top=self.explained(self.chosen[:top]),
            next=self.explained(self.chosen[top:]),
            flashback=self.explained(self.drawn),
            held_back=HeldBack(
                recent=len(self.columns) - int(np.count_nonzero(self.eligible)) - in_context - muted,
                adjacent=len(self.passed_over),
                in_context=in_context,
                muted=muted,
            ),
            searched=len(self.columns),
            query=self.query,
            answers=self._answers(),
            near=self._near(),
            needed=self.needed,
        )

    def _near(self) -> tuple[Missed, ...]:
        free = self.eligible & (self.match.points + self.match.around + self.match.span > 0.0)
        free[[*self.chosen, *self.drawn]] = False
        rows = list(islice(_ranked(np.flatnonzero(free), self.relevance, self.columns), NEAR))
        size, passed = len(self.columns), self.passed_over
        return tuple(
            lack(recalled, self.query, size, self.parameters, adjacent=row in passed)
            for row, recalled in zip(rows, self.explained(rows), strict=True)
        )

    def _answers(self) -> dict[str, ShortTermMemory]:
        """The memories that were said next after the chosen ones that end with a question, by the ids of these."""
        asking = [row for row in self.chosen if asks(self.columns.memory(row))] if self.parameters.answers else []
        if not asking:
            return {}
        rows, _, together, _ = self.columns.timeline(self.parameters.episode_pause_ms)
        found: dict[str, ShortTermMemory] = {}
        for row in asking:
            place = row if rows is None else int(np.flatnonzero(rows == row)[0])
            if place < len(together) and together[place]:
                following = place + 1 if rows is None else int(rows[place + 1])
                if self.eligible[following] and following not in (*self.chosen, *self.drawn):
                    found[self.columns.name_of(row)[0]] = self.columns.memory(following)
        return found

    def explained(self, rows: Sequence[int]) -> tuple[Recalled, ...]:
        return tuple(map(self._explained, rows))

    def _explained(self, row: int) -> Recalled:
        memory, match, parameters = self.columns.memory(row), self.match, self.parameters
        age_ms, points = age_of(memory.time_ms, self.now_ms), score_points(memory, parameters)
        near = None if self.nearness is None else self.nearness.of(row)
        lent, older_row = self.lent.get(row, (0.0, None))
        older = "" if older_row is None else self.columns.name_of(older_row)[0]
        receipt = Receipt(
            match.words_of(row),
            decay(age_ms, parameters),
            age_ms,
            points,
            around=float(match.around[row]),
            span=float(match.span[row]),
            cue=self.cues.get(row, 0.0),
            lent=lent,
            older=older,
            nearness=near,
            overview=self.query.overview is not None,
        )
        weak = not (self.strong[row] or (near is not None and near.stands_out))
        counted = receipt.counted(self.query, parameters)
        return Recalled(memory, receipt, self.columns.kept_in(row), weak, counted)

    @property
    def needed(self) -> float:
        """The threshold: in the Node original for the relevance, else for the evidence."""
        return max(self.parameters.threshold, match_needed(len(self.columns), self.query, self.parameters))

    def nearest(self) -> tuple[float, int | None, int]:
        """The most points that a memory shares with the query, its row (the newest of equal ones; None if no memory
        shares any), and how many memories share something."""
        points = self.match.points
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
    in_context, too_young = holds_of_rows(
        columns, ages, conversation_id=conversation_id, session=session, parameters=parameters
    )
    muted, had = columns.muted_in(places), columns.of_ids(without)
    in_context, muted = in_context | had, muted & ~had
    eligible = columns.alive & ~(in_context | too_young | muted)
    query = corrected(query, columns, parameters)
    match = matched(columns, query, parameters)
    shared = match.points + match.around + match.span
    score = np.minimum(columns.scores, parameters.score_ceiling) if parameters.must_share else columns.scores
    relevance: Floats = parameters.decay_ceiling * (np.exp(ages * -parameters.decay_per_ms) - 1.0) + shared + score

    strong = (relevance >= parameters.threshold) & (match.evidence >= match_needed(len(columns), query, parameters))
    if parameters.must_share:
        strong &= match.shares
    candidates = np.flatnonzero(
        eligible & (match.shares_any if parameters.weak_too and parameters.must_share else strong)
    )
    if len(candidates) and parameters.brings(question=query.question):
        enough = parameters.with_best * float(relevance[candidates].max())
        candidates = np.flatnonzero(eligible & (strong | (match.shares_any & (relevance >= enough))))
    overview_rows = candidates
    first = islice(_ranked(candidates, relevance, columns), parameters.reordered if query.cue else 0)
    cues = {row: gained for row in first if (gained := cue_points(columns.memory(row), query, parameters))}
    if query.overview is not None:
        cues = {
            row: gained
            for row in np.flatnonzero(eligible).tolist()
            if (gained := pinned_points(columns.memory(row), parameters))
        }
    for row, gained in cues.items():
        relevance[row] += gained
    lent: dict[int, tuple[float, int]] = {}
    if query.overview is None and parameters.must_share:
        lent = _lent(list(islice(_ranked(candidates, relevance, columns), LOOKED_AT)), match, score, columns)
        for row, (points, _older) in lent.items():
            relevance[row] += points
    best = float(relevance[candidates].max()) if len(candidates) else 0.0
    least = 0.0 if parameters.weak_too else parameters.nearly_best * best
    if least > 0.0:
        candidates = candidates[relevance[candidates] >= least]
    ranked, nearness = _ranked(candidates, relevance, columns), None
    if query.overview is None and (cosines := columns.cosines()) is not None:
        worded = _ranked(np.flatnonzero(eligible & (shared > 0.0)), relevance, columns)
        known = np.flatnonzero(eligible & np.isfinite(cosines))
        needed = needed_cosine(cosines[known].tolist(), parameters.meaning_margin)
        near = _ranked(known, cosines, columns)
        nearness = Nearnesses(cosines, needed, list(islice(near, FUSED)), list(islice(worded, FUSED)))
        by_words = np.zeros(len(columns), dtype=bool)
        by_words[candidates] = True
        by_meaning = np.isfinite(cosines) if parameters.weak_too else cosines >= needed
        ranked = _fused(nearness, by_words | by_meaning, columns)
    if query.overview is None:
        chosen, passed_over = _spaced(ranked, times, parameters.places(question=query.question), parameters)
    else:
        best_first = _ranked(overview_rows, relevance, columns)
        chosen, passed_over = spread(best_first, columns.memory, query, parameters), {}

    weights = flashback_weights(ages, columns.scores, parameters)
    weights[~eligible] = 0.0
    if chosen:
        order, ordered_times = columns.oldest_first()
        weights[chosen] = 0.0
        for row in chosen:
            weights[order[around(int(times[row]), ordered_times, parameters.spacing_ms)]] = 0.0
    draws = parameters.draws(question=query.question, came=bool(chosen))
    by_chance = drawn_rows(weights, columns, rng, parameters) if draws else []
    return Decision(
        columns=columns,
        query=query,
        match=match,
        now_ms=now_ms,
        parameters=parameters,
        strong=strong,
        eligible=eligible,
        in_context=in_context & columns.alive & ~muted,
        muted=muted,
        relevance=relevance,
        cues=cues,
        lent=lent,
        least_beside=least,
        chosen=chosen,
        passed_over=passed_over,
        weights=weights,
        drawn=by_chance,
        nearness=nearness,
    )


def _lent(best: Sequence[int], match: Match, score: Floats, columns: Columns) -> dict[int, tuple[float, int]]:
    """The points that rows get from an older one with the same words, and that row."""
    if not score[best].any():
        return {}
    standings = [Standing(int(columns.times[row]), float(match.points[row]), float(score[row])) for row in best]
    lent = lent_points(standings, lambda number: Held(match.words_of(best[number]), columns.memory(best[number]).words))
    return {best[newer]: (gained.points, best[gained.older]) for newer, gained in lent.items()}


def _ranked(candidates: Integers, relevance: Floats, columns: Columns) -> Iterator[int]:
    """The candidates, most relevant first; ties newest first, then by id. It sorts no more than the caller takes."""
    size, given = _FIRST_RANKED, 0
    while given < len(candidates):
        best = candidates
        if size < len(candidates):
            worth = relevance[candidates]
            # Include everything that ties with the last of them, so that no tie is cut.
            best = candidates[worth >= np.partition(worth, len(worth) - size)[len(worth) - size]]
        rows = sorted(best.tolist(), key=lambda row: (-relevance[row], -columns.times[row], columns.name_of(row)))
        yield from rows[given:]
        given, size = len(rows), size * 8


def _fused(found: Nearnesses, may_come: Mask, columns: Columns) -> Iterator[int]:
    """The rows of both rankings that may come, as one; ties newest first, then by id."""
    scores = fused(found.worded, found.near, offset=OFFSET, meaning=MEANING)
    rows = (row for row in scores if may_come[row])
    return iter(sorted(rows, key=lambda row: (-scores[row], -columns.times[row], columns.name_of(row))))


def _spaced(
    ranked: Iterator[int], times: Integers, places: int, parameters: RecallParameters
) -> tuple[list[int], dict[int, int]]:
    """The first `places` rows of which at most `same_moment` are of one moment, and the rows skipped by this rule, each
    with the most relevant chosen row near it."""
    chosen: list[int] = []
    passed_over: dict[int, int] = {}
    while len(chosen) < places and (row := next(ranked, None)) is not None:
        near = [other for other in chosen if abs(int(times[row]) - int(times[other])) < parameters.spacing_ms]
        if len(near) < parameters.same_moment:
            chosen.append(row)
        else:
            passed_over[row] = near[0]
    return chosen, passed_over

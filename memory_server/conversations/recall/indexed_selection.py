"""The selection of `selection.py` on whole columns at once: which memories come as top, next and flashback.

Ties are broken by time, then id, newest first. Relevance equals that of `relevance.py` except for the last bits of
sums. `decide` keeps everything that it computed, so that `explanation.py` gives the reasons of this very decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

import numpy as np

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.columns import Columns, Searched
from memory_server.conversations.recall.flashbacks import around, drawn_rows, flashback_weights
from memory_server.conversations.recall.index import Floats, Integers, Mask, Occurrences
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.relevance import (
    MatchedWord,
    Receipt,
    age_of,
    corrected,
    cue_points,
    decay,
    factor_of,
    match_needed,
    score_points,
    stretches,
)
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
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.fusion import FUSED, MEANING, OFFSET, Nearness, fused, needed_cosine
from memory_server.kernel.messages import Session

_FIRST_RANKED = 64
"""Candidates that are sorted first; the 10-minute rule seldom needs more to fill three places."""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """What the memories share with the query. `points` and `around` have one element for each row."""

    terms: list[MatchedWord]
    """The terms of the query as they count among these memories; the weight in a memory is 0 here."""
    occurrences: Occurrences
    points: Floats
    around: Floats
    """What a memory gains from the others of its episode."""
    span: Floats
    """What it gains for lying within the time that the query names."""
    evidence: Floats
    """The points that the threshold is for."""
    shares: Mask
    """Whether something of the last message is shared: after a statement, a word that is not a function word."""

    def words_of(self, row: int) -> tuple[MatchedWord, ...]:
        found = self.occurrences
        places = np.flatnonzero(found.rows == row)
        pairs = zip(found.terms[places].tolist(), found.weights[places].tolist(), strict=True)
        terms = ((self.terms[number], weight) for number, weight in pairs)
        return tuple(replace(term, memory_weight=weight) for term, weight in terms)


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
        gained = float(match.around[row]), float(match.span[row]), self.cues.get(row, 0.0)
        near = None if self.nearness is None else self.nearness.of(row)
        receipt = Receipt(match.words_of(row), decay(age_ms, parameters), age_ms, points, *gained, nearness=near)
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
    shares_any = match.points + match.span > 0.0
    candidates = np.flatnonzero(eligible & (shares_any if parameters.weak_too and parameters.must_share else strong))
    if len(candidates) and parameters.brings(question=query.question):
        enough = parameters.with_best * float(relevance[candidates].max())
        candidates = np.flatnonzero(eligible & (strong | (shares_any & (relevance >= enough))))
    first = islice(_ranked(candidates, relevance, columns), parameters.reordered if query.cue else 0)
    cues = {row: gained for row in first if (gained := cue_points(columns.memory(row), query, parameters))}
    for row, gained in cues.items():
        relevance[row] += gained
    best = float(relevance[candidates].max()) if len(candidates) else 0.0
    least = 0.0 if parameters.weak_too else parameters.nearly_best * best
    if least > 0.0:
        candidates = candidates[relevance[candidates] >= least]
    ranked, nearness = _ranked(candidates, relevance, columns), None
    if (cosines := columns.cosines()) is not None:
        worded = _ranked(np.flatnonzero(eligible & (shared > 0.0)), relevance, columns)
        known = np.flatnonzero(eligible & np.isfinite(cosines))
        needed = needed_cosine(cosines[known].tolist(), parameters.meaning_margin)
        near = _ranked(known, cosines, columns)
        nearness = Nearnesses(cosines, needed, list(islice(near, FUSED)), list(islice(worded, FUSED)))
        by_words = np.zeros(len(columns), dtype=bool)
        by_words[candidates] = True
        by_meaning = np.isfinite(cosines) if parameters.weak_too else cosines >= needed
        ranked = _fused(nearness, by_words | by_meaning, columns)
    chosen, passed_over = _spaced(ranked, times, parameters.places(question=query.question), parameters)

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
        least_beside=least,
        chosen=chosen,
        passed_over=passed_over,
        weights=weights,
        drawn=by_chance,
        nearness=nearness,
    )


def matched(columns: Columns, query: RecallQuery, parameters: RecallParameters) -> Match:
    """What each memory shares with the query; `relevance.receipts` does the same for one memory at a time."""
    found = columns.occurrences(tuple(query.words), tuple(query.grams))
    sought = [*query.words.items(), *query.grams.items()]
    holders = np.bincount(found.terms, minlength=len(sought)).tolist()
    memories = len(columns)
    terms = [
        MatchedWord(text, one.weight, 0.0, factor_of(one, count, memories, parameters), one.telling, one.last)
        for (text, one), count in zip(sought, holders, strict=True)
    ]
    points = np.array([term.query_weight for term in terms])[found.terms] if terms else np.zeros(0)
    points += found.weights
    points *= np.array([term.factor for term in terms])[found.terms] if terms else 1.0
    rows = len(columns.times)
    total = _of_rows(found.rows, points, rows)
    last = np.array([term.last for term in terms], np.bool_)[found.terms]
    only = Occurrences(found.terms[last], found.rows[last], found.weights[last])
    of_last = total if last.all() else _of_rows(only.rows, points[last], rows)
    around = _from_episodes(columns, only, points[last], of_last, parameters)
    span = np.zeros(rows)
    for begin, end, gained in stretches(query, parameters):
        span[(columns.times >= begin) & (columns.times < end)] = gained
    shares = np.zeros(rows, np.bool_)
    if query.question or not parameters.must_share:
        shares[only.rows] = True
        shares |= span > 0.0
        return Match(terms, found, total, around, span, total + around + span, shares)
    telling = np.array([term.telling for term in terms], np.bool_)[found.terms]
    if parameters.statement_words == 1:
        shares[found.rows[telling]] = True
    else:
        words = telling & np.array([len(term.word) > 1 for term in terms], np.bool_)[found.terms]
        pairs = np.unique(np.stack((found.rows[words], found.terms[words])), axis=1)
        shares = np.bincount(pairs[0].astype(np.int64), minlength=rows) >= parameters.statement_words
    return Match(terms, found, total, around, span, _of_rows(found.rows[telling], points[telling], rows), shares)


def _of_rows(rows: Integers, points: Floats, count: int) -> Floats:
    """The sum of the points of each of so many rows."""
    return np.bincount(rows, points, count).astype(np.float64, copy=False)


def _from_episodes(
    columns: Columns, found: Occurrences, points: Floats, match: Floats, parameters: RecallParameters
) -> Floats:
    """What each memory with a shared word gains from the memories of its episode."""
    if not (parameters.neighbour_share or parameters.episode_share) or not len(points):
        return np.zeros(len(match))
    rows, episode, together, episode_of = columns.timeline(parameters.episode_pause_ms)
    of_point, terms = episode_of[found.rows], found.terms
    if not columns.in_turn:
        order = np.lexsort((of_point, terms))
        of_point, terms, points = of_point[order], terms[order], points[order]
    # Runs of one term in one episode: the rows of a term ascend with time, so a run is contiguous.
    changes = (of_point[1:] != of_point[:-1]) | (terms[1:] != terms[:-1])
    begins = np.concatenate(([0], np.flatnonzero(changes) + 1))
    best = np.maximum.reduceat(points, begins)
    whole: Floats = np.bincount(of_point[begins], best, int(episode[-1]) + 1).astype(np.float64, copy=False)
    in_time = match if rows is None else match[rows]
    beside = np.zeros(len(in_time))
    np.multiply(in_time[:-1], together, out=beside[1:])
    np.maximum(beside[:-1], in_time[1:] * together, out=beside[:-1])
    beside *= parameters.neighbour_share
    rest = whole[episode]
    rest -= in_time
    rest *= parameters.episode_share
    beside += rest
    beside *= in_time > 0.0
    if rows is None:
        return beside
    gained = np.zeros(len(match))
    gained[rows] = beside
    return gained


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

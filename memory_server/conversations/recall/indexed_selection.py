"""A search over indexes: the points of all memories at once. `order.py` decides by them, as for `selection.py`.

Ties are broken by time, then id, newest first. Relevance is the same as in `relevance.py`, except for the last bits
of sums. `decide` keeps everything that it computed, so that `explanation.py` gives the reasons of this very decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import attrgetter
from random import Random
from typing import Any

import numpy as np

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.columns import Columns, IndexedMemories
from memory_server.conversations.recall.index import Floats, Integers, Mask, Occurrences, Timeline
from memory_server.conversations.recall.order import (
    Cosines,
    Order,
    Recalled,
    explained,
    order_of,
    threshold,
)
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import (
    OVERVIEW_POINTS,
    MatchedWord,
    Receipt,
    ThresholdRule,
    matched_word,
    parts_asked,
)
from memory_server.conversations.recall.relevance import (
    TermKey,
    age_of,
    corrected,
    decay,
    factor_of,
    match_needed,
    part_counted,
    score_points,
    stretches,
    told_points,
    with_kept,
)
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.selection import HeldBack, Recall, recall_of
from memory_server.conversations.recall.words import RecallQuery, telling
from memory_server.kernel.values import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """What the memories share with the query. Each column has one element for each row."""

    shared: SharedTerms
    points: Floats
    """The points of the shared terms."""
    around: Floats
    """What a memory gains from the others of its episode."""
    span: Floats
    """What it gains for a time that the query names."""
    evidence: Floats
    """The points that the threshold is for."""
    part: Floats
    """The part of a question that a memory shares."""
    shares: Mask
    """Whether something of the last message is shared that is not incidental: after a statement, a word that is
    not a function word."""
    shares_any: Mask
    """Whether any word is shared that does not only say when, or the time that the query names."""

    @property
    def total(self) -> Floats:
        """The points of all that each memory shares: terms, its episode, its time."""
        return self.points + self.around + self.span

    def words_of(self, row: int) -> tuple[MatchedWord, ...]:
        """Return the terms that the memory of a row shares, each with its weight there."""
        occurrences = self.shared.occurrences
        numbers = np.flatnonzero(occurrences.rows == row)
        terms = occurrences.terms[numbers].tolist()
        weights = occurrences.weights[numbers].tolist()
        parameters = self.shared.parameters
        words: list[MatchedWord] = []
        for number, weight in zip(terms, weights, strict=True):
            term = self.shared.terms[number]
            factor = term.factor * part_counted(weight, parameters)
            words.append(replace(term, factor=factor, memory_weight=weight))
        return tuple(words)


@dataclass(frozen=True, slots=True, eq=False)
class SharedTerms:
    """The terms of the query, and their occurrences in the memories. `points` has one element for each occurrence."""

    terms: Sequence[MatchedWord]
    """The terms of the query as they count among these memories; the weight in a memory is 0 here."""
    occurrences: Occurrences
    points: Floats
    row_count: int
    parameters: RecallParameters

    def of_terms(self, has: Callable[[MatchedWord], bool]) -> Mask:
        """Mark the occurrences of terms for which `has` is true."""
        term_has: Mask = np.array([has(term) for term in self.terms], np.bool_)
        return term_has[self.occurrences.terms]

    def only(self, chosen: Mask) -> SharedTerms:
        """Return the terms with only the occurrences that are `chosen`; the terms keep their
        numbers."""
        if chosen.all():
            return self
        occurrences = self.occurrences
        return SharedTerms(
            self.terms,
            Occurrences(
                occurrences.terms[chosen], occurrences.rows[chosen], occurrences.weights[chosen]
            ),
            points=self.points[chosen],
            row_count=self.row_count,
            parameters=self.parameters,
        )

    def sums(self) -> Floats:
        """Sum the points of each row."""
        return np.bincount(self.occurrences.rows, self.points, self.row_count).astype(
            np.float64, copy=False
        )

    def rows_with(self, chosen: Mask, *, at_least: int = 1) -> Mask:
        """Mark the rows that have at least so many different terms among the `chosen` occurrences."""
        rows = self.occurrences.rows[chosen]
        if at_least != 1:
            return (
                _count_different(rows, self.occurrences.terms[chosen], self.row_count) >= at_least
            )
        has_one: Mask = np.zeros(self.row_count, np.bool_)
        has_one[rows] = True
        return has_one


def matched(columns: Columns, query: RecallQuery, parameters: RecallParameters) -> Match:
    """Find what each memory shares with the query; `relevance.receipts` does the same for one memory at a time."""
    shared = _shared_terms(columns, query, parameters)
    points = shared.sums()
    of_last = shared.only(shared.of_terms(lambda term: term.last and not term.incidental))
    last_points = points if of_last is shared else of_last.sums()

    nothing = np.zeros(shared.row_count)
    around = part = nothing

    if query.question:
        around = _gained_around(columns, of_last, last_points, parameters)
    if query.question and parameters.part_asked and shared.terms:
        part = _part_asked(shared)

    span = _span_points(columns, points, query, parameters)
    match = partial(Match, shared, points=points, around=around, span=span, part=part)

    # An overview needs no shared word, so every memory counts.
    if query.overview is not None:
        every_row = np.ones(shared.row_count, np.bool_)
        evidence = np.full(shared.row_count, OVERVIEW_POINTS)
        return match(evidence=evidence, shares=every_row, shares_any=every_row)

    named_span = span if query.names_time else nothing
    in_named_time = named_span > 0.0
    shares_any = in_named_time | shared.rows_with(~shared.of_terms(attrgetter("when")))
    if not parameters.must_share:
        return match(evidence=points + around + span, shares=nothing > 0.0, shares_any=shares_any)

    # From here on the rules for what a memory must share, which the Node original does not have.
    rule = ThresholdRule.of(query, parameters)
    needed = shared.of_terms(rule.is_needed)
    parts = shared.of_terms(attrgetter("part"))
    shares = shared.rows_with(needed & ~parts, at_least=rule.words_needed)
    if parts.any():
        shares |= shared.rows_with(needed, at_least=rule.words_needed + 1)
    counting = shared.only(shared.of_terms(rule.is_evidence))
    evidence = points if counting is shared else counting.sums()
    if query.question:
        shares |= in_named_time
        evidence = (evidence + around) * rule.part_factor(part) + named_span

    if any(term.other_word or term.kept for term in shared.terms):
        others = _other_words(shared, rule)
        shares |= others.count >= rule.others_needed
        evidence = evidence + others.evidence
    return match(evidence=evidence, shares=shares, shares_any=shares_any)


def _part_asked(shared: SharedTerms) -> Floats:
    """Compute the part of the question that each row shares."""
    part_by_word = parts_asked(shared.terms)
    parts = np.array([part_by_word.get(term.word, 0.0) for term in shared.terms])
    sums = np.bincount(shared.occurrences.rows, parts[shared.occurrences.terms], shared.row_count)
    return np.minimum(sums, 1.0)


def _shared_terms(
    columns: Columns, query: RecallQuery, parameters: RecallParameters
) -> SharedTerms:
    """Return the terms of the query with their factors, and where memories hold them, each
    occurrence with its points."""
    occurrences = columns.occurrences(tuple(query.words), tuple(query.grams))
    holders = _holders(columns, query, occurrences)

    memory_count = len(columns)
    terms: list[MatchedWord] = []
    for (text, query_term), holder_count in zip(
        chain(query.words.items(), query.grams.items()), holders, strict=True
    ):
        factor = factor_of(query_term, holder_count, memory_count, parameters)
        terms.append(matched_word(text, query_term, factor=factor))

    shared_terms = partial(
        SharedTerms, terms, occurrences, row_count=len(columns.times), parameters=parameters
    )
    if not terms:
        return shared_terms(points=np.zeros(0))

    points = np.array([term.query_weight for term in terms])[occurrences.terms]
    points += occurrences.weights
    points *= np.array([term.factor for term in terms])[occurrences.terms]
    if parameters.whole_weight:
        points *= np.sqrt(np.minimum(occurrences.weights / parameters.whole_weight, 1.0))
    return shared_terms(points=points)


def _holders(columns: Columns, query: RecallQuery, occurrences: Occurrences) -> list[int]:
    """Count the memories that hold each term: first the words of the query, then its pairs of characters."""
    term_count = len(query.words) + len(query.grams)
    holders: list[int] = np.bincount(occurrences.terms, minlength=term_count).tolist()
    if not columns.keeps_words:
        return holders
    keys = [TermKey(False, word) for word in query.words]
    keys += [TermKey(True, gram) for gram in query.grams]
    holders_of_key = with_kept(dict(zip(keys, holders, strict=True)))
    return [holders_of_key[key] for key in keys]


def _span_points(
    columns: Columns, match: Floats, query: RecallQuery, parameters: RecallParameters
) -> Floats:
    """Return the points of each row, whose shared words have `match` points, for the time at which
    it was said, or for the day that is asked for if it tells of it; 0 if neither is asked."""
    shares = np.zeros(len(columns.times))
    for stretch in stretches(query, parameters):
        shares[(columns.times >= stretch.begin_ms) & (columns.times < stretch.end_ms)] = (
            stretch.share
        )
    points = shares * np.maximum(parameters.span_points, parameters.span_match * match)

    asked = query.asked_days
    if asked is not None:
        rows = np.unique(columns.occurrences(asked.words).rows)
        newest_rows = rows[np.argsort(-columns.times[rows], kind="stable")].tolist()
        for row in telling(((row, columns.memory(row)) for row in newest_rows), asked):
            points[row] = max(points[row], told_points(parameters))
    return points


@dataclass(frozen=True, slots=True, eq=False)
class _OtherWords:
    """What each row shares of other words: how many different ones, and their points for the threshold."""

    count: Integers
    evidence: Floats


def _other_words(shared: SharedTerms, rule: ThresholdRule) -> _OtherWords:
    """Return how many different other words each row shares, and their points as `Receipt.evidence`
    counts them."""
    names = [rule.other_of(term) for term in shared.terms]
    numbers: dict[int | str, int] = {}
    """A number for each other word, from 1."""
    for name in names:
        if name:
            numbers.setdefault(name, len(numbers) + 1)
    number_of_term = np.array([numbers.get(name, 0) for name in names], np.int64)
    other_numbers = number_of_term[shared.occurrences.terms]
    is_other = other_numbers > 0
    count = _count_different(
        shared.occurrences.rows[is_other], other_numbers[is_other], shared.row_count
    )
    parts = np.array([rule.part_of(term) for term in shared.terms])
    other_points = shared.points * parts[shared.occurrences.terms] * is_other
    points = np.bincount(shared.occurrences.rows, other_points, shared.row_count)
    return _OtherWords(count, points * rule.share_of_others(count))


def _count_different(rows: Integers, values: Integers, row_count: int) -> Integers:
    """Count the different values that each row has."""
    spread = int(values.max(initial=0)) + 1
    pairs = np.sort(rows * spread + values)  # np.unique takes five times as long
    is_new = np.append(np.ones(min(1, len(pairs)), np.bool_), pairs[1:] != pairs[:-1])
    return np.bincount(pairs[is_new] // spread, minlength=row_count)


def _gained_around(
    columns: Columns, of_last: SharedTerms, match: Floats, parameters: RecallParameters
) -> Floats:
    """Compute what each memory with a term of the last message gains from the memories of its episode. `match` has
    the points of these terms in each row."""
    gained = np.zeros(len(match))
    if not (parameters.neighbour_share or parameters.episode_share) or not len(of_last.points):
        return gained

    # Neighbours are neighbours in time, so all columns are brought into this order.
    timeline = columns.timeline(parameters.episode_pause_ms)
    match_in_time = match if timeline.rows is None else match[timeline.rows]

    best_beside = np.zeros(len(match_in_time))
    np.multiply(match_in_time[:-1], timeline.together, out=best_beside[1:])
    np.maximum(best_beside[:-1], match_in_time[1:] * timeline.together, out=best_beside[:-1])
    best_beside *= parameters.neighbour_share

    # What a memory has itself is not counted twice.
    rest_of_episode = _episode_points(of_last, timeline, in_turn=columns.in_turn)[timeline.episode]
    rest_of_episode -= match_in_time
    rest_of_episode *= parameters.episode_share

    gained_in_time = best_beside
    gained_in_time += rest_of_episode
    gained_in_time *= match_in_time > 0.0
    if timeline.rows is None:
        return gained_in_time
    gained[timeline.rows] = gained_in_time
    return gained


def _episode_points(of_last: SharedTerms, timeline: Timeline, *, in_turn: bool) -> Floats:
    """Compute the points of each episode: for each term the most points that a memory of the episode has, added up.
    `in_turn` says that the rows ascend with time."""
    episodes = timeline.episode_of[of_last.occurrences.rows]
    terms = of_last.occurrences.terms
    points = of_last.points
    if not in_turn:
        order = np.lexsort((episodes, terms))
        episodes = episodes[order]
        terms = terms[order]
        points = points[order]
    # The rows of a term ascend with time, so the rows of a term in an episode follow each other.
    begins_run = (episodes[1:] != episodes[:-1]) | (terms[1:] != terms[:-1])
    begins = np.concatenate(([0], np.flatnonzero(begins_run) + 1))
    best = np.maximum.reduceat(points, begins)
    episode_count = int(timeline.episode[-1]) + 1
    return np.bincount(episodes[begins], best, episode_count).astype(np.float64, copy=False)


_FIRST_RANKED = 64
"""Candidates that are sorted first; the rule of spacing seldom needs more to fill three places."""
_RANKED_MORE = 8
"""Times as many are sorted next, if these were not enough."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexedScores:
    """All rows of a search with their points; it is an `order.SearchScores`."""

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
    relevance: Floats

    @property
    def size(self) -> int:
        return len(self.columns)

    def candidates(self) -> Integers:
        """As `SearchScores.candidates`; where weak memories come too, sharing anything is enough."""
        if self.parameters.weak_too and self.parameters.must_share:
            return np.flatnonzero(self.eligible & self.match.shares_any)
        return np.flatnonzero(self.eligible & self.strong)

    def relevant_beside(self, enough: float) -> Integers:
        beside = self.match.shares_any & (self.relevance >= enough)
        return np.flatnonzero(self.eligible & (self.strong | beside))

    def best_first(self, rows: Any, worth: Any) -> Iterator[int]:
        """Yield the rows with the most worth first. Sorts no more than the caller takes."""
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

    def near_best(self, rows: Integers, least: float) -> Integers:
        """As `SearchScores.near_best`."""
        is_near = self.relevance >= least
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

    def receipt(self, row: int) -> Receipt:
        """Return the words that the memory of a row shares with the query, and what else it gained
        or lost."""
        memory = self.columns.memory(row)
        age_ms = age_of(memory.time_ms, self.now_ms)
        return Receipt(
            self.match.words_of(row),
            decay=decay(age_ms, self.parameters),
            age_ms=age_ms,
            score=score_points(memory, self.parameters),
            around=float(self.match.around[row]),
            span=float(self.match.span[row]),
            part=float(self.match.part[row]),
            overview=self.query.overview is not None,
        )

    def kept_in(self, row: int) -> str | None:
        return self.columns.kept_in(row)

    def said_next(self, row: int) -> int | None:
        """Return the row of the memory that was said next in the same episode, or None if none exists, or it may not
        come."""
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

    counted: IndexedScores
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
        """Return the memories of these rows with their receipts."""
        return explained(self.counted, self.order, rows)

    def nearest(self) -> tuple[float, int | None, int]:
        """Return the most points that a memory shares with the query; its row (the newest of equal ones, or None if
        no memory shares any); and how many memories share something."""
        points = self.counted.match.points
        most = float(points.max(initial=0.0))
        if most <= 0.0:
            return 0.0, None, 0
        best = np.flatnonzero(points == most)
        newest = int(best[np.argmax(self.columns.times[best])])
        return most, newest, int(np.count_nonzero(points))


def decide(
    searched: Sequence[IndexedMemories],
    query: RecallQuery,
    context: RecallContext,
) -> Decision:
    """Return what a search over one or more conversations brings, and the points of every row, from
    which the reasons are read. Nothing is changed but the state of `context.rng`."""
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

    # The draw comes after the order: what came, and what is near to it, is not drawn.
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
) -> IndexedScores:
    """Return all rows with their points, and which of them reach the thresholds. `ages` are in
    milliseconds, 0 for a time in the future."""
    match = matched(columns, query, parameters)
    scores = columns.scores
    if parameters.must_share:
        scores = np.minimum(scores, parameters.score_ceiling)

    # The formula of `relevance.decay`, for all rows at once.
    decays: Floats = parameters.decay_ceiling * (np.exp(ages * -parameters.decay_per_ms) - 1.0)
    relevance = decays + match.total + scores

    needed = match_needed(len(columns), query, parameters)
    strong = (relevance >= parameters.threshold) & (match.evidence >= needed)
    if parameters.must_share:
        strong &= match.shares

    return IndexedScores(
        columns,
        query,
        parameters,
        match=match,
        now_ms=now_ms,
        strong=strong,
        eligible=eligible,
        scores=scores,
        relevance=relevance,
    )


def _draw_weights(
    columns: Columns, *, ages: Integers, eligible: Mask, order: Order, parameters: RecallParameters
) -> Floats:
    """Compute the weight of each row in the draw of flashbacks: 0 for what cannot come, for what came, and for what
    is of the same time as that."""
    # The formula of `flashback_weight`, for all rows at once.
    recency = (1.0 - ages / parameters.flashback_horizon_ms).clip(0.0)
    score_share = (
        columns.scores.clip(0.0, parameters.flashback_score_full) / parameters.flashback_score_full
    )
    weights: Floats = 1.0 + parameters.flashback_recency_weight * recency
    weights += parameters.flashback_score_weight * score_share

    weights[~eligible] = 0.0
    if not order.chosen:
        return weights
    weights[order.chosen] = 0.0
    in_time, ordered_times = columns.oldest_first()
    for row in order.chosen:
        nearby = around(int(columns.times[row]), ordered_times, parameters.spacing_ms)
        weights[in_time[nearby]] = 0.0
    return weights


def exclusions_of_rows(columns: Columns, context: RecallContext) -> tuple[Mask, Mask]:
    """Apply the rule of `selection.exclusion_of` to all rows at once, tombstones included: mark
    which are in the context, and which are too young."""
    session = context.session
    parameters = context.parameters
    ages = context.now_ms - columns.times

    is_own = columns.of_conversation(context.conversation_id)
    is_young = is_own & (ages < parameters.own_conversation_ms)
    if parameters.sessions:
        is_young &= ages > -parameters.own_conversation_ms

    no_rows = is_young & False
    if session is None or not parameters.sessions:
        return no_rows, is_young
    is_same_session = columns.of_session(session.id)
    is_unknown_session = columns.of_session(None)
    if session.context_since_ms is None:
        return no_rows, is_young & (is_same_session | is_unknown_session)

    is_in_context = is_same_session & (columns.times >= session.context_since_ms)
    return is_in_context, is_young & is_unknown_session


def drawn_rows(
    weights: Floats, columns: Columns, rng: Random, parameters: RecallParameters
) -> list[int]:
    """Draw rows as `flashbacks` does, by the weights of all rows: 0 for a row that cannot be drawn."""
    if not len(weights):
        return []
    # The order decides what a seed draws, so it must not depend on the order of the store.
    order, times = columns.oldest_first()
    weights = weights[order]

    sums = np.empty_like(weights)
    drawn: list[int] = []
    while len(drawn) < parameters.flashback_count:
        np.cumsum(weights, out=sums)
        if not sums[-1] > 0.0:
            break

        # Rounding may lead one position beyond the end.
        position = int(sums.searchsorted(rng.random() * sums[-1], side="right"))
        position = min(position, len(sums) - 1)
        drawn.append(int(order[position]))

        weights[position] = 0.0
        weights[around(int(times[position]), times, parameters.spacing_ms)] = 0.0
    return drawn


def around(time_ms: int, times: Integers, spacing_ms: int) -> slice:
    """Return the positions in the ascending `times` that are less than `spacing_ms` from `time_ms`."""
    first = int(times.searchsorted(time_ms - spacing_ms, side="right"))
    end = int(times.searchsorted(time_ms + spacing_ms, side="left"))
    return slice(first, max(first, end))

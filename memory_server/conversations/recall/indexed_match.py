"""What memories share with a query, on whole columns at once, as `relevance.py` says it for one memory at a time.

It does not know which memories come; `indexed_selection.py` decides that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from memory_server.conversations.recall.columns import Columns
from memory_server.conversations.recall.index import Floats, Integers, Mask, Occurrences, Timeline
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import (
    OVERVIEW_POINTS,
    MatchedWord,
    ThresholdRule,
    matched_word,
)
from memory_server.conversations.recall.relevance import (
    TermKey,
    factor_of,
    stretches,
    told_points,
    with_kept,
)
from memory_server.conversations.recall.told_days import telling
from memory_server.conversations.recall.words import RecallQuery
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
    """What it gains for lying within the time that the query names."""
    evidence: Floats
    """The points that the threshold is for."""
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
        """The terms that the memory of a row shares, each with its weight there."""
        occurrences = self.shared.occurrences
        numbers = np.flatnonzero(occurrences.rows == row)
        terms = occurrences.terms[numbers].tolist()
        weights = occurrences.weights[numbers].tolist()
        return tuple(
            replace(self.shared.terms[term], memory_weight=weight)
            for term, weight in zip(terms, weights, strict=True)
        )


@dataclass(frozen=True, slots=True, eq=False)
class SharedTerms:
    """The terms of the query, and where they stand in the memories. `points` has one element for each occurrence."""

    terms: Sequence[MatchedWord]
    """The terms of the query as they count among these memories; the weight in a memory is 0 here."""
    occurrences: Occurrences
    points: Floats
    row_count: int

    def of_terms(self, has: Callable[[MatchedWord], bool]) -> Mask:
        """Which of the occurrences are of a term that `has` a property."""
        term_has: Mask = np.array([has(term) for term in self.terms], np.bool_)
        return term_has[self.occurrences.terms]

    def only(self, chosen: Mask) -> SharedTerms:
        """Some of the occurrences alone; the terms keep their numbers."""
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
        )

    def sums(self) -> Floats:
        """The sum of the points of each row."""
        return np.bincount(self.occurrences.rows, self.points, self.row_count).astype(
            np.float64, copy=False
        )

    def rows_with(self, chosen: Mask, *, at_least: int = 1) -> Mask:
        """The rows that have so many different terms among the `chosen` occurrences."""
        rows = self.occurrences.rows[chosen]
        if at_least != 1:
            return (
                _count_different(rows, self.occurrences.terms[chosen], self.row_count) >= at_least
            )
        has_one: Mask = np.zeros(self.row_count, np.bool_)
        has_one[rows] = True
        return has_one


def matched(columns: Columns, query: RecallQuery, parameters: RecallParameters) -> Match:
    """What each memory shares with the query; `relevance.receipts` does the same for one memory at a time."""
    shared = _shared_terms(columns, query, parameters)
    points = shared.sums()
    of_last = shared.only(shared.of_terms(_is_of_last))
    last_points = points if of_last is shared else of_last.sums()
    around = _gained_around(columns, of_last, last_points, parameters)
    span = _span_points(columns, query, parameters)
    if query.overview is not None:
        every_row = np.ones(shared.row_count, np.bool_)
        evidence = np.full(shared.row_count, OVERVIEW_POINTS)
        return Match(
            shared,
            points=points,
            around=around,
            span=span,
            evidence=evidence,
            shares=every_row,
            shares_any=every_row,
        )
    named_span = span if query.names_time else np.zeros(shared.row_count)
    in_named_time = named_span > 0.0
    shares_any = in_named_time | shared.rows_with(shared.of_terms(_says_more_than_when))
    if not parameters.must_share:
        nothing = np.zeros(shared.row_count, np.bool_)
        evidence = points + around + span
        return Match(
            shared,
            points=points,
            around=around,
            span=span,
            evidence=evidence,
            shares=nothing,
            shares_any=shares_any,
        )
    rule = ThresholdRule.of(query, parameters)
    shares = shared.rows_with(shared.of_terms(rule.is_needed), at_least=rule.words_needed)
    counting = shared.only(shared.of_terms(rule.is_evidence))
    evidence = points if counting is shared else counting.sums()
    if query.question:
        shares |= in_named_time
        evidence = evidence + around + named_span
    if any(term.given or term.kept for term in shared.terms):
        others = _other_words(shared, rule)
        shares |= others.count >= rule.others_needed
        evidence = evidence + others.evidence
    return Match(
        shared,
        points=points,
        around=around,
        span=span,
        evidence=evidence,
        shares=shares,
        shares_any=shares_any,
    )


def _is_of_last(term: MatchedWord) -> bool:
    return term.last and not term.incidental


def _says_more_than_when(term: MatchedWord) -> bool:
    return not term.when


def _shared_terms(
    columns: Columns, query: RecallQuery, parameters: RecallParameters
) -> SharedTerms:
    """The terms of the query with their factors, and where they stand."""
    occurrences = columns.occurrences(tuple(query.words), tuple(query.grams))
    holders = _holders(columns, query, occurrences)
    memory_count = len(columns)
    terms: list[MatchedWord] = []
    for (text, query_term), holder_count in zip(
        chain(query.words.items(), query.grams.items()), holders, strict=True
    ):
        factor = factor_of(query_term, holder_count, memory_count, parameters)
        terms.append(matched_word(text, query_term, factor=factor))
    row_count = len(columns.times)
    if not terms:
        return SharedTerms(terms, occurrences, points=np.zeros(0), row_count=row_count)
    points = np.array([term.query_weight for term in terms])[occurrences.terms]
    points += occurrences.weights
    points *= np.array([term.factor for term in terms])[occurrences.terms]
    return SharedTerms(terms, occurrences, points=points, row_count=row_count)


def _holders(columns: Columns, query: RecallQuery, occurrences: Occurrences) -> list[int]:
    """How many memories hold each term: the words of the query, and after them its pairs of characters."""
    term_count = len(query.words) + len(query.grams)
    holders: list[int] = np.bincount(occurrences.terms, minlength=term_count).tolist()
    if not columns.keeps_words:
        return holders
    keys = [TermKey(False, word) for word in query.words]
    keys += [TermKey(True, gram) for gram in query.grams]
    holders_of_key = with_kept(dict(zip(keys, holders, strict=True)))
    return [holders_of_key[key] for key in keys]


def _span_points(columns: Columns, query: RecallQuery, parameters: RecallParameters) -> Floats:
    """The points of each row for the time at which it was said or of which it tells."""
    points = np.zeros(len(columns.times))
    for stretch in stretches(query, parameters):
        points[(columns.times >= stretch.begin_ms) & (columns.times < stretch.end_ms)] = (
            stretch.points
        )
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
    """What the rows share of other words, as `Receipt.evidence` counts it."""
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
    points = shared.only(is_other).sums()
    return _OtherWords(count, points * rule.share_of_others(count))


def _count_different(rows: Integers, values: Integers, row_count: int) -> Integers:
    """How many different values each of so many rows has."""
    spread = int(values.max(initial=0)) + 1
    pairs = np.sort(rows * spread + values)  # np.unique takes five times as long
    is_new = np.append(np.ones(min(1, len(pairs)), np.bool_), pairs[1:] != pairs[:-1])
    return np.bincount(pairs[is_new] // spread, minlength=row_count)


def _gained_around(
    columns: Columns, of_last: SharedTerms, match: Floats, parameters: RecallParameters
) -> Floats:
    """What each memory with a term of the last message gains from the memories of its episode. `match`: the points of
    these terms in each row."""
    gained = np.zeros(len(match))
    if not (parameters.neighbour_share or parameters.episode_share) or not len(of_last.points):
        return gained
    timeline = columns.timeline(parameters.episode_pause_ms)
    match_in_time = match if timeline.rows is None else match[timeline.rows]
    best_beside = np.zeros(len(match_in_time))
    np.multiply(match_in_time[:-1], timeline.together, out=best_beside[1:])
    np.maximum(best_beside[:-1], match_in_time[1:] * timeline.together, out=best_beside[:-1])
    best_beside *= parameters.neighbour_share
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
    """The points of each episode: the most that one of its memories has for each term, together. `in_turn`: the rows
    ascend with time."""
    episodes = timeline.episode_of[of_last.occurrences.rows]
    terms = of_last.occurrences.terms
    points = of_last.points
    if not in_turn:
        order = np.lexsort((episodes, terms))
        episodes = episodes[order]
        terms = terms[order]
        points = points[order]
    # The rows of a term ascend with time, so those of one term in one episode stand together.
    begins_run = (episodes[1:] != episodes[:-1]) | (terms[1:] != terms[:-1])
    begins = np.concatenate(([0], np.flatnonzero(begins_run) + 1))
    best = np.maximum.reduceat(points, begins)
    episode_count = int(timeline.episode[-1]) + 1
    return np.bincount(episodes[begins], best, episode_count).astype(np.float64, copy=False)

"""What memories share with a query, on whole columns at once, as `relevance.py` says it for one memory at a time.

It does not know which memories come; `indexed_selection.py` decides that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memory_server.conversations.recall.columns import Columns
from memory_server.conversations.recall.index import Floats, Integers, Mask, Occurrences
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import OVERVIEW_POINTS, MatchedWord, matched_word
from memory_server.conversations.recall.relevance import factor_of, stretches, with_kept
from memory_server.conversations.recall.words import RecallQuery


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
    """Whether something of the last message is shared that is not incidental: after a statement, a word that is
    not a function word."""
    shares_any: Mask
    """Whether any word is shared that does not only say when, or the time that the query names."""

    def words_of(self, row: int) -> tuple[MatchedWord, ...]:
        found = self.occurrences
        places = np.flatnonzero(found.rows == row)
        pairs = zip(found.terms[places].tolist(), found.weights[places].tolist(), strict=True)
        terms = ((self.terms[number], weight) for number, weight in pairs)
        return tuple(replace(term, memory_weight=weight) for term, weight in terms)


def matched(columns: Columns, query: RecallQuery, parameters: RecallParameters) -> Match:
    """What each memory shares with the query; `relevance.receipts` does the same for one memory at a time."""
    found = columns.occurrences(tuple(query.words), tuple(query.grams))
    sought = [*query.words.items(), *query.grams.items()]
    holders = np.bincount(found.terms, minlength=len(sought)).tolist()
    if columns.keeps_words:
        is_gram = [False] * len(query.words) + [True] * len(query.grams)
        keys = [(gram, text) for gram, (text, _) in zip(is_gram, sought, strict=True)]
        together = with_kept(dict(zip(keys, holders, strict=True)))
        holders = [together[key] for key in keys]
    memories = len(columns)
    terms = [
        matched_word(text, one, factor_of(one, count, memories, parameters))
        for (text, one), count in zip(sought, holders, strict=True)
    ]
    points = np.array([term.query_weight for term in terms])[found.terms] if terms else np.zeros(0)
    points += found.weights
    points *= np.array([term.factor for term in terms])[found.terms] if terms else 1.0
    rows = len(columns.times)
    total = _of_rows(found.rows, points, rows)
    last = _of_terms(terms, found, lambda term: term.last and not term.incidental)
    only = Occurrences(found.terms[last], found.rows[last], found.weights[last])
    of_last = total if last.all() else _of_rows(only.rows, points[last], rows)
    around = _from_episodes(columns, only, points[last], of_last, parameters)
    span = np.zeros(rows)
    for begin, end, gained in stretches(query, parameters):
        span[(columns.times >= begin) & (columns.times < end)] = gained
    if query.overview is not None:
        every_row = np.ones(rows, np.bool_)
        return Match(terms, found, total, around, span, np.full(rows, OVERVIEW_POINTS), every_row, every_row)
    named_span = span if query.names_time else np.zeros(rows)
    shares_any = named_span > 0.0
    shares_any[found.rows[_of_terms(terms, found, lambda term: not term.when)]] = True
    shares = np.zeros(rows, np.bool_)
    if not parameters.must_share:
        return Match(terms, found, total, around, span, total + around + span, shares, shares_any)
    question = query.question
    has_others = any(term.given or term.kept for term in terms)

    def in_both(term: MatchedWord) -> bool:
        return not (has_others and term.other(question=question))

    if question:
        shares[only.rows[_of_terms(terms, only, in_both)] if has_others else only.rows] = True
        shares |= named_span > 0.0
    elif parameters.statement_words == 1:
        shares[found.rows[_of_terms(terms, found, lambda term: term.telling and in_both(term))]] = True
    else:
        words = _of_terms(terms, found, lambda term: term.telling and len(term.word) > 1 and in_both(term))
        shares |= _different(found.rows[words], found.terms[words], rows) >= parameters.statement_words
    counting = _of_terms(terms, found, lambda term: term.counts(question=question) and in_both(term))
    evidence = total if counting.all() else _of_rows(found.rows[counting], points[counting], rows)
    if question:
        evidence = evidence + around + named_span
    if has_others:
        others = _other_words(terms, found, points, rows, question=question)
        shares |= others.count >= (1 if question else parameters.other_words_needed)
        evidence = evidence + others.evidence * (parameters.other_words_asked if question else 1.0)
    return Match(terms, found, total, around, span, evidence, shares, shares_any)


@dataclass(frozen=True, slots=True, eq=False)
class _OtherWords:
    """What each row shares of other words: how many different ones, and their points for the threshold."""

    count: Integers
    evidence: Floats


def _other_words(
    terms: Sequence[MatchedWord], found: Occurrences, points: Floats, rows: int, *, question: bool
) -> _OtherWords:
    """As `Receipt.evidence` counts them."""
    others = ["" if term.only_orders else term.other(question=question) for term in terms]
    number_of = {other: number for number, other in enumerate(dict.fromkeys(filter(None, others)), 1)}
    numbers = np.array([number_of.get(other, 0) for other in others], np.int64)[found.terms]
    are_other = numbers > 0
    count = _different(found.rows[are_other], numbers[are_other], rows)
    return _OtherWords(count, _of_rows(found.rows[are_other], points[are_other], rows) * count / (count + 1))


def _different(rows: Integers, values: Integers, count: int) -> Integers:
    """How many different values each of so many rows has."""
    spread = int(values.max(initial=0)) + 1
    pairs = np.sort(rows * spread + values)  # np.unique takes five times as long
    is_new = np.append(np.ones(min(1, len(pairs)), np.bool_), pairs[1:] != pairs[:-1])
    return np.bincount(pairs[is_new] // spread, minlength=count)


def _of_terms(terms: Sequence[MatchedWord], found: Occurrences, has: Callable[[MatchedWord], bool]) -> Mask:
    """Which of the occurrences are of a term that `has` the property."""
    of_term: Mask = np.array([has(term) for term in terms], np.bool_)
    return of_term[found.terms]


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

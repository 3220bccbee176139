"""Which entries a search by words finds, and how relevant they are, by its query and by other words. Pure.

Other words are what a caller, mostly a language model, gives beside a query for the same. They are terms of the search
too, but nobody asked for them by these words. So they bring more entries and take none away: what the query finds by
itself comes first, in an order for which other words count `OTHER_WORDS_FACTOR`; what only other words find comes
after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OTHER_WORDS_FACTOR = 0.3
"""How much other words count beside those of a query: as after a question in a search of memories (the setting
`words.other_words_for_question`)."""


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that holds terms. `points`: more are better. `hidden`: why it does not come all the same; empty: it
    may."""

    id: int
    points: float
    hidden: str = ""


@dataclass(frozen=True, slots=True)
class Ranked:
    """An entry that comes. `by_other_words`: the query alone does not find it."""

    id: int
    relevance: float
    by_other_words: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """Entries, best first, and how many more matched, by the reason why they do not come."""

    entries: tuple[Ranked, ...]
    left_off: Counter[str]


def ranking_of(own: Sequence[Match], other: Sequence[Match], least_share: float) -> Ranking:
    """The order of the entries that match the words of a query (`own`) and `other` words, each best first. An entry
    comes if one of the two brings it at least `least_share` of the most points that it brings to any entry."""
    own_points = _points(own)
    other_points = _points(other)
    by_query = _strong(own_points, least_share)
    found = set(by_query)
    by_others = [entry_id for entry_id in _strong(other_points, least_share) if entry_id not in found]

    def total(entry_id: int) -> float:
        return own_points.get(entry_id, 0.0) + OTHER_WORDS_FACTOR * other_points.get(entry_id, 0.0)

    by_query.sort(key=total, reverse=True)
    by_others.sort(key=total, reverse=True)
    hidden = {match.id: match.hidden for match in (*other, *own) if match.hidden}
    matched = len(own_points.keys() | other_points.keys())
    left_off = Counter(hidden.values()) + Counter(weaker=matched - len(by_query) - len(by_others))
    return Ranking(_ranked(list(map(total, by_query)), by_query, list(map(total, by_others)), by_others), left_off)


def _points(matches: Sequence[Match]) -> dict[int, float]:
    return {match.id: match.points for match in matches if not match.hidden}


def _strong(points: Mapping[int, float], least_share: float) -> list[int]:
    best = max(points.values(), default=0.0)
    return [entry_id for entry_id, each in points.items() if each / best >= least_share]


def _ranked(
    totals: Sequence[float], by_query: Sequence[int], other_totals: Sequence[float], by_others: Sequence[int]
) -> tuple[Ranked, ...]:
    """The relevance of each is its share of the most points. What only other words find has no more than the last that
    the query finds, and at most the factor if it finds none."""
    scale = scale_of_others(totals, other_totals)
    most = totals[0] if totals else 1.0
    first = [Ranked(entry_id, points / most) for entry_id, points in zip(by_query, totals, strict=True)]
    if not totals and other_totals:
        most = other_totals[0] / OTHER_WORDS_FACTOR
    others = zip(by_others, other_totals, strict=True)
    return *first, *(Ranked(entry_id, points * scale / most, True) for entry_id, points in others)


def scale_of_others(scores: Sequence[float], other_scores: Sequence[float]) -> float:
    """The factor by which the scores of what only other words find are at most the least of the others, and not more
    than they were."""
    if not (scores and other_scores):
        return 1.0
    return min(1.0, min(scores) / max(other_scores))

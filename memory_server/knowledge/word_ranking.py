"""Which entries a search by words finds, and how relevant they are, by its query and by other words. Pure.

Other words are what a caller, mostly a language model, gives beside a query for the same. They are terms of the search
too, but the user did not ask with these words. So they bring more entries and take none away: what the query finds by
itself comes first, in an order for which other words count `OTHER_WORDS_FACTOR`; what only other words find comes after
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memory_server.kernel.values import dataclass

OTHER_WORDS_FACTOR = 0.3
"""The weight of other words, as a share of the weight of the query's words. After a question in a search of memories
the share is the same (the setting `words.other_words_for_question`)."""


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
    """Order the entries that match the words of a query (`own`) and `other` words, each best first. An entry comes if
    the query or the other words give it at least `least_share` of the most points that they give to any entry."""
    own_points = _points(own)
    other_points = _points(other)

    by_query = _strong(own_points, least_share)
    query_ids = set(by_query)
    by_others = [
        entry_id for entry_id in _strong(other_points, least_share) if entry_id not in query_ids
    ]

    def total(entry_id: int) -> float:
        return own_points.get(entry_id, 0.0) + OTHER_WORDS_FACTOR * other_points.get(entry_id, 0.0)

    # What the query finds comes first, whatever points other words give.
    by_query.sort(key=total, reverse=True)
    by_others.sort(key=total, reverse=True)
    ranked = _ranked(
        [_Total(entry_id, total(entry_id)) for entry_id in by_query],
        [_Total(entry_id, total(entry_id)) for entry_id in by_others],
    )

    hidden = {match.id: match.hidden for match in (*other, *own) if match.hidden}
    matched = len(own_points.keys() | other_points.keys())
    weaker = matched - len(by_query) - len(by_others)
    left_off = Counter(hidden.values()) + Counter(weaker=weaker)
    return Ranking(ranked, left_off)


def _points(matches: Sequence[Match]) -> dict[int, float]:
    return {match.id: match.points for match in matches if not match.hidden}


def _strong(points: Mapping[int, float], least_share: float) -> list[int]:
    best = max(points.values(), default=0.0)
    return [
        entry_id for entry_id, entry_points in points.items() if entry_points / best >= least_share
    ]


class _Total(NamedTuple):
    """The points of an entry by the query and by other words."""

    id: int
    points: float


def _ranked(by_query: Sequence[_Total], by_others: Sequence[_Total]) -> tuple[Ranked, ...]:
    """Return the entries with their relevance, which is their share of the most points. Entries that only other words
    find have at most the relevance of the last entry that the query finds, and at most the factor if the query finds
    nothing."""
    scale = scale_of_others(
        [total.points for total in by_query], [total.points for total in by_others]
    )
    if by_query:
        most = by_query[0].points
    elif by_others:
        most = by_others[0].points / OTHER_WORDS_FACTOR
    else:
        return ()
    first = [Ranked(total.id, total.points / most) for total in by_query]
    last = [
        Ranked(total.id, total.points * scale / most, by_other_words=True) for total in by_others
    ]
    return *first, *last


def scale_of_others(scores: Sequence[float], other_scores: Sequence[float]) -> float:
    """Return the factor that lowers the scores of what only other words find to at most the least score of the others;
    1 if they are already as low."""
    if not (scores and other_scores):
        return 1.0
    return min(1.0, min(scores) / max(other_scores))

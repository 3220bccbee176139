"""Other words of a caller bring more entries, take none away, and never stand before what a query finds by itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.kernel.items import Scope
from memory_server.knowledge.entry import Entry, Hit
from memory_server.knowledge.ranking import (
    OTHER_WORDS_FACTOR,
    Match,
    RankedEntry,
    by_relevance,
    ranking_of,
)

POINTS = st.dictionaries(st.integers(1, 12), st.floats(0.01, 100), max_size=12)
SHARES = st.sampled_from([0.0, 0.3, 0.5, 1.0])


def matches(points: dict[int, float]) -> list[Match]:
    best_first = sorted(points.items(), key=lambda row: -row[1])
    return [Match(entry_id, entry_points) for entry_id, entry_points in best_first]


@given(POINTS, POINTS, SHARES)
def test_what_the_query_finds_comes_first_and_stays(
    points: dict[int, float], points_of_other_words: dict[int, float], least: float
) -> None:
    alone = ranking_of(matches(points), [], least)
    both = ranking_of(matches(points), matches(points_of_other_words), least)
    first = both.entries[: len(alone.entries)]
    assert {ranked.id for ranked in first} == {ranked.id for ranked in alone.entries}
    assert not any(ranked.by_other_words for ranked in first)
    assert all(ranked.by_other_words for ranked in both.entries[len(first) :])
    relevances = [ranked.relevance for ranked in both.entries]
    assert all(before >= after - 1e-9 for before, after in pairwise(relevances))
    assert all(0 < relevance <= 1 + 1e-9 for relevance in relevances)
    shown_and_left_off = len(both.entries) + both.left_off["weaker"]
    assert shown_and_left_off == len(points.keys() | points_of_other_words.keys())


@given(POINTS, SHARES)
def test_without_other_words_a_relevance_is_the_share_of_the_best(
    own: dict[int, float], least: float
) -> None:
    ranking = ranking_of(matches(own), [], least)
    best = max(own.values(), default=0.0)
    ranked = [RankedEntry(match.id, match.points / best) for match in matches(own)]
    assert ranking.entries == tuple(entry for entry in ranked if entry.relevance >= least)


def test_other_words_count_less() -> None:
    ranking = ranking_of([Match(1, 10.0), Match(2, 9.0)], [Match(2, 5.0), Match(3, 50.0)], 0.3)
    assert [ranked.id for ranked in ranking.entries] == [2, 1, 3]
    assert ranking.entries[0].relevance == 1.0
    assert ranking.entries[1].relevance == pytest.approx(10 / 10.5)
    assert ranking.entries[2].relevance == pytest.approx(
        10 / 10.5
    )  # not more than the last before it
    (only,) = ranking_of([], [Match(3, 50.0)], 0.3).entries
    assert only.relevance == OTHER_WORDS_FACTOR
    assert only.by_other_words is True


def test_what_is_hidden_is_counted_once() -> None:
    hidden = Match(1, 4.0, "expired")
    assert ranking_of([hidden], [hidden, Match(2, 1.0)], 0.3).left_off == {"expired": 1}


def test_uses_do_not_lift_a_hit_of_other_words_above_what_the_query_finds() -> None:
    direct = Hit(Entry("own", uses=0), 0.3, {"body": ("pool",)}, Scope("notes"))
    by_other_words = Hit(
        Entry("other", uses=100),
        0.3,
        {},
        Scope("notes"),
        other_matched={"body": ("outage",)},
        by_other_words=True,
    )
    ranked = by_relevance([by_other_words, direct], boosted=True)
    assert [hit.entry.body for hit in ranked] == ["own", "other"]
    assert ranked[1].score > ranked[0].score
    assert (
        ranked[1].why == "outage (given by the caller) in content, relevance 0.30, used often +0.30"
    )

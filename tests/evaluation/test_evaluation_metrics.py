"""The figures against tables reckoned by hand, and against all orders that ties can fall in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, permutations, product
from math import log, log2
from statistics import fmean

import pytest
from bench.quality.metrics import Resampled, evidence, hit, ndcg, score
from bench.quality.rankers import Bm25
from hypothesis import given
from hypothesis import strategies as st

APART = [(str(n), str(n)) for n in range(100)]
"""Questions of which each is of a conversation of its own."""


@pytest.mark.parametrize(
    ("right", "at_1", "at_3"),
    [
        ([], 0.0, 0.0),
        ([0, 0], 0.0, 0.0),
        ([1], 1.0, 1.0),
        ([0, 1, 1], 0.0, 1.0),
        ([0, 0, 0, 2], 0.0, 0.0),
    ],
)
def test_a_hit_is_a_right_memory_among_the_first(
    right: Sequence[int], at_1: float, at_3: float
) -> None:
    tiers = [[turns] for turns in right]
    assert (hit(tiers, 1), hit(tiers, 3)) == (at_1, at_3)


def test_evidence_is_the_share_of_the_right_turns_that_the_first_five_hold() -> None:
    assert evidence([[2], [0], [1]], 4) == 3 / 4
    assert evidence([[0]] * 5 + [[4]], 4) == 0.0
    assert evidence([], 4) == 0.0


def test_ndcg_discounts_the_later_places_and_is_one_for_the_best_order() -> None:
    assert ndcg([[1], [3], [0]], 2) == 1.0
    assert ndcg([[0], [1]], 1) == pytest.approx(1 / log2(3))
    assert ndcg([[0], [1], [0], [1]], 2) == pytest.approx(
        (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3))
    )
    assert ndcg([[1]] * 9, 9) == 1.0
    assert ndcg([[0]] * 5 + [[1]], 1) == 0.0


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=1, max_size=3))
def test_where_memories_are_equally_good_a_figure_is_the_mean_over_all_their_orders(
    tiers: list[list[int]],
) -> None:
    right_turns = sum(map(sum, tiers)) or 1
    right_memories = sum(map(bool, chain.from_iterable(tiers)))
    orders = [
        [[turns] for turns in chain.from_iterable(ordered_tiers)]
        for ordered_tiers in product(*map(permutations, tiers))
    ]
    for places in (1, 3, 5):
        assert hit(tiers, places) == pytest.approx(fmean(hit(order, places) for order in orders))
    assert evidence(tiers, right_turns) == pytest.approx(
        fmean(evidence(order, right_turns) for order in orders)
    )
    assert ndcg(tiers, right_memories) == pytest.approx(
        fmean(ndcg(order, right_memories) for order in orders)
    )


def test_a_figure_is_the_mean_over_the_questions_that_count_for_it() -> None:
    right = {"recallAt3": 1.0, "speaking": 1.0}
    wrong = {"recallAt3": 0.0, "speaking": 1.0}
    outcomes = [right, wrong, right, {"silent": 1.0}, {"silent": 0.0}, {"silent": 0.0}]
    scores = score({"search": outcomes}, APART[:6], 1)["search"]
    figures = scores.figures
    assert (scores.questions, scores.answerable, scores.conversations) == (6, 3, 6)
    assert figures["recallAt3"].value == pytest.approx(2 / 3)
    assert figures["silent"].value == pytest.approx(1 / 3)
    assert figures["speaking"].value == 1.0


def test_a_figure_without_questions_is_left_out_and_not_zero() -> None:
    assert set(score({"search": [{"silent": 1.0}]}, APART[:1], 1)["search"].figures) == {"silent"}


def test_two_rankers_are_compared_question_by_question() -> None:
    ours = [{"recallAt3": float(n % 2)} for n in range(100)]
    two_more = [{"recallAt3": 1.0}] * 4 + ours[4:]
    scores = score({"search": ours, "other": two_more, "same": ours}, APART, 1)
    assert "recallAt3ToSearch" not in scores["search"].figures
    assert scores["other"].figures["recallAt3ToSearch"].value == pytest.approx(0.02)
    # They differ in two questions only: the difference is known far better than either of the two.
    assert scores["other"].figures["recallAt3ToSearch"].low >= 0.0
    assert scores["other"].figures["recallAt3"].low < 0.45
    same = scores["same"].figures["recallAt3ToSearch"]
    assert (same.low, same.value, same.high) == (0.0, 0.0, 0.0)


def test_an_interval_is_that_of_its_seed_and_holds_the_mean() -> None:
    values = [1.0] * 30 + [0.0] * 70
    estimate = Resampled(APART, 5).mean(values)
    assert estimate == Resampled(APART, 5).mean(values)
    assert estimate is not None
    # Normal approximation of a share of 0.3 among 100: 0.3 ± 1.96 · sqrt(0.3 · 0.7 / 100) = 0.210 to 0.390.
    assert estimate.value == pytest.approx(0.3)
    assert estimate.low == pytest.approx(0.210, abs=0.02)
    assert estimate.high == pytest.approx(0.390, abs=0.02)


def width(clusters: Sequence[tuple[str, str]], values: Sequence[float]) -> float:
    estimate = Resampled(clusters, 5).mean(values)
    assert estimate is not None
    return estimate.high - estimate.low


def test_what_belongs_together_counts_as_one() -> None:
    values = [float(n // 10 < 3) for n in range(100)]
    alone = width(APART, values)
    # Ten questions that are the same in ten forms each: as much as is known from ten questions.
    same = [("chat", str(n // 10)) for n in range(100)]
    assert width(same, values) == pytest.approx(alone * 10**0.5, rel=0.1)
    # Ten conversations of ten questions each, alike within a conversation.
    of_chats = [(str(n // 10), str(n)) for n in range(100)]
    assert width(of_chats, values) == pytest.approx(alone * 10**0.5, rel=0.1)


def test_questions_differ_also_where_conversations_do_not() -> None:
    values = [float(n % 10 < 3) for n in range(100)]
    in_one_chat = [("chat", str(n)) for n in range(100)]
    ten = [(str(n // 10), str(n)) for n in range(100)]
    assert width(in_one_chat, values) == pytest.approx(width(APART, values), rel=0.1)
    assert width(ten, values) == pytest.approx(width(APART, values), rel=0.1)


def test_what_never_differs_has_no_width() -> None:
    estimate = Resampled(APART[:9], 1).mean([1.0] * 9)
    assert estimate is not None
    assert (estimate.low, estimate.value, estimate.high) == (1.0, 1.0, 1.0)


def test_any_figure_has_an_interval_and_none_where_it_cannot_be_reckoned() -> None:
    draws = Resampled(APART[:10], 1)
    share = draws.figure(lambda drawn: float(drawn[:5].sum() / drawn.sum()))
    assert share == draws.mean([1.0] * 5 + [0.0] * 5)
    assert draws.figure(lambda drawn: float("nan")) is None


def test_bm25_is_that_of_the_paper() -> None:
    index = Bm25([["a", "b", "a"], ["b"], ["c", "c"]])
    # Mean length 2; "a": N=3, n=1, idf = ln(1 + 2.5/1.5); tf 2, norm 1.2 · (0.25 + 0.75 · 3/2) = 1.65.
    alone = log(1 + 2.5 / 1.5) * 2 * 2.2 / (2 + 1.65)
    assert index.scores({"a": 1.0, "z": 1.0}) == {0: pytest.approx(alone)}
    assert index.scores({"a": 0.5}) == {0: pytest.approx(alone / 2)}


def test_of_documents_with_the_same_word_the_shorter_scores_higher() -> None:
    scores_of_b = Bm25([["a", "b", "a"], ["b"], ["c", "c"]]).scores({"b": 1.0})
    assert scores_of_b.keys() == {0, 1}
    assert scores_of_b[1] > scores_of_b[0]


def test_an_empty_index_finds_nothing() -> None:
    assert Bm25([]).scores({"a": 1.0}) == {}
    assert Bm25([[], []]).scores({"a": 1.0}) == {}

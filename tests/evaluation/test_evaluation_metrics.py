"""The figures against tables reckoned by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from random import Random

import pytest

from memory_server.evaluation.bm25 import Bm25
from memory_server.evaluation.metrics import Estimate, Outcome, estimate, first_right, score


def outcome(rank: int | None = None, *, answerable: bool = True, answered: bool = True, ms: int = 1) -> Outcome:
    return Outcome(answerable, rank, answered, ms * 1_000_000)


def value(found: Estimate | None) -> float:
    assert found is not None
    return found.value


@pytest.mark.parametrize(
    ("rights", "place"),
    [([], None), ([False, False], None), ([True], 1), ([False, True, True], 2)],
)
def test_the_rank_is_the_place_of_the_first_right_memory(rights: Sequence[bool], place: int | None) -> None:
    assert first_right(rights) == place


def test_recall_counts_the_questions_with_a_right_memory_among_the_first() -> None:
    ranks = [1, 1, 2, 3, 4, 5, 6, None]
    figures = score([outcome(rank) for rank in ranks], Random(1))
    assert value(figures.recall_1) == 2 / 8
    assert value(figures.recall_3) == 4 / 8
    assert value(figures.recall_5) == 6 / 8
    assert value(figures.mrr) == pytest.approx((1 + 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6 + 0) / 8, abs=1e-12)


def test_unanswerable_questions_count_for_silence_only() -> None:
    asked = [
        outcome(1),
        outcome(None, answered=False),
        outcome(answerable=False, answered=True),
        outcome(answerable=False, answered=False),
        outcome(answerable=False, answered=False),
        outcome(answerable=False, answered=False),
    ]
    figures = score(asked, Random(1))
    assert (figures.questions, figures.answerable) == (6, 2)
    assert value(figures.recall_1) == 1 / 2
    assert value(figures.silent) == 3 / 4
    assert value(figures.speaking) == 1 / 2


def test_a_figure_without_questions_is_none_and_not_zero() -> None:
    figures = score([outcome(1)], Random(1))
    assert figures.silent is None
    assert score([outcome(answerable=False)], Random(1)).recall_1 is None


def test_the_latency_is_the_median_question_in_milliseconds() -> None:
    assert score([outcome(1, ms=ms) for ms in (1, 3, 50)], Random(1)).p50_ms == 3.0


def test_an_interval_is_that_of_its_seed_and_holds_the_mean() -> None:
    values = [1.0] * 30 + [0.0] * 70
    found = estimate(values, Random(5))
    assert found == estimate(values, Random(5))
    assert found is not None
    # Normal approximation of a share of 0.3 among 100: 0.3 ± 1.96 · sqrt(0.3 · 0.7 / 100) = 0.210 to 0.390.
    assert found.value == pytest.approx(0.3)
    assert found.low == pytest.approx(0.210, abs=0.02)
    assert found.high == pytest.approx(0.390, abs=0.02)


def test_an_interval_of_many_values_is_drawn_in_parts() -> None:
    found = estimate([1.0, 0.0] * 5_000, Random(5))
    assert found is not None
    # 0.5 ± 1.96 · sqrt(0.25 / 10,000) = 0.490 to 0.510.
    assert found.low == pytest.approx(0.490, abs=0.002)
    assert found.high == pytest.approx(0.510, abs=0.002)


def test_what_never_differs_has_no_width() -> None:
    found = estimate([1.0] * 9, Random(1))
    assert found is not None
    assert (found.low, found.value, found.high) == (1.0, 1.0, 1.0)


def test_bm25_is_that_of_the_paper() -> None:
    index = Bm25([["a", "b", "a"], ["b"], ["c", "c"]])
    # Mean length 2; "a": N=3, n=1, idf = ln(1 + 2.5/1.5); tf 2, norm 1.2 · (0.25 + 0.75 · 3/2) = 1.65.
    found = index.scores(["a", "a", "z"])
    assert found == {0: pytest.approx(log(1 + 2.5 / 1.5) * 2 * 2.2 / (2 + 1.65))}


def test_of_documents_with_the_same_word_the_shorter_scores_higher() -> None:
    found = Bm25([["a", "b", "a"], ["b"], ["c", "c"]]).scores(["b"])
    assert found.keys() == {0, 1}
    assert found[1] > found[0]


def test_an_empty_index_finds_nothing() -> None:
    assert Bm25([]).scores(["a"]) == {}
    assert Bm25([[], []]).scores(["a"]) == {}

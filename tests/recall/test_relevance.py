"""Relevance: keyword match − decay + score, to the original's numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, HOUR, KEYWORDS, MINUTE, NOW, memory, query_of

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import Receipt, ThresholdRule, age_text
from memory_server.conversations.recall.relevance import age_of, decay, receipts
from memory_server.conversations.recall.words import KeywordOptions

P = RecallParameters()


def judged(stored: ShortTermMemory, query: dict[str, float], now_ms: int) -> Receipt:
    """The receipt of a memory that is all there is."""
    [receipt] = receipts(
        [stored], query_of(query), now_ms=now_ms, parameters=P, wording=KeywordOptions()
    )
    return receipt


@pytest.mark.parametrize(
    ("days", "lost"),
    [
        (0, 0.0),
        (1, 2.38),
        (2.35, 5.01),
        (4, 7.49),
        (7, 10.53),
        (14, 13.67),
        (30, 14.92),
        (3650, 15.0),
    ],
)
def test_decay_is_that_of_the_node_original(days: float, lost: float) -> None:
    # The known table gives one decimal; these are 15·(1 − e^(−days·0.1728)) to two.
    assert round(decay(round(days * DAY), P), 2) == lost


def test_half_of_the_decay_happens_in_4_01_days() -> None:
    assert decay(round(4.01 * DAY), P) == pytest.approx(7.5, abs=0.01)


@pytest.mark.parametrize(
    ("words", "query", "age", "score", "expected"),
    [
        ({}, {}, 0, 0, 0.0),
        ({"披萨": 30.0}, {}, 0, 0, 0.0),
        ({"披萨": 30.0}, {"披萨": 20.0}, 0, 0, 50.0),
        ({"披萨": 30.0, "生日": 1.5}, {"披萨": 20.0, "生日": 2.0, "猫": 99.0}, 0, 0, 53.5),
        ({"披萨": 30.0}, {"披萨": 20.0}, 0, 7, 57.0),
        ({"披萨": 30.0}, {"披萨": 20.0}, 5 * DAY, 7, 57.0 - 15 * (1 - math.exp(-0.864))),
        ({"披萨": 30.0}, {"披萨": 0.0}, 0, 0, 30.0),
        ({"pizza": 30.0}, {"Pizza": 20.0}, 0, 0, 0.0),
    ],
)
def test_relevance_is_match_minus_decay_plus_score(
    words: dict[str, float], query: dict[str, float], age: int, score: float, expected: float
) -> None:
    receipt = judged(memory(age=age, words=words, score=score), query, NOW)
    assert receipt.relevance == pytest.approx(expected, abs=1e-12)


@given(KEYWORDS, KEYWORDS, st.integers(0, 400 * DAY), st.integers(1, 400 * DAY))
def test_relevance_falls_with_age(
    words: dict[str, float], query: dict[str, float], age: int, later: int
) -> None:
    stored = memory(age=age, words=words)
    now = judged(stored, query, NOW).relevance
    then = judged(stored, query, NOW + later).relevance
    assert then <= now
    assert now - then <= P.decay_ceiling + 1e-6


@given(KEYWORDS, KEYWORDS, st.integers(0, 400 * DAY), st.floats(-100, 100))
def test_the_receipt_adds_up_to_the_relevance(
    words: dict[str, float], query: dict[str, float], age: int, score: float
) -> None:
    stored = memory(age=age, words=words, score=score)
    receipt = judged(stored, query, NOW)
    shared = [word for word in query if word in words]
    match = sum(query[word] + words[word] for word in shared)
    assert receipt.relevance == pytest.approx(match - decay(age, P) + score, rel=1e-12, abs=1e-9)
    assert [match.word for match in receipt.matched] == shared
    assert receipt.age_ms == age


@pytest.mark.parametrize("ahead", [1, MINUTE, DAY, 10**15, 2**62])
def test_a_time_in_the_future_has_no_age_and_no_decay(ahead: int) -> None:
    assert age_of(NOW + ahead, NOW) == 0
    assert judged(memory(age=-ahead, score=3), {}, NOW).relevance == 3


def test_a_time_before_1970_is_only_old() -> None:
    assert judged(memory(age=NOW + 60_000 * DAY), {}, NOW).relevance == pytest.approx(-15)


def test_the_line_shows_the_heaviest_words_first_and_counts_the_rest() -> None:
    words = {"a1": 1.0, "b2": 9.0, "c3": 5.0, "d4": 3.0}
    line = judged(memory(age=3 * HOUR, words=words, score=5), dict.fromkeys(words, 2.0), NOW).line()
    assert line == "b2 2.0+9.0, c3 2.0+5.0, d4 2.0+3.0 and 1 more; -0.3 for 3 h; +5 score"
    assert judged(memory(age=0), {}, NOW).line() == "no shared word; -0.0 for 0 min; +0 score"


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (0, "0 min"),
        (59 * MINUTE, "59 min"),
        (60 * MINUTE, "1 h"),
        (47 * HOUR, "47 h"),
        (48 * HOUR, "2 days"),
    ],
)
def test_ages_read_well(age: int, text: str) -> None:
    assert age_text(age) == text


def test_a_memory_that_shares_little_of_a_question_keeps_most_of_its_points() -> None:
    rule = ThresholdRule(
        question=True, words_needed=1, others_needed=1, others_factor=1.0, part_asked=0.7
    )
    assert rule.part_factor(0.0) == pytest.approx(0.9)
    assert rule.part_factor(1.0) == pytest.approx(1.4)

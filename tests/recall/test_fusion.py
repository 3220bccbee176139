"""Words and meaning as one ranking: who comes, in which order, and when what is near by meaning alone stays silent."""

from __future__ import annotations

from dataclasses import replace
from math import inf, sqrt

import pytest
from sample_memories import DAY, memory, query_of
from searched_memories import decided

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.explanation import explain
from memory_server.conversations.recall.indexed_selection import Decision
from memory_server.conversations.recall.parameters import USUAL, RecallParameters
from memory_server.kernel.fusion import fused, needed_cosine

ASKED = replace(USUAL, weak_too=True, flashback_count=0)
UNASKED = replace(USUAL, flashback_count=0)
WORD = query_of({"披萨": 40.0})


def decision_on(
    memories: list[ShortTermMemory], cosines: dict[str, float], parameters: RecallParameters = ASKED
) -> Decision:
    return decided(memories, WORD, parameters, cosines=cosines)


def chosen_ids(decision: Decision) -> list[str]:
    return [decision.columns.memory(row).id for row in decision.order.chosen]


def memories_by_day(count: int, worded: int = 0) -> list[ShortTermMemory]:
    """Memories of different days; the first `worded` hold the word that is sought, the earlier ones more of it."""
    return [
        memory(
            f"m{n:02}", age=(n + 1) * DAY, words={"披萨": 40.0 - n} if n < worded else {"火车": 9.0}
        )
        for n in range(count)
    ]


def test_what_is_first_in_both_is_first_and_a_rank_by_words_counts_more() -> None:
    memories = memories_by_day(20, worded=3)
    assert chosen_ids(decision_on(memories, {})) == ["m00", "m01", "m02"]
    assert chosen_ids(decision_on(memories, {"m02": 0.9, "m10": 0.8})) == ["m02", "m00", "m01"]
    assert chosen_ids(decision_on(memories, {"m02": 0.9, "m10": 0.8, "m00": 0.1})) == [
        "m00",
        "m02",
        "m01",
    ]
    assert chosen_ids(decision_on(memories, {"m10": 0.9, "m11": 0.8})) == ["m00", "m01", "m02"]
    assert chosen_ids(decision_on(memories_by_day(20, worded=1), {"m10": 0.9, "m11": 0.8})) == [
        "m00",
        "m10",
        "m11",
    ]


def test_a_memory_without_a_vector_is_found_by_its_words() -> None:
    assert chosen_ids(decision_on(memories_by_day(20, worded=1), {"m10": 0.9}))[0] == "m00"


def test_receipts_say_the_rank_in_both() -> None:
    decision = decision_on(memories_by_day(20, worded=1), {"m00": 0.3, "m10": 0.9})
    lines = [item.receipt.line() for item in (*decision.recall.top, *decision.recall.next)]
    assert lines[0].endswith("; meaning 0.30, rank 2; words, rank 1")
    assert lines[1].endswith("; meaning 0.90, rank 1")
    assert (
        "meaning" not in decision_on(memories_by_day(20, worded=1), {}).recall.top[0].receipt.line()
    )


def test_what_nobody_asked_for_comes_by_meaning_alone_only_where_it_stands_out() -> None:
    talk = {f"m{n:02}": 0.2 + 0.01 * (n % 7) for n in range(40)}
    assert chosen_ids(decision_on(memories_by_day(40), talk, UNASKED)) == []
    assert chosen_ids(decision_on(memories_by_day(40), talk | {"m09": 0.5}, UNASKED)) == ["m09"]
    assert len(chosen_ids(decision_on(memories_by_day(40), talk, ASKED))) == 3, (
        "who asks gets the nearest"
    )


def test_a_memory_that_was_not_near_enough_was_outranked_where_somebody_asked() -> None:
    memories = memories_by_day(40)
    cosines = {f"m{n:02}": 0.5 - 0.01 * n for n in range(40)}
    asked = decision_on(memories, cosines)
    unasked = decision_on(memories, cosines, UNASKED)
    row = asked.columns.row_of("m20")
    assert row is not None
    assert explain(asked, row).verdict.kind == "outranked"
    assert explain(unasked, row).verdict.kind == "below_threshold"


def test_who_is_far_below_the_best_is_compared_with_the_most_relevant() -> None:
    """`m01` comes before `m00`, the most relevant one, because it is near by meaning too."""
    weights = {0: 90.0, 1: 12.0, 2: 20.0}
    memories = [
        memory(
            f"m{n:02}",
            age=(n + 1) * DAY,
            words={"披萨": weights[n]} if n in weights else {"火车": 9.0},
        )
        for n in range(40)
    ]
    cosines = {f"m{n:02}": 0.2 + 0.01 * (n % 7) for n in range(2, 40)} | {"m01": 0.95}
    decision = decision_on(memories, cosines, UNASKED)
    assert chosen_ids(decision) == ["m01", "m00"]
    row = decision.columns.row_of("m02")
    assert row is not None
    verdict = explain(decision, row).verdict
    assert [item.memory.id for item in verdict.others] == ["m00"]
    assert "less than 55% of the relevance of m00 " in str(verdict.sentence)


def test_who_stands_out_by_meaning_is_not_far_below_the_best_but_has_no_place() -> None:
    memories = memories_by_day(40, worded=1)
    cosines = {f"m{n:02}": 0.2 + 0.01 * (n % 7) for n in range(40)} | {"m10": 0.95}
    decision = decision_on(memories, cosines, replace(UNASKED, top_count=1, next_count=0))
    assert chosen_ids(decision) == ["m00"]
    row = decision.columns.row_of("m10")
    assert row is not None
    assert "took the only place" in str(explain(decision, row).verdict.sentence)


def test_where_words_and_meaning_count_the_outranked_are_not_told_of_more_relevant_ones() -> None:
    """`m00` is the most relevant by words, but three others have two ranks."""
    cosines = {"m01": 0.9, "m02": 0.8, "m03": 0.7} | {f"m{n:02}": 0.1 for n in range(4, 20)}
    decision = decision_on(memories_by_day(20, worded=4), cosines)
    assert chosen_ids(decision) == ["m01", "m02", "m03"]
    row = decision.columns.row_of("m00")
    assert row is not None
    assert decision.counted.relevance[row] == max(decision.counted.relevance)
    verdict = explain(decision, row).verdict
    assert (verdict.kind, len(verdict.others)) == ("outranked", 3)
    assert "others, which come first by words and meaning, took the 3 places" in verdict.sentence


def test_the_needed_cosine_does_not_depend_on_what_a_model_calls_near() -> None:
    cosines = [0.1, 0.2, 0.3, 0.25, 0.15] * 10
    narrow = [0.8 + 0.1 * cosine for cosine in cosines]
    needed = needed_cosine(cosines, 1.0)
    assert needed_cosine(narrow, 1.0) == pytest.approx(0.8 + 0.1 * needed)
    assert needed == pytest.approx(0.2 + (sqrt(2 * 3.912023) + 1) * sqrt(0.005))
    assert needed_cosine(cosines, -inf) == -inf
    assert needed_cosine([0.9], 1.0) == needed_cosine([0.9] * 9, 1.0) == inf, (
        "nothing to compare with"
    )


def test_a_fused_score_is_a_sum_of_reciprocal_ranks() -> None:
    assert fused("ab", "bc") == {"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62}
    assert fused("a", "a", offset=5, meaning=0.5) == {"a": 1.5 / 6}

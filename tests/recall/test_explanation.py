"""Why a memory did not come: the same decision as the search, told for one memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, MINUTE, NOW, memory, query_of
from searched_memories import decided, searched_memories

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.explanation import Chance, Explanation, Verdict, explain
from memory_server.conversations.recall.indexed_selection import Decision, decide
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import age_text
from memory_server.conversations.recall.request import RecallContext

P = RecallParameters()


def decision_on(
    memories: Sequence[ShortTermMemory], *, seed: int = 1, parameters: RecallParameters = P
) -> Decision:
    return decided(memories, query_of({"披萨": 10.0}), parameters, seed=seed)


def explained(
    memory_id: str,
    memories: Sequence[ShortTermMemory],
    *,
    seed: int = 1,
    parameters: RecallParameters = P,
) -> Explanation:
    decision = decision_on(memories, seed=seed, parameters=parameters)
    row = decision.columns.row_of(memory_id)
    assert row is not None
    return explain(decision, row)


def relevant(
    memory_id: str, weight: float = 20.0, *, age: int = DAY, **rest: object
) -> ShortTermMemory:
    return memory(memory_id, age=age, words={"披萨": weight}, **rest)  # type: ignore[arg-type]


THREE = [relevant(f"m{n}", 50.0 - n, age=(n + 2) * DAY) for n in range(3)]


def test_what_came_has_its_place() -> None:
    verdicts = [explained(f"m{n}", THREE).verdict for n in range(3)]
    assert {verdict.kind for verdict in verdicts} == {"came"}
    assert [verdict.sentence for verdict in verdicts] == [
        "It came as top, number 1 of 3.",
        "It came as top, number 2 of 3.",
        "It came as next, number 3 of 3.",
    ]
    assert explained("m0", THREE).draw is None


@pytest.mark.parametrize(
    ("age", "wait"), [(0, 20 * MINUTE), (8 * MINUTE, 12 * MINUTE), (-9 * MINUTE, 29 * MINUTE)]
)
def test_what_is_too_recent_can_come_when(age: int, wait: int) -> None:
    explanation = explained("new", [*THREE, relevant("new", 90.0, age=age)])
    assert explanation.verdict.kind == "too_recent"
    assert explanation.verdict.sentence.endswith(
        f"is only {age_text(max(0, age))} old. It can come in {age_text(wait)}."
    )
    assert explanation.draw is None


def test_the_ten_minute_rule_names_whom() -> None:
    explanation = explained("near", [*THREE, relevant("near", 48.5, age=3 * DAY - 4 * MINUTE)])
    assert explanation.verdict.kind == "same_moment"
    assert [item.memory.id for item in explanation.verdict.others] == ["m1"]
    assert explanation.verdict.apart_ms == 4 * MINUTE
    assert "4 min apart from a more relevant memory that came, m1 (" in explanation.verdict.sentence
    assert explanation.draw == Chance(
        "It cannot be a flashback: it is 4 min apart from m1, which came."
    )


@pytest.mark.parametrize("most", [1, 2])
def test_the_ten_minute_rule_says_how_many_of_a_moment_can_come(most: int) -> None:
    moment = [relevant(f"n{n}", 60.0 - n, age=DAY - n * MINUTE) for n in range(most + 1)]
    verdict = explained(f"n{most}", moment, parameters=replace(P, same_moment=most)).verdict
    assert verdict.kind == "same_moment"
    assert verdict.sentence.endswith(f" At most {most} of the same 10 min can come.")


def test_the_outranked_are_told_by_whom() -> None:
    explanation = explained("late", [*THREE, relevant("late", 10.0, age=9 * DAY)])
    assert explanation.verdict.kind == "outranked"
    assert [item.memory.id for item in explanation.verdict.others] == ["m0", "m1", "m2"]
    assert explanation.draw is not None
    assert explanation.draw.probability == 1.0


@pytest.mark.parametrize(("words", "shares"), [({}, False), ({"披萨": 0.0}, True)])
def test_below_the_threshold(words: dict[str, float], shares: bool) -> None:
    explanation = explained("old", [*THREE, memory("old", age=365 * DAY, words=words)])
    assert explanation.verdict.kind == "below_threshold"
    points = 10.0 if shares else 20.0
    assert f"it lacks {points} of the 5.0 points needed." in explanation.verdict.sentence
    assert ("shares no word with" in explanation.verdict.sentence) is not shares
    assert explanation.draw is not None
    assert explanation.draw.weight > 0.0


@pytest.mark.parametrize("telling_words", [6, 12])
def test_what_is_too_little_for_a_home_or_for_a_long_message_is_said(telling_words: int) -> None:
    parameters = replace(P, threshold=-inf, least_match=90.0, long_message_words=6.0)
    decision = decide(
        [searched_memories([relevant("little")])],
        replace(query_of({"披萨": 10.0}), telling_words=telling_words),
        RecallContext(conversation_id="chat", now_ms=NOW, rng=Random(1), parameters=parameters),
    )
    sentence = explain(decision, 0).verdict.sentence
    assert sentence.startswith("Shares too little for this home: it lacks ")
    is_long = telling_words > parameters.long_message_words
    long_message = " The message is long, so it needs 1.4 times the points of a short one."
    assert sentence.endswith(long_message) == is_long


def test_without_flashbacks_there_is_no_draw() -> None:
    none = replace(P, flashback_count=0)
    assert explained("old", [*THREE, memory("old", age=90 * DAY)], parameters=none).draw is None


def test_without_places_nothing_is_outranked_by_nobody() -> None:
    none = replace(P, top_count=0, next_count=0)
    explanation = explained("m0", THREE, parameters=none)
    assert explanation.verdict.kind == "outranked"
    assert "no place" in explanation.verdict.sentence


STATES = st.lists(
    st.tuples(
        st.integers(-3, 60),  # age in steps of 7 minutes: many are near to each other
        st.sampled_from([{}, {"披萨": 0.0}, {"披萨": 30.0}, {"披萨": 31.0}]),
        st.sampled_from([0.0, 5.0, 60.0]),
        st.sampled_from(["chat", "other"]),
    ),
    max_size=14,
)
SIZES = st.builds(
    lambda top, following, back: replace(
        P, top_count=top, next_count=following, flashback_count=back
    ),
    *(st.integers(0, 3),) * 3,
)


@given(STATES, SIZES, st.integers(0, 9))
def test_explanations_agree_with_the_search(
    parts: list[tuple[int, dict[str, float], float, str]], parameters: RecallParameters, seed: int
) -> None:
    memories = [
        memory(f"m{n}", age=steps * 7 * MINUTE, words=words, score=score, chat=chat)
        for n, (steps, words, score, chat) in enumerate(parts)
    ]
    decision = decision_on(memories, seed=seed, parameters=parameters)
    recall = decision.recall
    explanations = [explain(decision, row) for row in range(len(memories))]

    sentences = {
        item.memory.id: item.verdict.sentence
        for item in explanations
        if item.verdict.kind == "came"
    }
    places = parameters.top_count + parameters.next_count
    tiers = [(item, "top") for item in recall.top] + [(item, "next") for item in recall.next]
    expected = {}
    for rank, (item, tier) in enumerate(tiers, 1):
        expected[item.memory.id] = f"It came as {tier}, number {rank} of {places}."
    assert sentences == expected
    kinds = Counter(explanation.verdict.kind for explanation in explanations)
    assert (kinds["too_recent"], kinds["same_moment"]) == (
        recall.held_back.recent,
        recall.held_back.adjacent,
    )
    for explanation in explanations:
        match explanation.verdict:
            case Verdict("outranked", _, by):
                assert explanation.receipt.relevance >= parameters.threshold
                assert len(by) == parameters.top_count + parameters.next_count
                assert all(
                    neighbour.receipt.relevance >= explanation.receipt.relevance for neighbour in by
                )
            case Verdict("same_moment", _, (neighbour,), apart_ms):
                assert neighbour in (*recall.top, *recall.next)
                assert (
                    apart_ms
                    == abs(neighbour.memory.time_ms - explanation.memory.time_ms)
                    < parameters.spacing_ms
                )
                assert neighbour.receipt.relevance >= explanation.receipt.relevance
            case Verdict("below_threshold"):
                assert explanation.receipt.relevance < parameters.threshold
    drawn = {item.memory.id for item in recall.flashback}
    draws = {item.memory.id: item.draw for item in explanations if item.draw and item.draw.weight}
    assert drawn <= draws.keys()
    chances = [draw.probability for draw in draws.values()]
    assert all(0.0 < chance <= 1.0 + 1e-9 for chance in chances)
    if parameters.flashback_count <= 2 and len(recall.flashback) == parameters.flashback_count:
        # Each draw gives one, unless the first bars all others in some of its outcomes.
        assert sum(chances) <= parameters.flashback_count + 1e-9


@pytest.mark.parametrize("rounds", [1_000, pytest.param(4_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("draws", [1, 2])
def test_the_probability_is_the_share_of_searches_in_which_it_is_drawn(
    draws: int, rounds: int
) -> None:
    parameters = replace(P, top_count=0, next_count=0, flashback_count=draws)
    pool = [
        memory("new", age=2 * DAY),
        memory("beside", age=2 * DAY + 5 * MINUTE, score=50),
        memory("liked", age=364 * DAY, score=50),
        memory("old", age=365 * DAY),
        memory("both", age=3 * DAY, score=50),
    ]
    drawn: Counter[str] = Counter()
    for seed in range(rounds):
        drawn.update(
            item.memory.id
            for item in decision_on(pool, seed=seed, parameters=parameters).recall.flashback
        )
    for candidate in pool:
        draw = explained(candidate.id, pool, parameters=parameters).draw
        assert draw is not None
        # Four standard deviations of a share of so many; the seeds are fixed, so this passes or fails for good.
        assert draw.probability == pytest.approx(
            drawn[candidate.id] / rounds, abs=4 * (0.25 / rounds) ** 0.5
        )

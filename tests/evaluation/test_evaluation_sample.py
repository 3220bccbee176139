"""The committed sample: large enough, whole, and what its README says."""

from __future__ import annotations

from collections import Counter

import pytest
from bench.quality.evaluation import SAMPLE, Dataset, load_dataset

from memory_server.kernel.times import DAY_MS


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset([SAMPLE])


def test_it_is_large_enough(dataset: Dataset) -> None:
    assert len({turn.conversation_id for turn in dataset.turns}) >= 8
    assert len(dataset.turns) >= 300
    languages = Counter(question.language for question in dataset.questions)
    assert languages["zh"] + languages["en"] >= 120
    without = [q for q in dataset.questions if not q.answerable and q.language != "zh-Hant"]
    assert len(without) >= 20
    assert set(Counter(q.kind for q in dataset.questions)) == {
        "date",
        "direct",
        "emotion",
        "name",
        "number",
        "paraphrase",
    }


def test_gold_is_what_the_user_said_in_the_conversation_that_is_asked_about(
    dataset: Dataset,
) -> None:
    turns = {turn.id: turn for turn in dataset.turns}
    for question in dataset.questions:
        for turn_id in question.gold:
            assert turns[turn_id].conversation_id == question.conversation_id, question.id
            assert turns[turn_id].role == "user", question.id
            assert turns[turn_id].time_ms < question.asked_ms - DAY_MS, question.id


def test_conversations_go_on_over_weeks_and_in_order(dataset: Dataset) -> None:
    for name in {turn.conversation_id for turn in dataset.turns}:
        times = [turn.time_ms for turn in dataset.turns if turn.conversation_id == name]
        assert times == sorted(set(times)), name
        assert times[-1] - times[0] > 6 * 7 * DAY_MS, name


def test_nothing_is_said_or_asked_twice(dataset: Dataset) -> None:
    contents = Counter(turn.content for turn in dataset.turns)
    questions = Counter(
        (question.conversation_id, question.language, question.text)
        for question in dataset.questions
    )
    assert [text for text, times in contents.items() if times > 1] == []
    assert [text for text, times in questions.items() if times > 1] == []


def test_traditional_questions_ask_the_same_as_the_simplified_ones(dataset: Dataset) -> None:
    simplified = {q.id: q for q in dataset.questions if q.language == "zh"}
    traditional = {
        q.id.removesuffix("-hant"): q for q in dataset.questions if q.language == "zh-Hant"
    }
    assert traditional.keys() == simplified.keys()
    for name, question in traditional.items():
        same = simplified[name]
        assert (question.gold, question.kind, question.asked_ms) == (
            same.gold,
            same.kind,
            same.asked_ms,
        )
        assert len(question.text) == len(same.text)
    assert (
        sum(question.text != simplified[name].text for name, question in traditional.items()) > 100
    )

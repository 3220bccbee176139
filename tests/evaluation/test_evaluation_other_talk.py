"""What is said before a question: of another chat, of the same language, far from the answer, the same every time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from bench.quality.evaluation import (
    APART_MS,
    SAMPLE,
    Dataset,
    Question,
    Turn,
    load_dataset,
    units_of,
    with_other_talk,
)
from bench.quality.metrics import Outcome, Scope, ask_all
from bench.quality.rankers import makers
from sample_memories import DAY, NOW

from memory_server.config import Settings
from memory_server.config.recall import parameters


@pytest.fixture(scope="module")
def sample() -> Dataset:
    return load_dataset([SAMPLE])


def chat(name: str, *texts: str) -> tuple[Turn, ...]:
    return tuple(
        Turn(f"{name}{n}", name, "user", text, NOW - 9 * DAY + n * DAY // 9, name)
        for n, text in enumerate(texts)
    )


def question(
    conversation_id: str, *gold: str, text: str = "披萨", language: str = "zh"
) -> Question:
    return Question(
        f"q {conversation_id} {language}", conversation_id, text, frozenset(gold), NOW, language
    )


def outcomes(dataset: Dataset, scope: Scope) -> Mapping[str, Outcome]:
    """The outcomes of the only question, by ranker; the constants are those of the Node original."""
    rankers = makers({"search": parameters(Settings(timezone="UTC", compat="node"))})
    ((_, by_ranker),) = ask_all(
        dataset.questions, units_of(dataset.turns), scope=scope, rankers=rankers
    )
    return by_ranker


def test_messages_of_another_chat_of_the_same_language_come_before_each_question(
    sample: Dataset,
) -> None:
    places = {turn.id: (turn.conversation_id, number) for number, turn in enumerate(sample.turns)}
    english = {q.conversation_id for q in sample.questions if q.language == "en"}
    talked_about = set()
    for asked in with_other_talk(sample, 3, 1).questions:
        (chat_of, first), *others = [places[turn.id] for turn in asked.before]
        assert others == [(chat_of, first + 1), (chat_of, first + 2)]
        assert chat_of != asked.conversation_id
        assert (chat_of in english) == (asked.language == "en")
        talked_about.add(asked.before[0].id)
    assert len(talked_about) > 100


def test_they_were_said_half_a_minute_apart_just_before_the_question_and_name_nobody(
    sample: Dataset,
) -> None:
    asked = with_other_talk(sample, 2, 1).questions[0]
    assert [turn.time_ms for turn in asked.before] == [
        asked.asked_ms - 2 * APART_MS,
        asked.asked_ms - APART_MS,
    ]
    assert [message.name for message in asked.messages] == [None] * 3
    assert asked.messages[-1].content == asked.text


def test_they_depend_on_the_seed_and_not_on_which_questions_are_asked(sample: Dataset) -> None:
    before = {asked.id: asked.before for asked in with_other_talk(sample, 3, 1).questions}
    alone = with_other_talk(replace(sample, questions=sample.questions[50:]), 3, 1).questions
    assert all(asked.before == before[asked.id] for asked in alone if asked.language != "en")
    other_seed = with_other_talk(sample, 3, 2).questions
    assert sum(asked.before != before[asked.id] for asked in other_seed) > len(other_seed) * 0.8


def test_nothing_is_said_before_where_nothing_is_wanted(sample: Dataset) -> None:
    assert with_other_talk(sample, 0, 1) == sample


def test_of_a_single_chat_the_part_is_talked_about_that_lies_far_from_the_answer() -> None:
    turns = chat("a", *(f"说了{n}" for n in range(40)))
    for seed in range(20):
        (asked,) = with_other_talk(Dataset("one", turns, (question("a", "a5"),)), 3, seed).questions
        ids = [turn.id for turn in turns]
        first = ids.index(asked.before[0].id)
        assert [turn.id for turn in asked.before] == ids[first : first + 3]
        assert first > 25


@pytest.mark.parametrize("texts", [("披萨",), ("披萨", "可乐", "汤", "茶", "水", "酒")])
def test_a_single_chat_without_another_part_gives_nothing_to_say(texts: tuple[str, ...]) -> None:
    (asked,) = with_other_talk(
        Dataset("one", chat("a", *texts), (question("a", "a0"),)), 3, 1
    ).questions
    assert asked.before == ()


def test_chats_without_questions_are_talked_about_where_there_are_no_others() -> None:
    both = Dataset("two", (*chat("a", "披萨"), *chat("b", "登山", "游泳")), (question("a", "a0"),))
    (asked,) = with_other_talk(both, 3, 1).questions
    assert [turn.id for turn in asked.before] == ["b0", "b1"]


def test_a_search_is_made_with_what_was_said_before_and_the_baselines_too() -> None:
    turns = (*chat("a", "我喜欢吃披萨", "上次登山真累"), *chat("b", "我们明天一起登山"))
    dataset = with_other_talk(Dataset("two", turns, (question("a", "a1", text="然后呢？"),)), 1, 1)
    for ranker in ("search", "bm25 same words", "bm25 words", "bm25 bigrams", "grep"):
        outcome = outcomes(dataset, "own")[ranker]
        assert (outcome["recallAt1"], outcome["recallAt3Alone"]) == (1.0, 0.0), ranker


def test_what_was_just_said_takes_nobodys_place_among_all_users_memories() -> None:
    turns = (*chat("a", "我喜欢吃披萨"), *chat("b", "周末和阿黄去登山"))
    asked = with_other_talk(Dataset("two", turns, (question("a", "a0"),)), 1, 1)
    for ranker in ("search", "bm25 words"):
        assert outcomes(asked, "all")[ranker]["recallAt1"] == 1.0, ranker

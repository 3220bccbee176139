"""The simulated year, in a reduced form: what is told, and what reinforcement and clean-up do to recall."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest
from bench.quality.evaluation import SAMPLE, Dataset, Question, Turn, Unit, load_dataset
from bench.quality.year import EXCHANGES_A_DAY, IDEAL, Life, Plan, Year, plan_year

from memory_server.config import Settings
from memory_server.config.recall import parameters
from memory_server.conversations.recall.parameters import Parameters
from memory_server.kernel.times import DAY_MS, MINUTE_MS

START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
ORIGINAL = parameters(Settings(timezone="UTC", compat="node"))


@pytest.fixture(scope="module")
def sample() -> Dataset:
    return load_dataset([SAMPLE / "zh.jsonl"])


def chats(*sizes: int) -> Dataset:
    """Chats `a`, `b` … of one-turn exchanges an hour and more apart; the first turn of each answers a question."""
    turns: list[Turn] = []
    questions: list[Question] = []
    for name, size in zip("abcdef", sizes, strict=False):
        for number in range(size):
            time_ms = START_MS + number * DAY_MS
            turns.append(
                Turn(f"{name}{number}", name, "user", f"{name} 说了第 {number} 件事", time_ms)
            )
        asked_ms = START_MS + size * DAY_MS
        questions.append(
            Question(f"q{name}", name, f"{name} 第 0 件", frozenset({f"{name}0"}), asked_ms, "zh")
        )
    return Dataset("made", tuple(turns), tuple(questions))


def told_units(plan: Plan) -> list[Unit]:
    return list(chain.from_iterable(plan.days))


def planned(dataset: Dataset, days: int, seed: int = 1) -> Plan:
    return plan_year(dataset, before=2, seed=seed, days=days)


async def lived(dataset: Dataset, days: int, **recall: float) -> Year:
    # The constants are those of the Node original, so that what a year does to them is known.
    return await lived_with(
        replace(ORIGINAL, recall=replace(ORIGINAL.recall, **recall)), planned(dataset, days)
    )


async def lived_with(parameters: Parameters, plan: Plan) -> Year:
    life = Life(plan, before=2, parameters=parameters, seed=1)
    for day in plan.days:
        await life.day(day)
    return await life.end()


def right(year: Year, name: str = "search", figure: str = "recallAt3Alone") -> float:
    return year.at_the_end[name].figures[figure].value


def test_ten_exchanges_are_told_each_day_in_two_sittings() -> None:
    plan = planned(chats(30, 30), 3)
    assert [len(day) for day in plan.days] == [EXCHANGES_A_DAY] * 3
    minutes = [(unit.time_ms - START_MS) // MINUTE_MS for unit in plan.days[0]]
    assert minutes == [9 * 60 + 5 * n for n in range(5)] + [20 * 60 + 5 * n for n in range(5)]
    for number, day in enumerate(plan.days):
        assert {unit.time_ms // DAY_MS - START_MS // DAY_MS for unit in day} == {number}


def test_chats_are_told_whole_and_those_with_questions_first() -> None:
    dataset = chats(12, 12, 12, 12)
    only = replace(dataset, questions=dataset.questions[2:3])
    for seed in range(5):
        plan = planned(only, 2, seed)
        names = [unit.conversation_id for unit in told_units(plan)]
        assert "c" in names
        assert [question.id for question in plan.questions] == ["qc"]
        assert names == sorted(names, key=list(dict.fromkeys(names)).index)
        for name in set(names):
            places = [int(unit.id[1:]) for unit in told_units(plan) if unit.conversation_id == name]
            assert places == list(range(len(places)))


def test_too_few_exchanges_are_told_again_on_other_days_and_counted() -> None:
    plan = planned(chats(4), 1)
    ids = [unit.id for unit in told_units(plan)]
    assert ids[: len(set(ids))] == list(dict.fromkeys(ids))
    assert plan.repeated == EXCHANGES_A_DAY - len(set(ids)) == 7
    assert planned(chats(30), 1).repeated == 0


def test_what_is_talked_about_before_a_question_is_never_told() -> None:
    for dataset in (chats(10, 10, 10), chats(20), chats(4, 4)):
        plan = planned(dataset, 1)
        told_turns = chain.from_iterable(unit.turns for unit in told_units(plan))
        told_texts = {turn.content for turn in told_turns}
        assert plan.talk
        assert not told_texts & {turn.content for turn in chain.from_iterable(plan.talk)}
        turns_before = chain.from_iterable(question.before for question in plan.questions)
        assert not told_texts & {turn.content for turn in turns_before}
        assert all(question.before for question in plan.questions)


def test_a_question_whose_answer_is_not_told_is_not_asked() -> None:
    dataset = chats(25)
    late = replace(dataset.questions[0], id="late", gold=frozenset({"a24"}))
    plan = planned(replace(dataset, questions=(*dataset.questions, late)), 1)
    assert [question.id for question in plan.questions] == ["qa"]


@pytest.mark.anyio
async def test_where_nothing_is_reinforced_or_forgotten_nothing_is_lost(sample: Dataset) -> None:
    year = await lived(sample, 12, top_reinforcement=0.0, next_reinforcement=0.0)
    assert (year.days, year.exchanges, year.kept) == (12, 120, 120)
    assert year.at_the_end["search"].questions > 50
    difference = year.at_the_end[IDEAL].figures["recallAt3ToSearch"]
    assert (difference.low, difference.value, difference.high) == (0.0, 0.0, 0.0)
    assert right(year) == right(year, IDEAL) > 0.2
    assert right(year, figure="recallAt3") != right(year)


@pytest.mark.anyio
async def test_reinforcement_brings_what_shares_no_word_and_the_same_again_and_again(
    sample: Dataset,
) -> None:
    usual = await lived(sample, 25)
    never = await lived(sample, 25, top_reinforcement=0.0, next_reinforcement=0.0)
    assert never.without_shared_word == 0.0
    assert usual.without_shared_word > 0.1
    assert usual.most_recalled > never.most_recalled
    assert right(usual) < 0.9 * right(usual, IDEAL)


@pytest.mark.anyio
async def test_the_nights_forget_as_the_server_does(sample: Dataset) -> None:
    few = replace(ORIGINAL, retention=replace(ORIGINAL.retention, always_kept=20))
    year = await lived_with(few, planned(sample, 12))
    # What failed is forgotten; what was told in the last two days, or recalled, is not.
    assert 20 <= year.kept < 60
    assert right(year) < right(year, IDEAL)


@pytest.mark.anyio
async def test_the_same_seed_gives_the_same_year(sample: Dataset) -> None:
    assert await lived(sample, 5) == await lived(sample, 5)

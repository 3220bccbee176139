"""The rankers: the server's is that of a running server, and each baseline does what its name says."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from bench.quality.evaluation import SAMPLE, Dataset, Question, Turn, Unit, load_dataset, units_of
from bench.quality.metrics import Asked, Scope, ask_all, clusters, scores_by
from bench.quality.rankers import DEPTH, bigrams, makers, words
from bench.quality.subsets import sessions_of
from sample_memories import DAY, MINUTE, NOW

from memory_server import Message, open_memory
from memory_server.config import Settings
from memory_server.config.recall import parameters
from memory_server.kernel.times import iso

PARAMETERS = parameters(Settings(timezone="UTC"))


def unit(name: str, text: str, *, age: int = DAY, conversation_id: str = "小明") -> Unit:
    return Unit((Turn(name, conversation_id, "user", text, NOW - age),))


def question(text: str, *, conversation_id: str = "小明", gold: tuple[str, ...] = ()) -> Question:
    return Question(f"q {text}", conversation_id, text, frozenset(gold), NOW, "zh")


def ids_given_by(ranker: str, units: list[Unit], text: str) -> list[str]:
    """The ids of what a ranker finds, best first; of equally good ones the newest first."""
    ids: list[str] = []
    for tier in makers({"search": PARAMETERS})[ranker](units).given(question(text)):
        ids.extend(unit.id for unit in sorted(tier, key=lambda unit: -unit.time_ms))
    return ids


@pytest.mark.anyio
async def test_search_gives_what_a_running_server_gives_in_the_same_order(tmp_path: Path) -> None:
    dataset = load_dataset([SAMPLE / "zh.jsonl"])
    now_ms = max(question.asked_ms for question in dataset.questions)
    compared = 0
    settings = Settings(data_dir=tmp_path, now=iso(now_ms), seed=1)
    async with open_memory(settings=settings) as memory:
        for name in ("陈屿", "阿蛮", "沈砚"):
            units = [unit for unit in units_of(dataset.turns) if unit.conversation_id == name]
            chat = memory.conversation(name)
            for unit in units:
                await chat.short_term.add(
                    [
                        Message(turn.role, turn.content, turn.time_ms, turn.name)
                        for turn in unit.turns
                    ]
                )
            given_by = makers({"search": PARAMETERS})["search"](units).given
            questions = [
                replace(question, asked_ms=now_ms)
                for question in dataset.questions
                if question.conversation_id == name
            ]
            # The first that finds three: a second search would see the scores that the first one raised.
            chosen = next(question for question in questions if len(given_by(question)) >= 3)
            recall = (await chat.short_term.search([Message("user", chosen.text)])).recall
            given_times = [recalled.memory.time_ms for recalled in (*recall.top, *recall.next)]
            # The ranker has more places, so it keeps a fourth and a fifth that a server leaves out
            # because they are far below the best (`nearly_best_further`).
            assert 3 <= len(given_times) <= 5
            of_ranker = [unit.time_ms for (unit,) in given_by(chosen)]
            assert given_times == of_ranker[: len(given_times)]
            compared += len(given_times)
    assert compared >= 9


def test_search_keeps_the_time_rules() -> None:
    units = [
        unit("best", "披萨披萨", age=DAY),
        unit("same moment", "我们去吃披萨和可乐", age=DAY + MINUTE),
        unit("third", "我们又吃披萨和很多可乐", age=DAY + 2 * MINUTE),
        unit("fourth", "后来我们又吃了披萨和很多别的东西", age=DAY + 3 * MINUTE),
        unit("too recent", "披萨", age=MINUTE),
        unit("of another", "披萨", age=MINUTE, conversation_id="小红"),
    ]
    assert set(ids_given_by("search", units, "披萨")) == {
        "best",
        "same moment",
        "third",
        "of another",
    }


def test_the_search_is_measured_with_each_of_several_settings() -> None:
    units = [unit("a", "我喜欢吃披萨")]
    strict = replace(PARAMETERS, recall=replace(PARAMETERS.recall, least_match=10_000.0))
    rankers = makers({"search": PARAMETERS, "strict": strict})
    asked = question("吃披萨吗")
    assert len(rankers["search"](units).given(asked)) == 1
    assert len(rankers["strict"](units).given(asked)) == 0


def test_search_fills_more_places_than_the_three_of_the_server() -> None:
    units = [unit(f"{number:02}", "披萨", age=number * DAY) for number in range(1, 13)]
    assert ids_given_by("search", units, "披萨") == [
        f"{number:02}" for number in range(1, DEPTH + 1)
    ]


def test_what_stays_below_the_threshold_is_not_given() -> None:
    units = [unit("a", "我喜欢吃披萨")]
    for ranker in ("search", "grep", "bm25 same words", "bm25 words", "bm25 bigrams"):
        assert ids_given_by(ranker, units, "吃披萨吗") == ["a"], ranker
        assert ids_given_by(ranker, units, "周末登山") == [], ranker


def test_grep_counts_words_of_the_question() -> None:
    units = [
        unit("old", "今天吃了披萨", age=3 * DAY),
        unit("new", "昨天吃了披萨", age=2 * DAY),
        unit("both", "披萨配可乐", age=9 * DAY),
    ]
    assert ids_given_by("grep", units, "披萨还是可乐？") == ["both", "new", "old"]


def test_what_is_equally_good_stands_together() -> None:
    units = [
        unit("a", "今天吃了披萨", age=3 * DAY),
        unit("b", "昨天吃了披萨"),
        unit("c", "披萨配可乐"),
        unit("d", "登山"),
    ]
    ranking = makers({"search": PARAMETERS})["grep"](units).given(question("披萨还是可乐？"))
    first, second = ranking
    assert [unit.id for unit in first] == ["c"]
    assert {unit.id for unit in second} == {"a", "b"}


def test_last_and_random_ask_nothing() -> None:
    units = [unit(f"{number:02}", "披萨", age=number * DAY) for number in range(1, 13)]
    assert ids_given_by("last", units, "？") == [f"{number:02}" for number in range(1, DEPTH + 1)]
    (anything,) = makers({"search": PARAMETERS})["random"](units).given(question("？"))
    assert len(anything) == 12


def test_bm25_can_have_the_words_that_the_server_finds() -> None:
    units = [unit("a", "我装了ＧＰＴ４"), unit("b", "周末登山")]

    def ids(compat: str) -> list[str]:
        search = parameters(Settings.model_validate({"timezone": "UTC", "compat": compat}))
        ranking = makers({"search": search})["bm25 same words"](units).given(question("gpt4好用吗"))
        return [unit.id for unit in chain.from_iterable(ranking)]

    assert ids("node") == []
    assert ids("none") == ["a"]


def test_a_session_stands_where_its_best_memory_does_whatever_the_threshold() -> None:
    turns = [
        Turn("a1", "小明", "user", "我喜欢吃披萨", NOW - 3 * DAY),
        Turn("a2", "小明", "assistant", "披萨配可乐", NOW - 3 * DAY + MINUTE),
        Turn("a3", "小明", "user", "周末去登山", NOW - 3 * DAY + 2 * MINUTE),
        Turn("b1", "小明", "user", "我喝了可乐", NOW - 2 * DAY),
        Turn("c1", "小明", "user", "猫又胖了", NOW - DAY),
    ]
    sessions = sessions_of(turns)
    assert [len(session.turns) for session in sessions] == [3, 1, 1]
    assert [session.id for session in sessions] == ["a1", "b1", "c1"]
    strict = replace(PARAMETERS, recall=replace(PARAMETERS.recall, threshold=10_000.0))
    rankers = makers({"search": strict}, sessions=True)
    for name, text, order in (
        ("search", "披萨", ["a1"]),
        ("search", "可乐", ["b1", "a1"]),
        ("bm25 same words", "可乐", ["b1", "a1"]),
        ("bm25 words", "登山", ["a1"]),
    ):
        ranking = rankers[name](sessions).given(question(text))
        assert [session.id for (session,) in ranking] == order, (name, text)


def test_words_and_bigrams() -> None:
    assert words("我喜欢 Pizza，真的！") == ["我", "喜欢", "pizza", "真的"]
    assert bigrams("吃披萨，好") == ["吃披", "披萨", "好"]


def asked(dataset: Dataset, scope: Scope = "own") -> list[Asked]:
    rankers = {"search": makers({"search": PARAMETERS})["search"]}
    return list(ask_all(dataset.questions, units_of(dataset.turns), scope=scope, rankers=rankers))


def test_a_question_is_asked_of_its_own_user_or_of_all() -> None:
    turns = (
        Turn("a", "小明", "user", "我喜欢披萨", NOW - 2 * DAY),
        Turn("b", "小红", "user", "披萨披萨", NOW - DAY),
    )
    dataset = Dataset(
        "two", turns, (question("披萨", gold=("a",)), question("可乐", conversation_id="小红"))
    )
    at_1 = {}
    for scope in ("own", "all"):
        (_, of_first), (_, of_second) = asked(dataset, scope)
        assert (of_first["search"]["speaking"], of_first["search"]["recallAt3"]) == (1.0, 1.0)
        assert of_second["search"] == {"silent": 1.0}
        at_1[scope] = of_first["search"]["recallAt1"]
    assert at_1 == {"own": 1.0, "all": 0.0}


def test_a_question_with_two_right_turns_has_half_of_its_evidence_by_one() -> None:
    turns = (
        Turn("a", "小明", "user", "我喜欢披萨", NOW - 2 * DAY),
        Turn("b", "小明", "user", "猫又胖了", NOW - DAY),
    )
    ((_, outcomes),) = asked(Dataset("one", turns, (question("披萨", gold=("a", "b")),)))
    outcome = outcomes["search"]
    assert (outcome["recallAt1"], outcome["evidenceAt5"]) == (1.0, 0.5)
    assert 0.5 < outcome["ndcgAt5"] < 1.0


def test_questions_are_grouped_where_their_languages_differ() -> None:
    turns = (Turn("a", "小明", "user", "我喜欢披萨", NOW - DAY),)
    both = (
        question("披萨", gold=("a",)),
        replace(question("披薩", gold=("a",)), language="zh-Hant"),
    )

    def groups(*questions: Question) -> dict[str, float]:
        scores = scores_by(asked(Dataset("one", turns, questions)), "language", 1)
        return {
            group: figures["search"].figures["recallAt1"].value for group, figures in scores.items()
        }

    assert groups(both[0]) == {"all": 1.0}
    assert set(groups(*both)) == {"all", "zh", "zh-Hant"}


def test_the_same_question_in_two_scripts_is_one_base_question_and_another_question_is_not() -> (
    None
):
    simplified = question("披萨", gold=("a",))
    traditional = replace(question("披薩", gold=("a",)), language="zh-Hant")
    unanswerable = [question("可乐"), question("猫")]
    first, second, *others = clusters([simplified, traditional, *unanswerable])
    assert first == second
    assert len({first, *others}) == 3

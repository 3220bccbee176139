"""The rankers: the server's is that of a running server, and each baseline does what its name says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sample_memories import DAY, MINUTE, NOW

from memory_server import Message, open_memory
from memory_server.app import parameters
from memory_server.commands.demo import samples
from memory_server.config import Settings
from memory_server.evaluation.dataset import Dataset, Question, Turn
from memory_server.evaluation.loading import load_dataset
from memory_server.evaluation.measure import ask_all, scores_by
from memory_server.evaluation.rankers import DEPTH, bigrams, makers, words
from memory_server.evaluation.units import Unit, units_of
from memory_server.times import iso

PARAMETERS = parameters(Settings(timezone="UTC"))


def unit(name: str, text: str, *, age: int = DAY, conversation_id: str = "小明") -> Unit:
    return Unit((Turn(name, conversation_id, "user", text, NOW - age),))


def question(text: str, *, conversation_id: str = "小明", gold: tuple[str, ...] = ()) -> Question:
    return Question(f"q {text}", conversation_id, text, frozenset(gold), NOW, "zh")


def found(ranker: str, units: list[Unit], text: str) -> list[str]:
    return [unit.id for unit in makers(PARAMETERS, Random(1))[ranker](units)(question(text))]


@pytest.mark.anyio
async def test_search_gives_what_a_running_server_gives_in_the_same_order(tmp_path: Path) -> None:
    dataset = load_dataset([samples() / "recall" / "zh.jsonl"])
    now_ms = max(question.asked_ms for question in dataset.questions)
    compared = 0
    settings = Settings(data_dir=tmp_path, now=iso(now_ms), seed=1)
    async with open_memory(settings=settings) as memory:
        for name in ("陈屿", "阿蛮", "沈砚"):
            units = [unit for unit in units_of(dataset.turns, "exchange") if unit.conversation_id == name]
            chat = memory.conversation(name)
            for unit in units:
                await chat.short_term.add(
                    [Message(turn.role, turn.content, turn.time_ms, turn.name) for turn in unit.turns]
                )
            ranker = makers(PARAMETERS, Random(1))["search"](units)
            asked = [q for q in dataset.questions if q.conversation_id == name]
            # The first that finds three: a second search would see the scores that the first one raised.
            chosen = next(replace(q, asked_ms=now_ms) for q in asked if len(ranker(q)) >= 3)
            recall = (await chat.short_term.search([Message("user", chosen.text)])).recall
            given = [recalled.memory.time_ms for recalled in (*recall.top, *recall.next)]
            assert given == [unit.time_ms for unit in ranker(chosen)[:3]]
            compared += len(given)
    assert compared == 9


def test_search_keeps_the_time_rules_and_formula_does_not() -> None:
    units = [
        unit("best", "披萨披萨披萨", age=DAY),
        unit("same moment", "我们去吃披萨和可乐", age=DAY + MINUTE),
        unit("too recent", "披萨", age=MINUTE),
        unit("of another", "披萨", age=MINUTE, conversation_id="小红"),
    ]
    assert set(found("search", units, "披萨")) == {"best", "of another"}
    assert set(found("formula", units, "披萨")) == {"best", "same moment", "too recent", "of another"}


def test_search_fills_more_places_than_the_three_of_the_server() -> None:
    units = [unit(f"{number:02}", "披萨", age=number * DAY) for number in range(1, 13)]
    assert found("search", units, "披萨") == [f"{number:02}" for number in range(1, DEPTH + 1)]


def test_what_stays_below_the_threshold_is_not_given() -> None:
    units = [unit("a", "我喜欢吃披萨")]
    for ranker in ("search", "formula", "grep", "bm25 words", "bm25 bigrams"):
        assert found(ranker, units, "吃披萨吗") == ["a"], ranker
        assert found(ranker, units, "周末登山") == [], ranker


def test_grep_counts_words_of_the_question_and_prefers_the_newest() -> None:
    units = [
        unit("old", "今天吃了披萨", age=3 * DAY),
        unit("new", "昨天吃了披萨", age=2 * DAY),
        unit("both", "披萨配可乐", age=9 * DAY),
    ]
    assert found("grep", units, "披萨还是可乐？") == ["both", "new", "old"]


def test_last_and_random_ask_nothing() -> None:
    units = [unit(f"{number:02}", "披萨", age=number * DAY) for number in range(1, 13)]
    assert found("last", units, "？") == [f"{number:02}" for number in range(1, DEPTH + 1)]
    drawn = found("random", units, "？")
    assert len(set(drawn)) == DEPTH
    assert drawn == found("random", units, "！")


def test_words_and_bigrams() -> None:
    assert words("我喜欢 Pizza，真的！") == ["我", "喜欢", "pizza", "真的"]
    assert bigrams("吃披萨，好") == ["吃披", "披萨", "好"]


def test_a_question_is_asked_of_its_own_user_or_of_all() -> None:
    turns = (
        Turn("a", "小明", "user", "我喜欢披萨", NOW - 2 * DAY),
        Turn("b", "小红", "user", "披萨披萨", NOW - DAY),
    )
    dataset = Dataset("two", turns, (question("披萨", gold=("a",)), question("可乐", conversation_id="小红")))
    ranks = {}
    for scope in ("own", "all"):
        asked = list(
            ask_all(
                dataset,
                scope=scope,
                grain="turn",
                rankers={"search": makers(PARAMETERS, Random(1))["search"]},
                timer_ns=iter(range(0, 1000, 5)).__next__,
            )
        )
        assert [one.outcomes["search"].nanoseconds for one in asked] == [5, 5]
        assert [one.outcomes["search"].answered for one in asked] == [True, False]
        ranks[scope] = asked[0].outcomes["search"].rank
    assert ranks == {"own": 1, "all": 2}


def test_questions_are_grouped_where_their_languages_differ() -> None:
    turns = (Turn("a", "小明", "user", "我喜欢披萨", NOW - DAY),)
    both = (question("披萨", gold=("a",)), replace(question("披薩", gold=("a",)), language="zh-Hant"))

    def groups(*questions: Question) -> dict[str, float]:
        asking = ask_all(
            Dataset("one", turns, questions),
            scope="own",
            grain="turn",
            rankers={"search": makers(PARAMETERS, Random(1))["search"]},
            timer_ns=lambda: 0,
        )
        scores = scores_by(list(asking), "language", Random(1))
        return {group: figures["search"].recall_1.value for group, figures in scores.items()}

    assert groups(both[0]) == {"all": 1.0}
    assert set(groups(*both)) == {"all", "zh", "zh-Hant"}

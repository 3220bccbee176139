"""Blocks of memories: what comes counts whole, homes have the size that is asked for, and strangers get nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.quality.blocks import OWN, Block, Home, blocks_of, homes_of, precision_of
from bench.quality.evaluation import Dataset, Question, Turn, Unit, remembered
from bench.quality.silence import with_elsewhere
from sample_memories import DAY, MINUTE, NOW

from memory_server.config import Settings
from memory_server.config.recall import parameters

PARAMETERS = parameters(Settings(timezone="UTC"))


def unit(name: str, text: str, *, conversation_id: str = "Maya", age: int = 9 * DAY) -> Unit:
    return Unit((Turn(name, conversation_id, "user", text, NOW - age),))


def question(name: str, text: str, *gold: str, conversation_id: str = "Maya") -> Question:
    return Question(name, conversation_id, text, frozenset(gold), NOW, "en")


def value(estimate: object) -> float:
    assert estimate is not None
    return estimate.value  # type: ignore[attr-defined]


UNITS = [unit(f"a{n}", f"boat number{n}", age=n * DAY) for n in range(1, 9)]
UNITS += [unit(f"b{n}", f"tea number{n}", conversation_id="Tom") for n in range(4)]
QUESTIONS = [question("q1", "boat?", "a3"), question("q2", "boat?", "a5")]


def test_a_home_is_filled_with_memories_of_other_conversations_for_all_of_its_questions() -> None:
    (home,) = homes_of(QUESTIONS, UNITS, 10, seed=1)
    names = [unit.id for unit in home.units]
    assert names[:8] == [f"a{n}" for n in range(1, 9)]
    assert len(set(names)) == 10
    assert list(home.questions) == QUESTIONS
    assert list(homes_of(QUESTIONS, UNITS, 10, seed=1)) == [home]
    (own,) = homes_of(QUESTIONS, UNITS, None, seed=1)
    assert [unit.id for unit in own.units] == names[:8]
    (largest,) = homes_of(QUESTIONS, UNITS, 3_000, seed=1)
    assert len(largest.units) == len(UNITS)


def test_a_small_home_holds_what_answers_its_question() -> None:
    homes = list(homes_of(QUESTIONS, UNITS, 3, seed=1))
    assert [[asked.id for asked in home.questions] for home in homes] == [["q1"], ["q2"]]
    for home, needed in zip(homes, ("a3", "a5"), strict=True):
        names = [unit.id for unit in home.units]
        assert len(names) == 3
        assert needed in names
        assert names == sorted(names)


def test_every_memory_of_a_block_counts_and_strangers_are_counted_apart() -> None:
    asked = [question(f"q{n}", "?", "a1") for n in range(4)]
    blocks = [
        Block(asked[0], OWN, (True, False, False, False)),
        Block(asked[1], OWN, (False, False, True)),
        Block(asked[2], OWN, ()),
        Block(asked[3], OWN, (False,)),
        Block(asked[0], "small talk", ()),
        Block(asked[1], "small talk", (False,)),
    ]
    precision = precision_of(blocks, seed=1)
    assert precision.questions == 4
    assert value(precision.recall_at_1) == 0.25
    assert value(precision.recall_at_3) == 0.5
    assert value(precision.precision) == 2 / 8
    assert value(precision.came) == 2.0
    assert {kind: value(silent) for kind, silent in precision.silent.items()} == {"small talk": 0.5}


def test_precision_of_nothing_that_came_is_not_known() -> None:
    precision = precision_of([Block(question("q", "?", "a1"), OWN, ())], seed=1)
    assert precision.precision is None


def test_each_face_of_a_search_gives_what_the_server_gives() -> None:
    units = [
        unit("heron", "The heron stood beside the old bridge"),
        unit("boat", "Our boat has a leak", age=8 * DAY),
    ]
    units += [unit(f"m{n}", f"other talk number{n}", age=(n + 10) * DAY) for n in range(300)]
    asked = question("q1", "Where did the heron stand?", "heron")
    strangers = {"q1": {"small talk": replace(asked, id="s", text="Good night.", gold=frozenset())}}

    def remember(unit: Unit) -> object:
        return remembered(PARAMETERS.wording, unit)

    blocks = blocks_of(Home(units, [asked]), strangers, PARAMETERS, remember)  # type: ignore[arg-type]
    assert list(blocks) == ["unasked", "asked for", "hook"]
    for of_face in blocks.values():
        own, small_talk = of_face
        assert (own.kind, own.right) == (OWN, (True,))
        assert (small_talk.kind, small_talk.right) == ("small talk", ())


def test_an_answer_that_is_shown_beside_its_question_counts() -> None:
    units = [
        unit("asks", "Which bridge has the heron?", age=9 * DAY),
        unit("answers", "It is the iron one", age=9 * DAY - MINUTE),
    ]
    units += [unit(f"m{n}", f"other talk number{n}", age=(n + 10) * DAY) for n in range(300)]
    asked = question("q1", "Where is the heron?", "answers")
    blocks = blocks_of(
        Home(units, [asked]),
        {"q1": {}},
        PARAMETERS,
        lambda unit: remembered(PARAMETERS.wording, unit),
    )
    assert [block.right for block in blocks["unasked"]] == [(False, True)]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_stranger_from_elsewhere_is_a_question_of_that_data_set(seed: int) -> None:
    elsewhere = Dataset("pets.jsonl", (), (question("p", "Is the dog fed?", "x"),))
    kinds = with_elsewhere({"small talk": QUESTIONS[0]}, QUESTIONS[1], [elsewhere], seed)
    assert list(kinds) == ["small talk", "pets.jsonl"]
    stranger = kinds["pets.jsonl"]
    assert (stranger.text, stranger.conversation_id) == ("Is the dog fed?", "Maya")
    assert not stranger.answerable

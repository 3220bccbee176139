"""Reading data sets: the plain form, and one sentence for what cannot be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.quality.evaluation import Dataset, Turn, Unit, load_dataset, units_of
from bench.quality.subsets import by_evidence, half_of, of_users, sessions_of

from memory_server.kernel.errors import InvalidInput

TURN = {
    "turn": "t1",
    "conversation": "小明",
    "role": "user",
    "content": "我养了一只猫",
    "time": "2026-03-01T20:00:00+08:00",
}
QUESTION = {
    "question": "q1",
    "conversation": "小明",
    "text": "我养了什么？",
    "gold": ["t1"],
    "asked": "2026-04-01T20:00:00+08:00",
    "language": "zh",
}


def turn_ids(unit: Unit) -> list[str]:
    return [turn.id for turn in unit.turns]


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Dataset]:
    """`load(*records)`: the data set of these JSON lines."""

    def load(*records: Any) -> Dataset:
        text = "\n".join(json.dumps(record, ensure_ascii=False) for record in records)
        (tmp_path / "set.jsonl").write_text(text, encoding="utf-8")
        return load_dataset([tmp_path / "set.jsonl"])

    return load


def test_the_plain_form_gives_turns_and_questions(load: Callable[..., Dataset]) -> None:
    dataset = load(TURN, QUESTION, QUESTION | {"question": "q2", "gold": []})
    (turn,) = dataset.turns
    assert turn == Turn("t1", "小明", "user", "我养了一只猫", 1_772_366_400_000)
    assert [question.answerable for question in dataset.questions] == [True, False]
    assert dataset.questions[0].gold == {"t1"}


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([TURN], "holds no questions"),
        ([TURN, TURN, QUESTION], "turn id `t1` is there twice"),
        ([TURN, QUESTION, QUESTION], "question id `q1` is there twice"),
        ([TURN, QUESTION | {"gold": ["t2"]}], "names the turn `t2`, which is not there"),
        ([TURN, QUESTION | {"gold": [], "conversation": "小红"}], "`小红`, which has no turns"),
        (
            [TURN, QUESTION | {"asked": "2026-02-28T20:00:00+08:00"}],
            "`q1` is asked before its answer was said",
        ),
        ([TURN | {"time": "2026-03-01T20:00:00"}, QUESTION], "line 1: `time`"),
        ([TURN, {key: QUESTION[key] for key in QUESTION if key != "gold"}], "line 2: `gold`"),
        ([TURN, QUESTION | {"golds": ["t1"]}], "line 2: `golds`"),
        ([TURN | {"role": "narrator"}, QUESTION], "line 1: `role`"),
        ([[1], QUESTION], "line 1: `the line`"),
    ],
)
def test_a_data_set_that_does_not_fit_together_is_refused(
    load: Callable[..., Dataset], records: list[Any], sentence: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        load(*records)
    assert sentence in str(refused.value)
    assert str(refused.value).endswith(".")


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "set.jsonl").write_text(json.dumps(TURN) + "\n\nnonsense\n")
    with pytest.raises(InvalidInput, match=r"set\.jsonl, line 3 is not JSON"):
        load_dataset([tmp_path / "set.jsonl"])


def test_chats_that_went_on_side_by_side_are_sorted_out(load: Callable[..., Dataset]) -> None:
    def turn(name: str, conversation: str, minute: int, role: str = "user") -> dict[str, str]:
        return TURN | {
            "turn": name,
            "conversation": conversation,
            "role": role,
            "time": f"2026-03-01T20:{minute:02}:00+08:00",
        }

    dataset = load(
        turn("b1", "小红", 1),
        turn("t1", "小明", 2),
        turn("b0", "小红", 0),
        turn("t2", "小明", 3, "assistant"),
        QUESTION,
    )
    cut = list(map(turn_ids, units_of(dataset.turns)))
    assert cut == [["b0", "b1"], ["t1", "t2"]]


def test_the_files_of_a_folder_are_one_data_set(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(json.dumps(TURN), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(json.dumps(QUESTION), encoding="utf-8")
    dataset = load_dataset([tmp_path])
    assert (len(dataset.turns), len(dataset.questions)) == (1, 1)


def test_by_evidence_a_question_without_an_answer_is_right_with_what_it_is_about(
    load: Callable[..., Dataset],
) -> None:
    no_answer = QUESTION | {"question": "q2", "gold": []}
    dataset = by_evidence(
        load(TURN, QUESTION, no_answer, no_answer | {"question": "q3", "about": ["t1"]})
    )
    assert [(question.id, sorted(question.gold)) for question in dataset.questions] == [
        ("q1", ["t1"]),
        ("q3", ["t1"]),
    ]


def test_a_subset_has_the_same_turns_and_some_of_the_questions(
    load: Callable[..., Dataset],
) -> None:
    questions = [QUESTION | {"question": f"q{number}"} for number in range(5)]
    turn_of_another = TURN | {"turn": "t2", "conversation": "小红"}
    dataset = load(
        TURN,
        turn_of_another,
        *questions,
        QUESTION | {"question": "q5", "conversation": "小红", "gold": ["t2"]},
    )
    ids: dict[str, list[str]] = {}
    for half in ("even", "odd"):
        ids[half] = [question.id for question in half_of(dataset, half).questions]
    assert ids == {"even": ["q0", "q2", "q4"], "odd": ["q1", "q3", "q5"]}
    assert [question.id for question in of_users(half_of(dataset, "odd"), ["小红"]).questions] == [
        "q5"
    ]
    assert len(of_users(dataset, ["小红", "小明"]).questions) == 6
    assert half_of(dataset, "even").turns == of_users(dataset, ["小红"]).turns == dataset.turns
    with pytest.raises(InvalidInput, match=r"no questions of `小白`; give one of 小明, 小红\."):
        of_users(dataset, ["小红", "小白"])
    with pytest.raises(InvalidInput, match="one question only"):
        half_of(load(TURN, QUESTION), "odd")


def test_an_exchange_ends_where_the_user_speaks_after_an_answer_or_after_a_pause() -> None:
    def turn(number: int, role: Any, minute: int, conversation_id: str = "a") -> Turn:
        return Turn(str(number), conversation_id, role, "…", minute * 60_000)

    turns = [
        turn(1, "user", 0),
        turn(2, "user", 1),
        turn(3, "assistant", 2),
        turn(4, "assistant", 3),
        turn(5, "user", 4),
        turn(6, "user", 70),
        turn(7, "assistant", 71, "b"),
    ]
    cut = list(map(turn_ids, units_of(turns)))
    assert cut == [["1", "2", "3", "4"], ["5"], ["6"], ["7"]]
    assert list(map(turn_ids, sessions_of(turns))) == [
        ["1", "2", "3", "4", "5"],
        ["6"],
        ["7"],
    ]
    for exchange in units_of(turns):
        assert units_of(exchange.turns) == (exchange,)

"""Reading data sets: the three forms on small ones, and one sentence for what cannot be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_server.core.errors import InvalidInput
from memory_server.core.times import iso
from memory_server.evaluation.dataset import Dataset, Turn, sessions_of, units_of
from memory_server.evaluation.loading import load_dataset, load_sentences

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
MEMORYBANK = {
    "users": {
        "刘琳": {
            "2023-04-28": [{"query": "我去爬山了", "response": "累吗？"}, {"query": "有点", "response": "早睡"}],
            "2023-04-27": [{"query": "你好", "response": "你好，刘琳"}],
        }
    },
    "questions": [{"user": "刘琳", "question": "我去爬山是哪天？", "gold_days": ["2023-04-28"]}],
}
LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bo",
            "session_2_date_time": "12:05 am on 3 June, 2023",
            "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a red kite"}],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I bought a kite."},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "Which colour?"},
            ],
        },
        "qa": [
            {"question": "What did Ann buy?", "answer": "a kite", "evidence": ["D1:1"], "category": 4},
            {"question": "Which colours?", "answer": "red", "evidence": ["D:1:02; D2:01"], "category": 1},
            {"question": "Does Bo fly?", "adversarial_answer": "yes", "evidence": ["D1:2"], "category": 5},
            {"question": "Is Ann happy?", "answer": "likely", "evidence": [], "category": 3},
        ],
    }
]

MEMDAILY = [
    {
        "tid": 7,
        "message_list": [
            {"mid": 0, "message": "我表妹是北京人。", "time": "2024年04月01日 周一 08:30", "place": "上海"},
            {"mid": 1, "message": "我表妹在上海上班。", "time": "2024年04月02日 周二 20:58", "place": "上海"},
        ],
        "question_list": [
            {"qid": 0, "question": "她是哪里人？", "target_step_id": [0], "time": "2024年04月04日 周四 07:42"},
            {"qid": 1, "question": "在哪上班？", "target_step_id": [0, 1], "time": "2024年04月02日 周二 20:00"},
        ],
    }
]


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Dataset]:
    """`load(*records)`: JSON lines; `load(value=…)`: one JSON value."""

    def load(*records: Any, value: Any = None, **options: Any) -> Dataset:
        name = "set.jsonl" if value is None else "set.json"
        text = "\n".join(json.dumps(record, ensure_ascii=False) for record in records)
        (tmp_path / name).write_text(text if value is None else json.dumps(value), encoding="utf-8")
        return load_dataset([tmp_path / name], **options)

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
        ([TURN, TURN, QUESTION], "turn id `t1` stands there twice"),
        ([TURN, QUESTION, QUESTION], "question id `q1` stands there twice"),
        ([TURN, QUESTION | {"gold": ["t2"]}], "names the turn `t2`, which is not there"),
        ([TURN, QUESTION | {"gold": [], "conversation": "小红"}], "`小红`, which has no turns"),
        ([TURN, QUESTION | {"asked": "2026-02-28T20:00:00+08:00"}], "`q1` is asked before its answer was said"),
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
    cut = [[turn.id for turn in unit.turns] for unit in units_of(dataset.turns, "exchange")]
    assert cut == [["b0", "b1"], ["t1", "t2"]]


def test_the_files_of_a_folder_are_one_data_set(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(json.dumps(TURN), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(json.dumps(QUESTION), encoding="utf-8")
    dataset = load_dataset([tmp_path])
    assert (len(dataset.turns), len(dataset.questions)) == (1, 1)


def test_memorybank_has_two_turns_an_exchange_and_days_as_gold(load: Callable[..., Dataset]) -> None:
    dataset = load(value=MEMORYBANK)
    assert [turn.content for turn in dataset.turns] == ["你好", "你好，刘琳", "我去爬山了", "累吗？", "有点", "早睡"]
    assert [unit.text for unit in units_of(dataset.turns, "exchange")] == [
        "你好\n你好，刘琳",
        "我去爬山了\n累吗？",
        "有点\n早睡",
    ]
    (question,) = dataset.questions
    assert question.gold == {turn.id for turn in dataset.turns[2:]}
    assert iso(question.asked_ms) == "2023-04-29T12:00:00.000Z"
    assert [iso(turn.time_ms)[:16] for turn in dataset.turns[2:5:2]] == ["2023-04-28T12:00", "2023-04-28T12:15"]


def test_locomo_has_evidence_as_gold_and_adversarial_questions_have_none(load: Callable[..., Dataset]) -> None:
    dataset = load(value=LOCOMO)
    assert [(turn.id, turn.role, iso(turn.time_ms)[:16]) for turn in dataset.turns] == [
        ("conv-1 D1:1", "user", "2023-05-08T13:56"),
        ("conv-1 D1:2", "assistant", "2023-05-08T13:56"),
        ("conv-1 D2:1", "user", "2023-06-03T00:05"),
    ]
    assert dataset.turns[2].content == "Look! (picture: a red kite)"
    assert [(question.kind, sorted(question.gold)) for question in dataset.questions] == [
        ("single-hop", ["conv-1 D1:1"]),
        ("multi-hop", ["conv-1 D1:2", "conv-1 D2:1"]),
        ("adversarial", []),
    ]
    assert dataset.skipped == 1


def test_a_turn_of_locomo_comes_when_the_one_before_was_read_and_it_was_typed(load: Callable[..., Dataset]) -> None:
    first, second, _ = load(value=LOCOMO).turns
    start_ms = 1_683_554_160_000  # 1:56 pm on 8 May, 2023
    typing_ms = 60_000 / 36.2
    assert first.time_ms - start_ms == pytest.approx(4 * typing_ms, abs=1)
    assert second.time_ms - first.time_ms == pytest.approx(4 * 60_000 / 238 + 2 * typing_ms, abs=1)


def test_by_evidence_a_question_without_an_answer_is_right_with_what_it_is_about(load: Callable[..., Dataset]) -> None:
    dataset = load(value=LOCOMO)
    about = [sorted(question.gold) for question in dataset.by_evidence().questions]
    assert about == [["conv-1 D1:1"], ["conv-1 D1:2", "conv-1 D2:1"], ["conv-1 D1:2"]]
    assert load(TURN, QUESTION, QUESTION | {"question": "q2", "gold": []}).by_evidence().questions[0].id == "q1"
    assert len(load(TURN, QUESTION, QUESTION | {"question": "q2", "gold": []}).by_evidence().questions) == 1


def test_small_talk_is_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("晚安\n\n  吃了吗  \r\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("Hello.", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n\n")
    assert load_sentences([tmp_path / "a.txt", tmp_path / "b.txt"]) == ["晚安", "吃了吗", "Hello."]
    with pytest.raises(InvalidInput, match=r"empty\.txt holds no sentences; write one a line\."):
        load_sentences([tmp_path / "empty.txt"])
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_sentences([tmp_path / "nowhere.txt"])


def test_a_dialogue_of_locomo_in_a_file_of_its_own_is_named_by_the_file(load: Callable[..., Dataset]) -> None:
    (dialogue,) = LOCOMO
    alone = load(value={**dialogue["conversation"], "qa": dialogue["qa"]})
    assert [turn.id for turn in alone.turns] == ["set D1:1", "set D1:2", "set D2:1"]
    assert [question.conversation_id for question in alone.questions] == ["set"] * 3
    assert alone.skipped == 1


def test_memdaily_has_a_conversation_for_each_trajectory(load: Callable[..., Dataset]) -> None:
    dataset = load(value=MEMDAILY)
    assert [(turn.id, turn.role, iso(turn.time_ms)[:16]) for turn in dataset.turns] == [
        ("set 7 0", "user", "2024-04-01T08:30"),
        ("set 7 1", "user", "2024-04-02T20:58"),
    ]
    assert [(question.id, sorted(question.gold)) for question in dataset.questions] == [
        ("set 7 q0", ["set 7 0"]),
        ("set 7 q1", ["set 7 0", "set 7 1"]),
    ]
    # The second is dated before the last message; it is asked an hour after it.
    assert [iso(question.asked_ms)[:16] for question in dataset.questions] == ["2024-04-04T07:42", "2024-04-02T21:58"]


@pytest.mark.parametrize(
    ("name", "kind"), [("05_post_processing_items.json", "post_processing"), ("my own.json", "my own")]
)
def test_the_kind_of_memdailys_questions_is_in_the_name_of_the_file(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_text(json.dumps(MEMDAILY), encoding="utf-8")
    assert {question.kind for question in load_dataset([tmp_path / name]).questions} == {kind}


def test_a_subset_has_the_same_turns_and_some_of_the_questions(load: Callable[..., Dataset]) -> None:
    asked = [QUESTION | {"question": f"q{number}"} for number in range(5)]
    other = TURN | {"turn": "t2", "conversation": "小红"}
    dataset = load(TURN, other, *asked, QUESTION | {"question": "q5", "conversation": "小红", "gold": ["t2"]})
    ids = {half: [question.id for question in dataset.half(half).questions] for half in ("even", "odd")}
    assert ids == {"even": ["q0", "q2", "q4"], "odd": ["q1", "q3", "q5"]}
    assert [question.id for question in dataset.half("odd").of_users(["小红"]).questions] == ["q5"]
    assert len(dataset.of_users(["小红", "小明"]).questions) == 6
    assert dataset.half("even").turns == dataset.of_users(["小红"]).turns == dataset.turns
    with pytest.raises(InvalidInput, match=r"no questions of `小白`; give one of 小明, 小红\."):
        dataset.of_users(["小红", "小白"])
    with pytest.raises(InvalidInput, match="one question only"):
        load(TURN, QUESTION).half("odd")


@pytest.mark.parametrize(
    ("value", "form", "sentence"),
    [
        (MEMORYBANK, "locomo", "is not of the form locomo"),
        (LOCOMO, "memorybank", "is not of the form memorybank"),
        (LOCOMO, "memdaily", "is not of the form memdaily"),
        ([MEMDAILY[0] | {"question_list": [{"time": "gestern"}]}], "auto", "form memdaily"),
        ({"users": {}, "questions": [{"user": "谁", "question": "?", "gold_days": []}]}, "auto", "form memorybank"),
    ],
)
def test_another_form_is_refused(load: Callable[..., Dataset], value: Any, form: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        load(value=value, form=form)


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
    cut = [[turn.id for turn in unit.turns] for unit in units_of(turns, "exchange")]
    assert cut == [["1", "2", "3", "4"], ["5"], ["6"], ["7"]]
    assert [unit.id for unit in units_of(turns, "turn")] == [turn.id for turn in turns]
    assert [[turn.id for turn in unit.turns] for unit in sessions_of(turns)] == [
        ["1", "2", "3", "4", "5"],
        ["6"],
        ["7"],
    ]
    for exchange in units_of(turns, "exchange"):
        assert units_of(exchange.turns, "exchange") == (exchange,)

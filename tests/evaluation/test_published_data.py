"""The converter of published data sets: each form on a small one, read back as a data set."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.published_data import convert
from bench.quality.evaluation import Dataset, load_dataset, units_of
from bench.quality.rankers import text_of
from bench.quality.subsets import by_evidence

from memory_server.kernel.times import iso

MEMORYBANK = {
    "users": {
        "刘琳": {
            "2023-04-28": [
                {"query": "我去爬山了", "response": "累吗？"},
                {"query": "有点", "response": "早睡"},
            ],
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
            "session_2": [
                {"speaker": "Ann", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a red kite"}
            ],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I bought a kite."},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "Which colour?"},
            ],
        },
        "qa": [
            {
                "question": "What did Ann buy?",
                "answer": "a kite",
                "evidence": ["D1:1"],
                "category": 4,
            },
            {
                "question": "Which colours?",
                "answer": "red",
                "evidence": ["D:1:02; D2:01"],
                "category": 1,
            },
            {
                "question": "Does Bo fly?",
                "adversarial_answer": "yes",
                "evidence": ["D1:2"],
                "category": 5,
            },
            {"question": "Is Ann happy?", "answer": "likely", "evidence": [], "category": 3},
        ],
    }
]


MEMDAILY = [
    {
        "tid": 7,
        "message_list": [
            {
                "mid": 0,
                "message": "我表妹是北京人。",
                "time": "2024年04月01日 周一 08:30",
                "place": "上海",
            },
            {
                "mid": 1,
                "message": "我表妹在上海上班。",
                "time": "2024年04月02日 周二 20:58",
                "place": "上海",
            },
        ],
        "question_list": [
            {
                "qid": 0,
                "question": "她是哪里人？",
                "target_step_id": [0],
                "time": "2024年04月04日 周四 07:42",
            },
            {
                "qid": 1,
                "question": "在哪上班？",
                "target_step_id": [0, 1],
                "time": "2024年04月02日 周二 20:00",
            },
        ],
    }
]


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Dataset]:
    """`load(form, value)`: the data set of a file with this JSON value, converted."""

    def load(form: str, value: Any, name: str = "set.json") -> Dataset:
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
        plain = tmp_path / "plain.jsonl"
        plain.write_text(
            "\n".join(map(json.dumps, convert(form, [tmp_path / name]))), encoding="utf-8"
        )
        return load_dataset([plain])

    return load


def test_memorybank_has_two_turns_an_exchange_and_days_as_gold(
    load: Callable[..., Dataset],
) -> None:
    dataset = load("memorybank", MEMORYBANK)
    assert [turn.content for turn in dataset.turns] == [
        "你好",
        "你好，刘琳",
        "我去爬山了",
        "累吗？",
        "有点",
        "早睡",
    ]
    assert [text_of(unit) for unit in units_of(dataset.turns)] == [
        "你好\n你好，刘琳",
        "我去爬山了\n累吗？",
        "有点\n早睡",
    ]
    (question,) = dataset.questions
    assert question.gold == {turn.id for turn in dataset.turns[2:]}
    assert iso(question.asked_ms) == "2023-04-29T12:00:00.000Z"
    assert [iso(turn.time_ms)[:16] for turn in dataset.turns[2:5:2]] == [
        "2023-04-28T12:00",
        "2023-04-28T12:15",
    ]


def test_locomo_has_evidence_as_gold_and_adversarial_questions_have_none(
    load: Callable[..., Dataset],
) -> None:
    dataset = load("locomo", LOCOMO)
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


def test_a_turn_of_locomo_comes_when_the_one_before_was_read_and_it_was_typed(
    load: Callable[..., Dataset],
) -> None:
    first, second, _ = load("locomo", LOCOMO).turns
    start_ms = 1_683_554_160_000  # 1:56 pm on 8 May, 2023
    typing_ms = 60_000 / 36.2
    assert first.time_ms - start_ms == pytest.approx(4 * typing_ms, abs=1)
    assert second.time_ms - first.time_ms == pytest.approx(4 * 60_000 / 238 + 2 * typing_ms, abs=1)


def test_by_evidence_an_adversarial_question_is_right_with_what_it_is_about(
    load: Callable[..., Dataset],
) -> None:
    about = [sorted(question.gold) for question in by_evidence(load("locomo", LOCOMO)).questions]
    assert about == [["conv-1 D1:1"], ["conv-1 D1:2", "conv-1 D2:1"], ["conv-1 D1:2"]]


def test_a_dialogue_of_locomo_in_a_file_of_its_own_is_named_by_the_file(
    load: Callable[..., Dataset],
) -> None:
    (dialogue,) = LOCOMO
    alone = load("locomo", {**dialogue["conversation"], "qa": dialogue["qa"]})
    assert [turn.id for turn in alone.turns] == ["set D1:1", "set D1:2", "set D2:1"]
    assert [question.conversation_id for question in alone.questions] == ["set"] * 3


def test_memdaily_has_a_conversation_for_each_trajectory(load: Callable[..., Dataset]) -> None:
    dataset = load("memdaily", MEMDAILY)
    assert [(turn.id, turn.role, iso(turn.time_ms)[:16]) for turn in dataset.turns] == [
        ("set 7 0", "user", "2024-04-01T08:30"),
        ("set 7 1", "user", "2024-04-02T20:58"),
    ]
    assert [(question.id, sorted(question.gold)) for question in dataset.questions] == [
        ("set 7 q0", ["set 7 0"]),
        ("set 7 q1", ["set 7 0", "set 7 1"]),
    ]
    # The second is dated before the last message; it is asked an hour after it.
    assert [iso(question.asked_ms)[:16] for question in dataset.questions] == [
        "2024-04-04T07:42",
        "2024-04-02T21:58",
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("05_post_processing_items.json", "post_processing"), ("my own.json", "my own")],
)
def test_the_kind_of_memdailys_questions_is_in_the_name_of_the_file(
    load: Callable[..., Dataset], name: str, kind: str
) -> None:
    assert {question.kind for question in load("memdaily", MEMDAILY, name).questions} == {kind}


def folder_of(root: Path, **files: Any) -> Path:
    """Write files as JSON; a list of a `.jsonl` name becomes lines. `__` in a name stands for `/`."""
    for name, value in files.items():
        path = root / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.startswith("MADial"):
            text = "\n\n".join(json.dumps(line, ensure_ascii=False) for line in value)
        else:
            text = json.dumps(value, ensure_ascii=False)
        path.write_text(text, encoding="utf-8")
    return root


def loaded(tmp_path: Path, form: str, folder: Path) -> Dataset:
    path = tmp_path / "converted.jsonl"
    lines = (json.dumps(line) for line in convert(form, [folder]))
    path.write_text("\n".join(lines), encoding="utf-8")
    return load_dataset([path])


@pytest.mark.parametrize(
    ("language", "field"), [("en", {}), ("zh", {"user-id": 1})], ids=["English", "Chinese"]
)
def test_madial_asks_with_the_last_message_before_the_answer(
    tmp_path: Path, language: str, field: dict[str, int]
) -> None:
    lisas = {"user-id": 2} if field else {}
    memories = [
        {"1": {"time": "2023-05-01", "event": "Bart flew a kite.", **field}},
        {"2": {"time": "2023-05-01", "event": "Lisa drew a fox.", **lisas}},
    ]
    lines = [
        "<BOD>\n",
        ' <Bart>:"Hello"\n',
        '<Assistant>: "Hi"\n',
        '<Bart>: "It is windy!"\n',
        '<Assistant>: "Your kite …"\n',
        "<EOD>\n",
    ]
    dialogue = {"dialogue": lines, "test-turn": [4], "relevant-id": [1, 2], "user-id": 1}
    other = {**dialogue, "relevant-id": [2]}
    files = {
        f"MADial-Bench-{language}-memory": memories,
        f"MADial-Bench-{language}-dialogue": [other, dialogue],
    }
    dataset = loaded(tmp_path, "madial", folder_of(tmp_path / "set", **files))
    assert [(turn.id, turn.conversation_id) for turn in dataset.turns] == [
        ("m1", "Bart"),
        ("m2", "Lisa"),
    ]
    # The first dialogue has no memory of Bart's, and keeps its number.
    (question,) = dataset.questions
    assert (question.id, question.text) == (f"madial_{language}_1/1", "It is windy!")
    assert (question.gold, question.language) == ({"m1"}, language)
    assert [(turn.role, turn.content) for turn in question.before] == [
        ("user", "Hello"),
        ("assistant", "Hi"),
    ]


def test_beam_dates_its_parts_and_asks_what_a_turn_answers(tmp_path: Path) -> None:
    chat = [
        {
            "turns": [
                [
                    {
                        "id": 0,
                        "role": "user",
                        "content": "A boat",
                        "time_anchor": "March-15-2024",
                    },
                    {"id": 1, "role": "assistant", "content": "Which?"},
                ]
            ]
        }
    ]
    kinds = {
        "abstention": [{"question": "Which car?"}],
        "ordering": [{"question": "Which boat?", "source_chat_ids": {"first": [[1], 7]}}],
    }
    files = {f"{number}__chat": chat for number in range(1, 11)}
    files |= {f"{n}__probing_questions__probing_questions": kinds for n in range(1, 11)}  # type: ignore[misc]
    dataset = loaded(tmp_path, "beam", folder_of(tmp_path / "set", **files))
    assert iso(dataset.turns[0].time_ms)[:16] == "2024-03-15T00:02"
    assert len(dataset.turns) == 20
    assert [(question.id, sorted(question.gold)) for question in dataset.questions][:2] == [
        ("beam 1 ordering 0", ["beam 1/1"]),
        ("beam 2 ordering 0", ["beam 2/1"]),
    ]


def test_lifebench_has_the_records_of_a_telephone(tmp_path: Path) -> None:
    exchange = {"turn 1": {"user": {"content": "我想学冲浪"}, "assistant": {"content": "好啊"}}}
    files = {
        "phone_data__agent_chat": [
            {"phone_id": 1, "date": "2025-01-02", "conversation": exchange},
            {"phone_id": 2, "date": "2025-01-03", "conversation": repr(exchange)},
        ],
        "phone_data__sms": [
            {"phone_id": 1, "datetime": "2025-01-02 08:00:00", "message_content": "到了"},
            {"phone_id": 1, "datetime": "2025-01-02 09:00:00", "message_content": "重复"},
            {"phone_id": 2, "message_content": "没有时间"},
        ],
        "phone_data__note": [
            {"phone_id": 1, "datetime": "2025-01-02 08:00:00", "title": "冲浪", "content": "板子"}
        ],
        "phone_data__calendar": [],
        "phone_data__push": [],
        "phone_data__photo": [],
        "QA__QA_clean": [
            {
                "question": "学什么？",
                "question_type": "fact",
                "evidence": [{"type": "note", "id": "1"}, {"type": "call", "id": "9"}],
            },
            {"question": "没有依据", "question_type": "fact", "evidence": None},
        ],
    }
    dataset = loaded(tmp_path, "lifebench", folder_of(tmp_path / "林", **files))
    assert [turn.content for turn in dataset.turns if "sms" in turn.id] == ["到了"]
    assert {turn.content for turn in dataset.turns if "note" in turn.id} == {"冲浪。板子"}
    assert [turn.id for turn in dataset.turns if "chat/2" in turn.id] == [
        "林/agent_chat/2",
        "林/agent_chat/2/1",
    ]
    (question,) = dataset.questions
    assert (question.id, question.gold) == ("林 q0", {"林/note/1"})


def test_an_exchange_of_rhelm_is_a_memory_of_its_own(tmp_path: Path) -> None:
    day = {
        "date": "2024-01-02",
        "conversation": [
            {
                "turn": 1,
                "timestamp": "2024-01-02T07:49:00",
                "user": "A boat",
                "assistant": "Which?",
            },
            {"turn": 2, "timestamp": "2024-01-02T07:51:00", "user": "The red one", "assistant": ""},
        ],
    }
    person = folder_of(tmp_path / "conversations" / "Ada", conversation_2024_01_02=day)
    questions = [
        {"question": "Which boat?", "question_type": "fact", "evidence": ["2024-01-02:2"]},
        {"question": "Which file?", "question_type": "attachment", "evidence": ["2024-01-02:1"]},
        {"question": "Which day?", "question_type": "fact", "evidence": ["2024-01-09:1"]},
    ]
    lines = []
    for row in questions:
        row["supporting_evidence"] = row.pop("evidence")
        lines.append(json.dumps({**row, "question_date": "2024-01-01"}))
    (tmp_path / "QA_final").mkdir()
    file = tmp_path / "QA_final" / "low_score_qa_Ada_all_validated.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")

    dataset = loaded(tmp_path, "rhelm", person)
    assert [len(unit.turns) for unit in units_of(dataset.turns)] == [2, 2]
    (question,) = dataset.questions
    assert question.gold == {"Ada/1/0"}
    # It is dated before its answer, and asked a minute after it.
    assert iso(question.asked_ms) == "2024-01-02T07:52:00.000Z"


def test_a_remark_of_proactive_brings_where_its_subject_was_planted(tmp_path: Path) -> None:
    def message(role: str, minute: int, *pairs: str) -> dict[str, Any]:
        timestamp = f"2024-03-05T07:{minute}:00+08:00"
        return {"role": role, "content": role, "timestamp": timestamp, "planted_pairs": pairs}

    turns = [
        message("assistant", 10),
        message("user", 20, "cat"),
        message("assistant", 21),
        message("user", 30, "cat", "rain"),
    ]
    kind = "Entity-Associated Memory Recall"
    remarks = [
        {"question": "It purrs.", "trigger_type": kind, "source_pairs": ["cat", "family"]},
        {"question": "Hm.", "trigger_type": kind, "source_pairs": ["family"]},
    ]
    folder = folder_of(
        tmp_path / "pet",
        step4_conversations=[{"turns": turns}],
        step5_proactive_questions=remarks,
    )
    dataset = loaded(tmp_path, "proactive", folder)
    assert [len(unit.turns) for unit in units_of(dataset.turns)] == [1, 2, 1]
    (remark,) = dataset.questions
    assert (remark.kind, remark.gold) == ("entity", {"pet/1/0", "pet/2/0"})
    assert iso(remark.asked_ms) == "2024-03-09T23:30:00.000Z"

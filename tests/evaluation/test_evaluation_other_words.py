"""Words that language models gave, beside a data set: which questions are asked with them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.quality.evaluation import load_dataset, with_other_talk
from bench.quality.other_words import read_words
from bench.recall_quality import main

from memory_server.kernel.errors import InvalidInput

TURNS = (
    {
        "turn": "a1",
        "role": "user",
        "content": "I take trazodone before I go to bed",
        "time": "2026-03-01T20:00:00+00:00",
    },
    {
        "turn": "a2",
        "role": "user",
        "content": "We painted the fence green",
        "time": "2026-03-03T20:00:00+00:00",
    },
    {
        "turn": "a3",
        "role": "user",
        "content": "The tram was late again",
        "time": "2026-03-05T20:00:00+00:00",
    },
)
QUESTIONS = (
    {"question": "q1", "text": "Which sleeping pills did I mention?", "gold": ["a1"]},
    {"question": "q2", "text": "Which colour has the fence?", "gold": ["a2"]},
)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    lines = [{"conversation": "ann", **turn} for turn in TURNS]
    about = {"conversation": "ann", "asked": "2026-05-01T20:00:00+00:00", "language": "en"}
    lines += [{**about, **question} for question in QUESTIONS]
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "queries.json").write_text(json.dumps({"q1": "trazodone, bed"}))
    (tmp_path / "memories.json").write_text(json.dumps({"a1": "sleeping pills, insomnia"}))
    return path


def test_both_kinds_of_words_have_their_rows(
    dataset: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [
        "--words",
        str(dataset.parent / "queries.json"),
        "--memory-words",
        str(dataset.parent / "memories.json"),
    ]
    assert main([str(dataset), *files, "--before", "0", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["questions"] == 1, "only the question that has words"
    recall_at_3 = {
        name: scores["recallAt3"]["value"] for name, scores in report["groups"]["all"].items()
    }
    assert recall_at_3["search"] == 0.0
    assert (
        recall_at_3["asked for, words of queries"]
        == recall_at_3["search, words of memories"]
        == 1.0
    )
    assert (
        recall_at_3["search, words of both"] == recall_at_3["bm25 same words, words of both"] == 1.0
    )


def test_messages_of_the_data_set_stay_before_their_question(tmp_path: Path) -> None:
    question = {**QUESTIONS[0], "conversation": "ann", "asked": "2026-05-01T20:00:00+00:00"}
    question["before"] = [{"role": "assistant", "content": "Good evening"}]
    turns = [{"conversation": "ann", **turn} for turn in TURNS]
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(map(json.dumps, [*turns, question])))
    [asked] = with_other_talk(load_dataset([path]), 3, seed=1).questions
    assert [message.content for message in asked.messages] == ["Good evening", QUESTIONS[0]["text"]]


WRONG = [
    ("[]", "of the form"),
    ("{", "of the form"),
    ('{"q1": ["a"]}', "commas"),
    ('{"q1": 1}', "commas"),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "words.json").write_text(text)
    with pytest.raises(InvalidInput, match=sentence):
        read_words([str(tmp_path / "words.json")])


def test_a_year_and_sessions_know_no_words(
    dataset: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([str(dataset), "--year", "--words", str(dataset.parent / "queries.json")]) == 2
    assert "--year and --sessions know no other words" in capfd.readouterr().err

"""`memory-server examine` from end to end: what it prints, how it ends, and what `doctor` says after an upgrade."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_program import CommandLine

from memory_server.operations import examining

Run = Callable[..., str]


@pytest.fixture
def run(cli: CommandLine) -> Run:
    """`run("examine")`: what it prints."""

    def run(*arguments: str, at: str = "12:00", status: int = 0) -> str:
        now = f"2026-06-25T{at}:00Z"
        outcome = cli("--timezone", "Asia/Shanghai", *arguments, now=now)
        assert outcome.status == status, outcome.err
        return outcome.out if status in (0, 1) else outcome.err

    return run


@pytest.fixture
def asked(run: Run) -> None:
    """A memory, and a question about it two hours later."""
    run("remember", "I love tea, most of all Phoenix oolong\n[from the market]", at="08:00")
    run("recall", "Which oolong tea do I love?", at="10:00")


@pytest.mark.usefixtures("asked")
def test_a_lost_memory_is_printed_with_both_reasons(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run("examine")
    assert first == (
        "Asked: 1. Another answer: 0. Memories lost: 0, gained: 0.\n"
        "New, for later runs to compare with: 1.\n"
    )
    assert run("examine") == "Asked: 1. Another answer: 0. Memories lost: 0, gained: 0.\n"

    monkeypatch.setenv("MEMORY_SERVER_SHORT_TERM__THRESHOLD", "500")
    question, lost, then, now, summary = run("examine", status=1).splitlines()
    assert question.endswith(" default (recall): Which oolong tea do I love?")
    assert lost.startswith("  no longer comes ")
    assert "Phoenix oolong [from the market]" in lost
    assert then.startswith("    then: ")
    assert "oolong" in then
    assert now.startswith("    now: Shares too little for this home")
    assert summary == "Asked: 1. Another answer: 1. Memories lost: 1, gained: 0."

    [line] = map(json.loads, run("examine", "--json", status=1).splitlines())
    assert line["said"] == "Which oolong tea do I love?"
    assert [memory["came"] for memory in line["memories"]] == [False]
    run("examine", "--accept", status=1)
    assert "Another answer: 0" in run("examine")


@pytest.mark.usefixtures("asked")
def test_doctor_has_a_note_after_an_upgrade(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("examine")
    assert "examination" not in run("doctor")
    monkeypatch.setattr(examining, "version_line", lambda: "memory-server 9.9.9")
    assert "gave the answers to 1 question; `memory-server examine` says" in run("doctor")


def test_without_recalls_there_is_nothing_to_ask(run: Run, tmp_path: Path) -> None:
    assert run("examine").startswith("There are no questions yet")
    assert not (tmp_path / "data").exists()


@pytest.mark.usefixtures("asked")
def test_a_question_that_is_off_and_one_of_a_conversation_that_is_gone_are_not_called_missing(
    run: Run, tmp_path: Path
) -> None:
    run("examine")
    [path] = tmp_path.glob("data/.memory-server/questions/default.jsonl")
    line = json.loads(path.read_bytes())
    gone = {**{name: line[name] for name in ("at", "said")}, "id": "mine", "conversation": "gone"}
    path.write_text(json.dumps(line | {"off": True}) + "\n" + json.dumps(gone) + "\n")
    assert run("examine") == (
        "Asked: 0. Another answer: 0. Memories lost: 0, gained: 0.\n"
        "Not asked, because their conversation is gone: 1.\n"
    )


@pytest.mark.usefixtures("asked")
def test_a_read_only_memory_accepts_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_READ_ONLY", "true")
    assert "New, for later runs" in run("examine")
    assert not (tmp_path / "data" / ".memory-server" / "questions").exists()
    assert "read_only" in run("examine", "--accept", status=2)

"""What had no room in a block is not recorded as given: after a question and at the start of a session."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hook_transcripts import event

from memory_server.cli.parser import main
from memory_server.memories.turns import MOST_PINNED

Run = Callable[..., str]
LONG = "The houses of this street lean over the water, and the ferry counts them each evening. " * 6


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("list")`: the standard output of a command; `event` is given on its standard input."""
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, now: str = "2026-06-25T08:00:00Z", event: Any = None) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(event).encode())))
        assert main(["--now", now, "--timezone", "UTC", *arguments]) == 0
        return capfd.readouterr().out

    return run


def newest_recall(run: Run) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(run("recalls", "--json", "-n", "1"))
    return line


def test_a_question_records_what_the_block_shows(run: Run) -> None:
    for number in range(8):
        run("remember", f"Harbour {number}: {LONG}", now=f"2026-06-0{number + 1}T08:00:00Z")
    block = run("recall", "harbour", "--chars", "300")
    recall = newest_recall(run)
    lacking_room = [memory for memory in recall["near"] if memory["lacked"] == "room"]
    assert len(recall["came"]) == block.count("Harbour ")
    assert lacking_room
    assert {memory["id"] for memory in lacking_room}.isdisjoint(
        memory["id"] for memory in recall["came"]
    )
    assert "enough, but no room was left in the text" in run("explain", "--recall", recall["id"])


def test_the_start_of_a_session_records_the_pinned_memories_that_it_shows_the_newest(
    run: Run,
) -> None:
    ids: list[str] = []
    for number in range(MOST_PINNED):
        now = f"2026-06-{number + 1:02}T08:00:00Z"
        run("remember", f"Harbour {number}: {LONG}", now=now)
        rows = [json.loads(line) for line in run("list", "-c", "default", "--json").splitlines()]
        [memory_id] = {row["id"] for row in rows if "id" in row} - set(ids)
        run("pin", memory_id)
        ids.append(memory_id)
    begun = event("SessionStart", source="startup", session_id="new", cwd="/tmp")
    block = json.loads(run("hook", event=begun))["hookSpecificOutput"]["additionalContext"]
    shown = [number for number in range(MOST_PINNED) if f"Harbour {number}:" in block]
    assert len(shown) < MOST_PINNED
    assert shown == list(range(MOST_PINNED))[-len(shown) :]
    assert [memory["id"] for memory in newest_recall(run)["came"]] == [
        ids[number] for number in shown
    ]

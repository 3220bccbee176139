"""What had no room in a block is not recorded as given: after a question and at the start of a session."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_program import CommandLine
from hook_transcripts import event

from memory_server.memories.turns import MOST_PINNED

LONG = "The houses of this street lean over the water, and the ferry counts them each evening. " * 6


@pytest.fixture
def cli(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command at a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    return cli.with_flags("--now", "2026-06-25T08:00:00Z", "--timezone", "UTC")


def newest_recall(cli: CommandLine) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(cli.text("recalls", "--json", "-n", "1"))
    return line


def test_a_question_records_what_the_block_shows(cli: CommandLine) -> None:
    for number in range(8):
        cli.text("remember", f"Harbour {number}: {LONG}", now=f"2026-06-0{number + 1}T08:00:00Z")
    block = cli.text("recall", "harbour", "--chars", "300")
    recall = newest_recall(cli)
    lacking_room = [memory for memory in recall["near"] if memory["lacked"] == "room"]
    assert len(recall["came"]) == block.count("Harbour ")
    assert lacking_room
    assert {memory["id"] for memory in lacking_room}.isdisjoint(
        memory["id"] for memory in recall["came"]
    )
    assert "enough, but no room was left in the text" in cli.text(
        "explain", "--recall", recall["id"]
    )


def test_the_start_of_a_session_records_the_pinned_memories_that_it_shows_the_newest(
    cli: CommandLine,
) -> None:
    ids: list[str] = []
    for number in range(MOST_PINNED):
        now = f"2026-06-{number + 1:02}T08:00:00Z"
        cli.text("remember", f"Harbour {number}: {LONG}", now=now)
        rows = [
            json.loads(line) for line in cli.text("list", "-c", "default", "--json").splitlines()
        ]
        [memory_id] = {row["id"] for row in rows if "id" in row} - set(ids)
        cli.text("pin", memory_id)
        ids.append(memory_id)
    begun = event("SessionStart", source="startup", session_id="new", cwd="/tmp")
    block = json.loads(cli.text("hook", stdin=begun))["hookSpecificOutput"]["additionalContext"]
    shown = [number for number in range(MOST_PINNED) if f"Harbour {number}:" in block]
    assert len(shown) < MOST_PINNED
    assert shown == list(range(MOST_PINNED))[-len(shown) :]
    assert [memory["id"] for memory in newest_recall(cli)["came"]] == [
        ids[number] for number in shown
    ]

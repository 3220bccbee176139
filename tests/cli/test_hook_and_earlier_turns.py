"""What a hook says later of turns that it stored: the user took them back, or a program wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from hook_transcripts import assistant, event, transcript, user

Row = dict[str, Any]


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """What the user types, half an hour later than the hooks ran."""
    return cli.at(repeat("2026-06-20T09:00:00Z"))


@pytest.fixture
def stop(cli: CommandLine, tmp_path: Path) -> Callable[..., None]:
    """The end of the last turn of these lines."""

    def stop(*rows: Row, session: str = "s1") -> None:
        path = tmp_path / f"{session}.jsonl"
        path.write_bytes(transcript(*rows))
        answer = rows[-1]["message"]["content"][0]["text"]
        fields = {"session_id": session, "transcript_path": str(path), "cwd": str(tmp_path)}
        prompt_id = rows[-2]["promptId"]
        ended = event("Stop", prompt_id=prompt_id, last_assistant_message=answer, **fields)
        cli.text("hook", stdin=ended, now="2026-06-20T08:00:10Z")

    return stop


def turn(name: str, parent: str | None, asked: str, told: str, **fields: Any) -> list[Row]:
    return [
        user(asked, f"p{name}", **{"uuid": f"u{name}", "parentUuid": parent} | fields),
        assistant(told, **{"uuid": f"a{name}", "parentUuid": f"u{name}"} | fields),
    ]


FIRST = turn("1", None, "The orders are in postgres.", "Noted, postgres.")
WRONG = turn("2", "a1", "The hint is a blue elephant.", "An elephant, then.")
RIGHT = turn("3", "a1", "The host is called heron.", "A heron it is.")


def kept(cli: CommandLine) -> str:
    return cli.text("export", "-")


def test_what_was_rewound_is_retired_when_something_else_is_said_and_undo_brings_it_back(
    cli: CommandLine, stop: Callable[..., None]
) -> None:
    stop(*FIRST)
    stop(*FIRST, *WRONG)
    assert "elephant" in kept(cli)
    stop(*FIRST, *WRONG, *RIGHT)
    assert "elephant" not in kept(cli)
    assert "postgres" in kept(cli)
    assert "heron" in kept(cli)
    begun = event("SessionStart", session_id="s2", source="startup", cwd=str(Path.cwd()))
    assert "elephant" not in cli.text("hook", stdin=begun)

    (retired,) = [line for line in cli.text("history").splitlines() if "forgotten" in line]
    assert "elephant" in retired
    cli.text("undo", retired.split()[0])
    assert "elephant" in kept(cli)
    later = turn("4", "a3", "And it is in Oslo.", "Oslo.")
    stop(*FIRST, *WRONG, *RIGHT, *later)  # what was brought back stays
    assert "elephant" in kept(cli)


def test_a_pinned_memory_of_a_turn_that_was_rewound_stays(
    cli: CommandLine, stop: Callable[..., None]
) -> None:
    stop(*FIRST, *WRONG)
    rows = [json.loads(line) for line in kept(cli).splitlines()]
    (memory_id,) = [row["short"]["id"] for row in rows if "short" in row]
    cli.text("pin", memory_id)
    stop(*FIRST, *WRONG, *RIGHT)
    assert "elephant" in kept(cli)


def test_a_script_is_not_where_you_left_off_and_a_search_finds_it(
    cli: CommandLine, stop: Callable[..., None], tmp_path: Path
) -> None:
    stop(*FIRST)
    stop(*turn("9", None, "List the stale issues.", "None.", entrypoint="sdk-cli"), session="s9")
    begun = event("SessionStart", session_id="s2", source="startup", cwd=str(tmp_path))
    given = cli.text("hook", stdin=begun)
    assert "postgres" in given
    assert "stale" not in given
    asked = event("UserPromptSubmit", session_id="s2", prompt="stale issues?", cwd=str(tmp_path))
    assert "stale" not in cli.text("hook", stdin=asked)
    assert "claude -p" in cli.text("search", "stale issues")


def test_a_second_prompt_on_an_sdk_gives_the_first_one_to_the_user(
    cli: CommandLine, stop: Callable[..., None]
) -> None:
    first = turn("1", None, "The orders are in postgres.", "Noted.", entrypoint="sdk-ts")
    stop(*first)
    assert "Claude Agent SDK" in kept(cli)
    stop(*first, *turn("2", "a1", "And the host is heron.", "Yes.", entrypoint="sdk-ts"))
    assert "Claude Agent SDK" not in kept(cli)
    assert "everywhere" not in kept(cli)

"""`memory-server forget` from end to end, and that a turn which asks for it is not stored."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hook_transcripts import assistant, event, transcript, user

from memory_server.cli.parser import main

Run = Callable[..., str]
FORGET = {"type": "tool_use", "id": "t1", "name": "mcp__memory__forget", "input": {"words": "Halloran"}}
THEIRS = {"type": "tool_use", "id": "t1", "name": "mcp__notes__forgetful", "input": {}}


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, elsewhere: None) -> Run:
    """`run("forget", "cat")`: what it prints; `given` is standard input."""
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def run(*arguments: str, given: Any = None, status: int = 0, now: str = "2026-06-25T08:00:00Z") -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(given).encode())))
        ended = main(["--now", now, "--timezone", "Asia/Shanghai", *arguments])
        out, err = capfd.readouterr()
        assert ended == status, err
        return out if status == 0 else err

    return run


@pytest.fixture
def stored(run: Run) -> None:
    run("remember", "My dentist is Dr. Halloran on Elm Street.")
    run("remember", "The cat is called Miso.")


@pytest.mark.usefixtures("stored")
def test_what_holds_the_words_is_shown_and_forgotten_and_one_undo_brings_it_back(run: Run) -> None:
    out = run("forget", "halloran", "--yes")
    assert "My dentist is Dr. Halloran" in out
    assert "Miso" not in out
    assert "Forgot 1 memory. Until 2026-09-23" in out
    assert run("search", "Halloran").startswith("0 memories found")
    [change] = re.findall(r"undo ([0-9a-f]{8})", out)
    assert run("undo", change).startswith(f"Undid {change}")
    assert "Elm Street" in run("search", "Halloran")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("forget", "Halloran"), "nobody is there to be asked; add --yes"),
        (("forget", "broccoli", "--yes"), "Nothing here holds these words"),
        (("forget", "Halloran", "Miso", "--yes"), "Nothing here holds these words"),
        (("forget", "--yes"), "Write words of what is meant"),
        (("forget", "Halloran", "--yes", "-c", "nowhere"), "There is no conversation nowhere"),
        (("forget", "Halloran", "--yes", "--family", "notes"), "Nothing here holds these words"),
        (("forget", "Halloran", "--yes", "--since", "2026-06-26"), "Nothing here holds these words"),
        (("forget", "Halloran", "--yes", "--until", "yesterday"), "is not a time"),
        (("--read-only", "forget", "Halloran", "--yes"), "read_only"),
    ],
)
def test_what_cannot_be_forgotten_is_said_and_nothing_changes(run: Run, arguments: tuple[str, ...], said: str) -> None:
    assert said in run(*arguments, status=2)
    assert "Elm Street" in run("search", "Halloran")


@pytest.mark.usefixtures("stored")
def test_a_dry_run_changes_nothing(run: Run) -> None:
    assert "Would forget 1 memory." in run("forget", "Halloran", "--dry-run")
    assert "Elm Street" in run("search", "Halloran")


def stopped(run: Run, tmp_path: Path, *entries: dict[str, Any], **fields: Any) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(transcript(*entries))
    run("hook", given=event("Stop", transcript_path=str(path), **fields))


@pytest.mark.usefixtures("stored")
def test_a_turn_in_which_forget_was_called_keeps_no_text_and_a_new_session_is_not_shown_what_it_was(
    run: Run, tmp_path: Path
) -> None:
    begun = event("SessionStart", source="startup", session_id="s2")
    assert "Halloran" in run("hook", given=begun)
    run("hook", given=event("UserPromptSubmit", prompt="Forget my dentist Dr. Halloran", prompt_id="p1"))
    assert "Forget my dentist" in run("recalls", "--json")
    called = json.loads(run("call", "forget", json.dumps({"words": "dentist Halloran", "confirm": True})))
    assert called["forgotten"]
    asked = user("Forget my dentist Dr. Halloran", "p1"), assistant(FORGET), assistant("Halloran is forgotten.")
    stopped(run, tmp_path, *asked, prompt_id="p1")
    assert run("search", "Halloran").startswith("0 memories found")
    assert "Forget my dentist" not in run("recalls", "--json")
    block = run("hook", given={**begun, "session_id": "s3"})
    assert "Miso" in block
    assert "Halloran" not in block


def test_another_tool_or_an_earlier_turn_keeps_no_text_back(run: Run, tmp_path: Path) -> None:
    first = user("Forget it", "p1"), assistant(FORGET), assistant("Done.")
    second = user("I have a bicycle", "p2"), assistant(THEIRS), assistant("A bicycle, nice.")
    stopped(run, tmp_path, *first, *second, prompt_id="p2")
    assert "bicycle" in run("list")
    assert "Forget it" not in run("list")


def test_remember_turn_stores_no_turn_that_calls_forget(run: Run) -> None:
    asked = {"role": "user", "content": "Forget my dentist"}
    answers = (
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}, FORGET]},
        {"role": "assistant", "content": "Done.", "tool_calls": [{"id": "1", "function": {"name": "forget"}}]},
    )
    for answer in answers:
        done = json.loads(run("call", "remember_turn", json.dumps({"messages": [asked, answer]})))
        assert not done["stored"]
    theirs = {"role": "assistant", "content": [{"type": "text", "text": "Done."}, THEIRS]}
    assert json.loads(run("call", "remember_turn", json.dumps({"messages": [asked, theirs]})))["stored"]


@pytest.mark.usefixtures("stored")
def test_the_tool_first_says_what_would_go_and_asks_for_either_words_or_ids(run: Run) -> None:
    shown = json.loads(run("call", "forget", '{"words": "Halloran"}'))
    assert (shown["found"], shown["forgotten"]) == (1, False)
    for wrong in ("{}", '{"words": " "}', '{"words": "a", "ids": ["b"]}'):
        assert "either words that it holds, or ids" in run("call", "forget", wrong, status=1)
    ids = json.dumps({"ids": [shown["items"][0]["id"]], "confirm": True})
    done = json.loads(run("call", "forget", ids))
    assert done["forgotten"]
    assert json.loads(run("call", "undo_change", json.dumps({"changeId": done["changeId"]})))["changes"]
    assert "Elm Street" in run("search", "Halloran")
    assert json.loads(run("call", "forget", '{"words": "broccoli", "confirm": true}'))["found"] == 0

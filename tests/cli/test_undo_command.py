"""`memory-server undo` without an id: it shows the last change and asks."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_server.cli.parser import main

Run = Callable[..., tuple[int, str, str]]
NOTE = {"type": "tech", "topic": "port", "content": "The service listens on port 8080."}
TRIGGER = {"name": "birthday", "prompt": "Congratulate.", "trigger": "new Date().getMonth() === 5"}
FACT = {"messages": "Allergic to mango.", "user_id": "ana", "mode": "direct"}
REF = {"content": "A long text about ports. " * 20}


class Terminal(io.TextIOWrapper):
    """Standard input of a person who types this line."""

    def __init__(self, line: str) -> None:
        super().__init__(io.BytesIO(line.encode()))

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, elsewhere: None) -> Run:
    """`run("undo")`: exit status, output, errors; `typed` is what a person types when asked."""
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    seconds = iter(range(3_600))

    def run(*arguments: str, typed: str | None = None) -> tuple[int, str, str]:
        stdin = io.TextIOWrapper(io.BytesIO()) if typed is None else Terminal(typed)
        monkeypatch.setattr(sys, "stdin", stdin)
        minute, second = divmod(next(seconds), 60)
        now = f"2026-06-25T08:{minute:02}:{second:02}Z"
        status = main(["--now", now, "--timezone", "Asia/Shanghai", *arguments])
        out, err = capfd.readouterr()
        return status, out, err

    return run


def test_without_a_terminal_it_says_what_the_last_change_did_and_how_to_undo_it(run: Run) -> None:
    run("remember", "The cat is called Miso.")
    run("remember", "My dentist is Dr. Halloran.")
    status, out, err = run("undo")
    assert status == 2
    [change] = re.findall(r"`memory-server undo (\S+)`", err)
    assert out.startswith(f"The last change is {change}, 2026-06-25 16:00, by ")
    assert "Dr. Halloran" in out
    assert "Miso" not in out
    assert "Nothing was undone" in err
    assert "Halloran" in run("list")[1]
    assert run("undo", change)[0] == 0
    assert "Halloran" not in run("list")[1]


@pytest.mark.parametrize(
    ("typed", "stays"), [("y\n", False), ("是\n", False), ("\n", True), ("no\n", True), ("", True)]
)
def test_on_a_terminal_it_asks(run: Run, typed: str, stays: bool) -> None:
    run("remember", "The cat is called Miso.")
    status, out, err = run("undo", typed=typed)
    assert status == 0
    assert "Undo it? [y/N]" in err
    assert ("Nothing was undone." in out) == stays
    assert ("Undid " in out) != stays
    assert ("Miso" in run("list")[1]) == stays


def test_yes_asks_nobody_and_a_dry_run_changes_nothing(run: Run) -> None:
    run("remember", "The cat is called Miso.")
    status, out, err = run("undo", "--dry-run")
    assert (status, err) == (0, "")
    assert "Miso" in out
    assert "Miso" in run("list")[1]
    assert "Undid " in run("undo", "--yes")[1]
    assert "Miso" not in run("list")[1]


@pytest.mark.parametrize(
    ("family", "tool", "arguments", "word"),
    [
        ("memories", "add_short_term_memory", {"messages": [{"role": "user", "content": "I like tulips."}]}, "tulips"),
        ("triggers", "add_long_term_memory", TRIGGER, "birthday"),
        ("notes", "remember", NOTE, "port"),
        ("sessions", "memory_add", FACT, "mango"),
        ("refs", "memoryAdd", REF, "ports"),
    ],
)
def test_the_last_change_of_a_family_is_found_behind_a_later_one_of_another(
    run: Run, family: str, tool: str, arguments: dict[str, object], word: str
) -> None:
    later_tool, later = ("remember", NOTE) if family in ("memories", "triggers") else ("add_long_term_memory", TRIGGER)
    for name, given in ((tool, arguments), (later_tool, later)):
        status, _out, err = run("call", name, json.dumps(given))
        assert status == 0, err
    status, out, _err = run("undo", "--family", family, "--yes")
    assert status == 0
    assert word in out
    assert word not in run("list", "--family", family)[1]
    others = "notes" if later_tool == "remember" else "triggers"
    assert not run("list", "--family", others)[1].startswith("No ")


def test_c_takes_the_last_change_of_that_conversation(run: Run) -> None:
    run("remember", "The cat is called Miso.", "-c", "home")
    run("remember", "The build is red.", "-c", "work")
    assert "Miso" in run("undo", "-c", "home", "--yes")[1]
    assert "build" in run("list", "-c", "work")[1]


def test_all_parts_of_a_change_are_shown_and_undone_together(run: Run) -> None:
    run("remember", "The mango is ripe.")
    run("call", "remember", json.dumps({**NOTE, "content": "mango farms listen on 8080"}))
    run("forget", "mango", "--yes")
    _status, out, _err = run("undo", "--yes")
    assert out.count("mango") >= 2
    assert "mango is ripe" in run("search", "mango")[1]
    assert "mango farms" in run("search", "mango")[1]


def test_a_recall_that_reinforced_memories_is_not_the_last_change(run: Run) -> None:
    run("remember", "The cat is called Miso.")
    run("recall", "What is the cat called?")
    assert "reinforced" in run("history")[1], "otherwise this test shows nothing"
    assert "Miso" in run("undo", "--yes")[1]
    assert "Miso" not in run("list")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "No change is in the history; nothing is stored in"),
        (("1-abcd", "--memory", "x"), "Give the id of a change, or --memory"),
        (("1-abcd", "--family", "notes"), "--family chooses whose last change is undone"),
        (("1-abcd", "--dry-run"), "--dry-run works only with --memory"),
        (("--family", "layers"), "have no history here"),
        (("-c", "nowhere"), "There is no conversation nowhere"),
    ],
)
def test_what_cannot_be_undone_is_one_sentence(run: Run, arguments: tuple[str, ...], said: str) -> None:
    status, out, err = run("undo", *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1

"""`memory-server undo` without an id: it shows the last change and asks."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_outcome import Outcome

from memory_server.cli.parser import main

Run = Callable[..., Outcome]
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
def run(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: None,
) -> Run:
    """`run("undo")`: exit status, output, errors; `typed` is what a person types when asked."""
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    seconds = iter(range(3_600))

    def run(*arguments: str, typed: str | None = None) -> Outcome:
        stdin = io.TextIOWrapper(io.BytesIO()) if typed is None else Terminal(typed)
        monkeypatch.setattr(sys, "stdin", stdin)
        minute, second = divmod(next(seconds), 60)
        now = f"2026-06-25T08:{minute:02}:{second:02}Z"
        status = main(["--now", now, "--timezone", "Asia/Shanghai", *arguments])
        out, err = capfd.readouterr()
        return Outcome(status, out, err)

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
    assert "Halloran" in run("list").out
    assert run("undo", change).status == 0
    assert "Halloran" not in run("list").out


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
    assert ("Miso" in run("list").out) == stays


def test_yes_asks_nobody_and_a_dry_run_changes_nothing(run: Run) -> None:
    run("remember", "The cat is called Miso.")
    status, out, err = run("undo", "--dry-run")
    assert (status, err) == (0, "")
    assert "Miso" in out
    assert "Miso" in run("list").out
    assert "Undid " in run("undo", "--yes").out
    assert "Miso" not in run("list").out


def test_a_recall_that_only_counted_a_message_is_not_the_last_change(run: Run) -> None:
    memory = {"name": "Bell", "prompt": "It rings.", "trigger": "true", "cooldown": 3}
    run("call", "add_long_term_memory", json.dumps(memory))
    run("recall", "--session", "s", "Do you hear the bell?")
    assert "counted" in run("history").out, "otherwise this test shows nothing"
    assert "Bell" in run("undo", "--yes").out


@pytest.mark.parametrize(
    ("family", "tool", "arguments", "word"),
    [
        (
            "memories",
            "add_short_term_memory",
            {"messages": [{"role": "user", "content": "I like tulips."}]},
            "tulips",
        ),
        ("triggers", "add_long_term_memory", TRIGGER, "birthday"),
        ("notes", "remember", NOTE, "port"),
        ("sessions", "memory_add", FACT, "mango"),
        ("refs", "memoryAdd", REF, "ports"),
    ],
)
def test_the_last_change_of_a_family_is_found_behind_a_later_one_of_another(
    run: Run, family: str, tool: str, arguments: dict[str, object], word: str
) -> None:
    later_call: tuple[str, dict[str, object]] = ("add_long_term_memory", {**TRIGGER})
    later_family = "triggers"
    if family in ("memories", "triggers"):
        later_call = ("remember", {**NOTE})
        later_family = "notes"
    for name, call_arguments in ((tool, arguments), later_call):
        status, _out, err = run("call", name, json.dumps(call_arguments))
        assert status == 0, err
    status, out, _err = run("undo", "--family", family, "--yes")
    assert status == 0
    assert word in out
    assert word not in run("list", "--family", family).out
    assert not run("list", "--family", later_family).out.startswith("No ")


def test_c_takes_the_last_change_of_that_conversation(run: Run) -> None:
    run("remember", "The cat is called Miso.", "-c", "home")
    run("remember", "The build is red.", "-c", "work")
    assert "Miso" in run("undo", "-c", "home", "--yes").out
    assert "build" in run("list", "-c", "work").out


def test_a_clean_up_that_forgot_nothing_is_not_the_last_change(run: Run) -> None:
    run("remember", "about otters")
    run("cleanup")
    assert "by remember_turn" in run("undo", "--dry-run").out


def test_all_parts_of_a_change_are_shown_and_undone_together(run: Run) -> None:
    run("remember", "The mango is ripe.")
    run("call", "remember", json.dumps({**NOTE, "content": "mango farms listen on 8080"}))
    run("forget", "mango", "--yes")
    _status, out, _err = run("undo", "--yes")
    assert out.count("mango") >= 2
    assert "mango is ripe" in run("search", "mango").out
    assert "mango farms" in run("search", "mango").out


def test_a_recall_that_reinforced_memories_is_not_the_last_change(run: Run) -> None:
    run("remember", "The cat is called Miso.")
    run("recall", "What is the cat called?")
    assert "reinforced" in run("history").out, "otherwise this test shows nothing"
    assert "Miso" in run("undo", "--yes").out
    assert "Miso" not in run("list").out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "The history has no changes; nothing is stored in"),
        (("1-abcd", "--memory", "x"), "Give the id of a change, or --memory"),
        (("1-abcd", "--family", "notes"), "--family chooses the kind whose last change is undone"),
        (("1-abcd", "--dry-run"), "`1-abcd` is not among the last 200 changes"),
        (("--family", "layers"), "keeps no history of layer files"),
        (("-c", "nowhere"), "There is no conversation nowhere"),
    ],
)
def test_what_cannot_be_undone_is_one_sentence(
    run: Run, arguments: tuple[str, ...], sentence: str
) -> None:
    status, out, err = run("undo", *arguments)
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_dry_run_of_a_change_shows_it_and_undoes_nothing(run: Run) -> None:
    run("remember", "My cat is called Miso.")
    change = re.search(r"^(\S+) ", run("history").out)
    assert change is not None
    shown = run("undo", change[1], "--dry-run").out
    assert f"The change {change[1]}, " in shown
    assert "My cat is called Miso." in shown
    assert "Miso" in run("recall", "What is my cat called?", "--session", "other").out

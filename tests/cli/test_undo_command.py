"""`memory-server undo` without an id: it shows the last change and asks."""

from __future__ import annotations

import io
import json
import re
from itertools import count

import pytest
from cli_program import CommandLine

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
def cli(cli: CommandLine, elsewhere: None) -> CommandLine:
    """Each command is a second later than the last one."""
    times = (f"2026-06-25T08:{n // 60:02}:{n % 60:02}Z" for n in count())
    return cli.at(times).with_flags("--timezone", "Asia/Shanghai")


def test_without_a_terminal_it_says_what_the_last_change_did_and_how_to_undo_it(
    cli: CommandLine,
) -> None:
    cli("remember", "The cat is called Miso.")
    cli("remember", "My dentist is Dr. Halloran.")
    status, out, err = cli("undo")
    assert status == 2
    [change] = re.findall(r"`memory-server undo (\S+)`", err)
    assert out.startswith(f"The last change is {change}, 2026-06-25 16:00, by ")
    assert "Dr. Halloran" in out
    assert "Miso" not in out
    assert "Nothing was undone" in err
    assert "Halloran" in cli("list").out
    assert cli("undo", change).status == 0
    assert "Halloran" not in cli("list").out


@pytest.mark.parametrize(
    ("typed", "stays"), [("y\n", False), ("是\n", False), ("\n", True), ("no\n", True), ("", True)]
)
def test_on_a_terminal_it_asks(cli: CommandLine, typed: str, stays: bool) -> None:
    cli("remember", "The cat is called Miso.")
    status, out, err = cli("undo", stdin=Terminal(typed))
    assert status == 0
    assert "Undo it? [y/N]" in err
    assert ("Nothing was undone." in out) == stays
    assert ("Undid " in out) != stays
    assert ("Miso" in cli("list").out) == stays


def test_yes_asks_nobody_and_a_dry_run_changes_nothing(cli: CommandLine) -> None:
    cli("remember", "The cat is called Miso.")
    status, out, err = cli("undo", "--dry-run")
    assert (status, err) == (0, "")
    assert "Miso" in out
    assert "Miso" in cli("list").out
    assert "Undid " in cli("undo", "--yes").out
    assert "Miso" not in cli("list").out


def test_a_recall_that_only_counted_a_message_is_not_the_last_change(cli: CommandLine) -> None:
    memory = {"name": "Bell", "prompt": "It rings.", "trigger": "true", "cooldown": 3}
    cli("call", "add_long_term_memory", json.dumps(memory))
    cli("recall", "--session", "s", "Do you hear the bell?")
    assert "counted" in cli("history").out, "otherwise this test shows nothing"
    assert "Bell" in cli("undo", "--yes").out


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
    cli: CommandLine, family: str, tool: str, arguments: dict[str, object], word: str
) -> None:
    later_call: tuple[str, dict[str, object]] = ("add_long_term_memory", {**TRIGGER})
    later_family = "triggers"
    if family in ("memories", "triggers"):
        later_call = ("remember", {**NOTE})
        later_family = "notes"
    for name, call_arguments in ((tool, arguments), later_call):
        status, _out, err = cli("call", name, json.dumps(call_arguments))
        assert status == 0, err
    status, out, _err = cli("undo", "--family", family, "--yes")
    assert status == 0
    assert word in out
    assert word not in cli("list", "--family", family).out
    assert not cli("list", "--family", later_family).out.startswith("No ")


def test_c_takes_the_last_change_of_that_conversation(cli: CommandLine) -> None:
    cli("remember", "The cat is called Miso.", "-c", "home")
    cli("remember", "The build is red.", "-c", "work")
    assert "Miso" in cli("undo", "-c", "home", "--yes").out
    assert "build" in cli("list", "-c", "work").out


def test_a_clean_up_that_forgot_nothing_is_not_the_last_change(cli: CommandLine) -> None:
    cli("remember", "about otters")
    cli("cleanup")
    assert "by remember_turn" in cli("undo", "--dry-run").out


def test_all_parts_of_a_change_are_shown_and_undone_together(cli: CommandLine) -> None:
    cli("remember", "The mango is ripe.")
    cli("call", "remember", json.dumps({**NOTE, "content": "mango farms listen on 8080"}))
    cli("forget", "mango", "--yes")
    _status, out, _err = cli("undo", "--yes")
    assert out.count("mango") >= 2
    assert "mango is ripe" in cli("search", "mango").out
    assert "mango farms" in cli("search", "mango").out


def test_a_recall_that_reinforced_memories_is_not_the_last_change(cli: CommandLine) -> None:
    cli("remember", "The cat is called Miso.")
    cli("recall", "What is the cat called?")
    assert "reinforced" in cli("history").out, "otherwise this test shows nothing"
    assert "Miso" in cli("undo", "--yes").out
    assert "Miso" not in cli("list").out


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
    cli: CommandLine, arguments: tuple[str, ...], sentence: str
) -> None:
    status, out, err = cli("undo", *arguments)
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_dry_run_of_a_change_shows_it_and_undoes_nothing(cli: CommandLine) -> None:
    cli("remember", "My cat is called Miso.")
    change = re.search(r"^(\S+) ", cli("history").out)
    assert change is not None
    shown = cli("undo", change[1], "--dry-run").out
    assert f"The change {change[1]}, " in shown
    assert "My cat is called Miso." in shown
    assert "Miso" in cli("recall", "What is my cat called?", "--session", "other").out

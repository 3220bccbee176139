"""The rows of command_table.py say of each command what it really does."""

from __future__ import annotations

import argparse
import ast
import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_program import CommandLine
from command_outcome import Outcome

from memory_server import command_table
from memory_server.cli.parser import SETTINGS, parser
from memory_server.command_table import COMMANDS, SETTING_FLAGS, Command
from memory_server.config import Settings
from memory_server.process.hosts import function_of

Run = Callable[..., Outcome]
ADD = '{"conversation_id":"c","messages":[{"role":"user","content":"I like pizza","timestamp":1780000000000}]}'
ARGUMENTS = {
    "add-trigger": ["a.js", "--prompt", "p"],
    "backup restore": ["kept"],
    "backup delete": ["kept"],
    "convert": ["{folder}/chat.txt", "{folder}/out", "--as", "native"],
    "copy": ["--to", "{folder}/other"],
    "edit": ["0", "pizza", "pasta"],
    "explain": ["pizza", "--ask", "What do I like?"],
    "export": ["{folder}/all.json"],
    "forget": ["pizza", "--yes"],
    "import": ["{folder}/chat.txt"],
    "install": ["print"],
    "mute": ["0"],
    "pin": ["0"],
    "recall": ["What do I like?"],
    "remember": ["Hello."],
    "search": ["pizza"],
    "secrets test": ["a text"],
    "show": ["0"],
    "uninstall": ["cursor"],
    "view": ["--html", "{folder}/page.html"],
}
"""Arguments with which a command does its work; others need none."""
NOT_RUN = ("demo", "daemon", "uninstall", "install")
"""Commands that change no memories, but something else of this machine, or take a minute."""


def subparsers() -> dict[str, argparse.ArgumentParser]:
    actions = parser()._actions
    [commands] = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    return dict(commands.choices)


def test_each_row_is_a_command_of_the_parser() -> None:
    assert list(subparsers()) == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_each_row_names_a_function(command: Command) -> None:
    assert asyncio.iscoroutinefunction(function_of(command))


@pytest.mark.parametrize(
    "name", [name for name, command in COMMANDS.items() if command.shared == "turn"]
)
def test_the_row_of_a_turn_names_the_options_that_a_value_follows(name: str) -> None:
    settings = {f"--{flag}" for flag in SETTING_FLAGS} | {"--conversation"}
    actions = [
        action
        for action in subparsers()[name]._actions
        if action.option_strings and action.nargs != 0
    ]
    options = {action.option_strings[-1] for action in actions}
    assert set(COMMANDS[name].value_options) == options - settings


def test_each_setting_with_a_flag_has_a_meaning_and_is_a_setting() -> None:
    assert list(SETTINGS) == list(SETTING_FLAGS)
    fields = {flag.setting for flag in SETTING_FLAGS.values()}
    assert fields - set(Settings.model_fields) == {"config", "tenant"}


def test_the_table_imports_nothing_that_takes_time() -> None:
    tree = ast.parse(Path(command_table.__file__).read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["from __future__ import annotations"]


@pytest.fixture
def run(cli: CommandLine, tmp_path: Path) -> Run:
    """`run("list")`: exit status, standard output, standard error; on a folder that holds a memory and a backup."""
    (tmp_path / "chat.txt").write_text("user: hello\nassistant: hi\n", "utf-8")

    def run(*arguments: str) -> Outcome:
        return cli(*[argument.replace("{folder}", str(tmp_path)) for argument in arguments])

    assert run("call", "add_short_term_memory", ADD).status == 0
    assert run("backup", "kept").status == 0
    return run


def memories_in(folder: Path) -> dict[Path, bytes]:
    """The files that hold memories; the record of what was recalled is not one of them."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path: path.read_bytes()
        for path in files
        if not re.search("recalls|given|lock", str(path.relative_to(folder)))
    }


@pytest.mark.parametrize(
    "name", [name for name, command in COMMANDS.items() if command.changes == "memories"]
)
def test_what_changes_memories_is_refused_where_nothing_may(
    run: Run, tmp_path: Path, name: str
) -> None:
    before = memories_in(tmp_path)
    status, out, err = run("--read-only", *name.split(), *ARGUMENTS.get(name, []))
    assert (status, out) == (2, "")
    assert f"{name} changes something, but `read_only` is set; turn `read_only` off first." in err
    assert memories_in(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, command in COMMANDS.items()
        if command.changes == "nothing" and name not in NOT_RUN
    ],
)
def test_what_changes_nothing_leaves_every_memory_as_it_is(
    run: Run, tmp_path: Path, name: str
) -> None:
    before = memories_in(tmp_path / "data")
    status, _, err = run(*name.split(), *ARGUMENTS.get(name, []))
    assert status == 0 or "No " in err, err
    assert memories_in(tmp_path / "data") == before


@pytest.mark.skipif(sys.platform == "win32", reason="there is no shared process")
def test_a_look_of_the_shared_process_changes_nothing() -> None:
    looks = [command for command in COMMANDS.values() if command.shared == "look"]
    assert {command.changes for command in looks} == {"nothing"}

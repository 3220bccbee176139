"""Every command's help has an example, each example runs, and --help loads nothing that it does not need."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from one_machine import children_seconds

from sandbox import cli

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("asyncio", "yaml", "rich", "tree_sitter", "py_mini_racer", "zoneinfo")


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every command that does something itself."""
    groups = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    for group in groups:
        for command in group.choices.values():
            yield from commands(command)
    if not groups:
        yield parser


COMMANDS = list(commands(cli.command_parser()))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.prog))
@pytest.mark.skipif(
    sys.platform == "win32", reason="the examples are for the shells of Linux and macOS"
)
def test_the_examples_of_a_help_run_in_an_empty_folder(
    command: argparse.ArgumentParser, tmp_path: Path
) -> None:
    """But for a chat, which is one's own."""
    examples = re.findall(r"^  (.*)$", str(command.epilog), re.MULTILINE)
    assert any("trigger-sandbox" in example for example in examples), (
        f"{command.prog} has no example"
    )
    (tmp_path / "chat.txt").write_text("user: 今天是我的生日\n", "utf-8")
    path = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for example in examples:
        process = subprocess.run(
            ["sh", "-c", example],
            cwd=tmp_path,
            env=path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (process.returncode, process.stderr) == (0, ""), example
        assert process.stdout or "echo" in example


def test_help_loads_nothing_heavy_and_starts_at_once() -> None:
    code = (
        "import sys\nfrom sandbox.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    best = 9.0
    for _ in range(5):
        before = children_seconds()
        process = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        best = min(best, children_seconds() - before)
        assert process.stderr == "[]\n"
        if best <= 0.2:
            break
    assert best <= 0.2


def test_a_console_without_chinese_gets_question_marks_and_no_traceback() -> None:
    command = [sys.executable, "-m", "sandbox.cli", "run", "--help"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (0, b"")
    assert b"match_keys(context.messages, ['birthday', '??'])" in process.stdout


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    # `true` is gone long before Python has started, so every line meets a closed pipe.
    command = (
        f"{shlex.quote(sys.executable)} -m sandbox.cli pack show data/samples/triggers.json | true"
    )
    process = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (process.stdout, process.stderr) == ("", "")

"""Every command's help has an example, each example runs, and --help loads nothing that it does not need."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import cli

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("asyncio", "yaml", "rich", "tree_sitter", "py_mini_racer", "zoneinfo")


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every command that does something itself."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for group in groups:
        for command in group.choices.values():
            yield from commands(command)
    if not groups:
        yield parser


COMMANDS = list(commands(cli.command_parser()))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: str(one.prog))
def test_the_examples_of_a_help_run(
    command: argparse.ArgumentParser,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    examples = re.findall(r"^  (.*trigger-sandbox .*)$", str(command.epilog), re.MULTILINE)
    assert examples, f"{command.prog} has no example"
    (tmp_path / "data").mkdir()
    shutil.copytree(ROOT / "data" / "samples", tmp_path / "data" / "samples")
    (tmp_path / "chat.txt").write_text("user: 今天是我的生日\n", "utf-8")
    (tmp_path / "lorebook.json").write_text('{"entries": {"0": {"key": ["a"], "content": "b"}}}', "utf-8")
    memories = [{"name": "a", "prompt": "b", "trigger": "true"}]
    (tmp_path / "long-term-memory.json").write_text(json.dumps(memories), "utf-8")
    monkeypatch.chdir(tmp_path)
    for example in examples:
        piped, bar, line = example.rpartition("| ")
        if bar:
            text = re.fullmatch(r'echo "(.*)" ', piped)
            assert text, example
            monkeypatch.setattr(sys, "stdin", io.StringIO(text[1]))
        program, *arguments = shlex.split(line)
        assert program == "trigger-sandbox"
        assert cli.main(arguments) == 0, example
    assert capsys.readouterr().out


@pytest.mark.alone
def test_help_loads_nothing_heavy_and_starts_at_once() -> None:
    code = (
        "import sys\nfrom sandbox.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    best = 9.0
    for _ in range(5):
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        best = min(best, time.perf_counter() - started)
        assert done.stderr == "[]\n"
        if best <= 0.2:
            break
    assert best <= 0.2


def test_a_console_without_chinese_gets_question_marks_and_no_traceback() -> None:
    command = [sys.executable, "-m", "sandbox.cli", "new", "--help"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"trigger-sandbox new birthday --name ?????" in done.stdout


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    # `true` is gone long before Python has started, so every line meets a closed pipe.
    command = f"{shlex.quote(sys.executable)} -m sandbox.cli pack show data/samples/triggers.json | true"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("", "")

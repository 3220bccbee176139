"""The examples of the documentation run, in a temporary folder, and print what the page shows."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import forked_programs
import pytest
from bench import eval as evaluate
from docs.markdown_pages import CHINESE, ROOT, Block, Page, agrees, english, page, pages, steps

from memory_server.cli import parser
from sandbox import cli as sandbox_cli

PROGRAMS = {
    "memory-server": parser.main,
    "trigger-sandbox": sandbox_cli.main,
    "tests/bench/eval.py": evaluate.main,
}
IN_A_CLONE = ".venv/bin/python "
FILE_INTO_OUR_PROGRAM = re.compile(
    r"cat (?P<file>[\w.]+) \| memory-server (?P<arguments>[^|&;<>$`]+)"
)
ELSEWHERE = ("docs/reference/trigger-api.md", "docs/explanation/sandbox-security.md")
"""The first has triggers, which tests/sandbox/test_sandbox_docs.py runs; the second shows the layers of one machine."""


def _repeats(read: Page) -> bool:
    """Whether a page is Chinese and has the blocks of its English page, which are run there."""
    if not read.name.endswith(CHINESE):
        return False
    english_blocks = page(english(read.name)).blocks
    return [block.text for block in read.blocks] == [block.text for block in english_blocks]


def _has_examples(read: Page) -> bool:
    """Whether a page has examples that are run here."""
    languages = {block.language for block in read.blocks}
    is_run_elsewhere = english(read.name) in ELSEWHERE or _repeats(read)
    return not languages.isdisjoint({"console", "python"}) and not is_run_elsewhere


WITH_EXAMPLES = [read.name for read in pages() if _has_examples(read)]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder and the environment of somebody who follows a page for the first time."""
    for name in [name for name in os.environ if name.startswith("MEMORY_SERVER_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    work = tmp_path / "work"
    work.mkdir()
    (work / "data").symlink_to(ROOT / "data", target_is_directory=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(work)
    # The log goes to standard error, which is not looked at; pytest keeps its own handlers.
    monkeypatch.setattr("memory_server.process.logs.log_to_stderr", lambda level, serves: None)
    time.tzset()
    yield work
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_page_run_and_print_what_it_shows(
    name: str, reader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = page(name)
    if name.endswith(CHINESE):
        monkeypatch.setenv("LANGUAGE", "zh_CN")  # only these programs look at it
    for number, block in enumerate(read.blocks):
        location = f"{read.name}:{block.line}"
        if block.file_name:
            (reader / block.file_name).write_text(block.text + "\n", encoding="utf-8")
        elif block.language == "console":
            for step in steps(block):
                printed = _run(step.command, monkeypatch)
                assert agrees(printed, step.expected), (
                    f"{read.name}:{step.line}: $ {step.command}\n--- it prints\n{printed}\n--- the page shows\n"
                    f"{step.expected}"
                )
        elif block.language == "python":
            printed = _run_program(block, location)
            shown = _output_of(read, number)
            assert shown is None or agrees(printed, shown), (
                f"{location}: it prints\n{printed}\n--- not\n{shown}"
            )


def test_the_pages_a_newcomer_reads_have_examples() -> None:
    for name in ("README.md", "docs/tutorial/first-memories.md", "docs/how-to/companion.zh-CN.md"):
        assert name in WITH_EXAMPLES


def _run(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command prints on both outputs. Our own programs run in this process, since a start takes half a second;
    one that reads its standard input runs in a process that has imported it."""
    command = command.removeprefix(IN_A_CLONE)
    piped = FILE_INTO_OUR_PROGRAM.fullmatch(command)
    if piped:
        program = forked_programs.run(
            shlex.split(piped["arguments"]), Path(piped["file"]).read_bytes()
        )
        return program.stdout.decode() + program.stderr.decode()
    if _needs_a_shell(command):
        process = subprocess.run(
            ["sh", "-c", command], capture_output=True, timeout=60, check=False
        )
        return process.stdout.decode() + process.stderr.decode()
    match shlex.split(command):
        case ["export", *assignments]:
            for assignment in assignments:
                variable, _, value = assignment.partition("=")
                monkeypatch.setenv(variable, value)
            return ""
        case [program, *arguments]:
            # A file, because `export` writes bytes.
            with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
                # An argument that argparse refuses, or --help, ends the program.
                suppressed = contextlib.suppress(SystemExit)
                with (
                    contextlib.redirect_stdout(printed),
                    contextlib.redirect_stderr(printed),
                    suppressed,
                ):
                    PROGRAMS[program](arguments)
                printed.seek(0)
                return printed.read()
    raise AssertionError(f"no command: {command}")


def _needs_a_shell(command: str) -> bool:
    """Whether it is another program than ours, or a pipe or redirection stands in it outside quotes."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words = list(lexer)
    return words[0] not in (*PROGRAMS, "export") or any(set(word) <= set("|&;<>") for word in words)


def _run_program(block: Block, location: str) -> str:
    """What a program prints. It runs in this process too, with warnings as errors, as everything here."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, location, "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def _output_of(read: Page, number: int) -> str | None:
    """The ```text block right after block `number`, if nothing but blank lines and one short line stands between."""
    block = read.blocks[number]
    if number + 1 == len(read.blocks) or read.blocks[number + 1].language != "text":
        return None
    following = read.blocks[number + 1]
    end = block.line + len(block.text.splitlines()) + 1
    between = [text for line, text in read.prose if end <= line < following.line and text.strip()]
    if len(between) > 1:
        return None
    return following.text

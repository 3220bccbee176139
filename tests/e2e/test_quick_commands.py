"""Commands that only look ask the shared process where it runs: they print the same with and without it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest
from cli_program import run_on
from forked_programs import run as run_program
from forked_programs import start
from shared_process import ON_LINUX, windows
from stdio_process import command

NOW = "2026-06-20T08:00:00Z"
LOOKS = (
    ["where"],
    ["where", "--json"],
    ["list"],
    ["list", "-c", "default"],
    ["search", "Miso"],
    ["search", "zebra"],
    ["search", "--since", "soon"],
    ["show", "nothing-has-this-id"],
    ["history"],
    ["history", "--limit", "1"],
    ["recalls"],
    ["explain", "Miso", "--ask", "What is my cat called?"],
    ["explain", "Miso", "--ask", "What is my cat called?", "--json"],
    ["explain", "--recall", "nonsense"],
    ["list", "--json"],
    ["list", "--family", "notes"],
    ["search", "fly", "--json"],
    ["show", "1"],
    ["show", "1", "--json"],
    ["history", "--family", "notes", "--json"],
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    memory = ["remember", "My cat is called Miso, and [b]sleeps[/b] a lot.", "--turn", "1"]
    for arguments in (
        memory,
        ["call", "remember", '{"type":"tech","topic":"deploy","content":"fly deploy"}'],
    ):
        assert run_on(folder, "--now", NOW, *arguments).status == 0
    return folder


def outcome(data_dir: Path, *arguments: str, **environ: str) -> tuple[int, bytes, bytes]:
    words = ["--data-dir", data_dir, "--now", NOW, *arguments]
    completed = run_program(words, env={**os.environ, **environ})
    return completed.returncode, completed.stdout, completed.stderr


def on_terminal(
    data_dir: Path, *arguments: str, columns: int, environ: Mapping[str, str]
) -> tuple[int, bytes]:
    """Status and output of a command at a terminal of this width."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 30, columns, 0, 0))
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "NO_COLOR", "LINES")
    }
    # Without standard error, on which a process that does the work itself shows how far it is.
    streams = {"stdin": terminal, "stdout": terminal, "stderr": subprocess.DEVNULL}
    words = ["--data-dir", data_dir, "--now", NOW, *arguments]
    with start(words, env={**environment, **environ}, **streams) as process:
        os.close(terminal)
        output = b""
        while select.select([controller], [], [], 60)[0]:
            try:
                if not (piece := os.read(controller, 4096)):
                    break
            except OSError:  # its other end was closed
                break
            output += piece
    os.close(controller)
    return process.wait(60), output


def test_a_look_imports_neither_engine_nor_tool_to_say_where(tmp_path: Path) -> None:
    code = (
        "import sys; from memory_server.cli.parser import main; main(['--data-dir', sys.argv[1], 'where']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    heavy = {
        "memory_server.runtime.app",
        "memory_server.tools",
        "memory_server.conversations.conversation",
        "sandbox.host",
    }
    assert not heavy & set(completed.stderr.split())


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
@pytest.mark.usefixtures("shared")
class TestWithAndWithoutTheSharedProcess:
    @pytest.mark.parametrize(
        "looks",
        [
            (
                ["where"],
                ["search", "Miso", "--json"],
                ["show", "nothing-has-this-id"],
                ["explain", "Miso", "--ask", "What is my cat called?"],
                ["explain", "--recall", "nonsense"],
            ),
            pytest.param(LOOKS, marks=pytest.mark.full),
        ],
        ids=["some", "all"],
    )
    def test_each_look_prints_the_same(
        self, filled: Path, looks: tuple[list[str], ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MEMORY_SERVER_RECALLS__DAYS", "0")
        alone = {" ".join(look): outcome(filled, *look, "--no-daemon") for look in looks}
        with windows(filled, 1, "--now", NOW):
            shared = {" ".join(look): outcome(filled, *look) for look in looks}
        wheres = [name for name in alone if name.startswith("where")]
        for look in wheres:  # the one difference is the process that answers
            assert b"shared" in shared[look][1]
            assert (alone.pop(look)[0], shared.pop(look)[0]) == (0, 0)
        assert shared == alone
        assert {status for status, _, _ in alone.values()} == {0, 1, 2}

    def test_a_look_is_as_wide_and_colourful_as_its_own_terminal(self, filled: Path) -> None:
        cases: list[tuple[int, dict[str, str]]] = [
            (40, {"TERM": "xterm-256color"}),
            (140, {"TERM": "xterm-256color"}),
            (40, {"TERM": "dumb"}),
            (40, {"TERM": "xterm", "NO_COLOR": "1"}),
            (40, {"TERM": "xterm", "COLUMNS": "60", "COLORTERM": "truecolor"}),
        ]
        alone = [
            on_terminal(filled, "list", "--no-daemon", columns=columns, environ=variables)
            for columns, variables in cases
        ]
        assert len(set(alone)) == 3, "narrow, wide, and without bold letters"
        with windows(filled, 1, "--now", NOW):
            for (wide, variables), expected in zip(cases, alone, strict=True):
                assert on_terminal(filled, "list", columns=wide, environ=variables) == expected

    def test_a_look_is_in_the_language_of_its_own_shell(self, filled: Path) -> None:
        alone = outcome(filled, "list", "--no-daemon", LANGUAGE="zh")
        with windows(filled, 1, "--now", NOW):
            assert outcome(filled, "list", LANGUAGE="zh") == alone
        assert "对话".encode() in alone[1]

    def test_a_look_asks_the_process_and_does_not_read_its_input(self, filled: Path) -> None:
        with windows(filled, 1, "--now", NOW):
            code = (
                "import sys; from memory_server.__main__ import main; status = main(); "
                "sys.exit('it did the work itself' if 'memory_server.cli.parser' in sys.modules else status)"
            )
            line = [
                sys.executable,
                "-c",
                code,
                *command(filled, "--now", NOW)[4:],
                "search",
                "Miso",
            ]
            for _ in range(
                20
            ):  # one that has no answer in a quarter of a second does the work itself
                with subprocess.Popen(
                    line, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                ) as process:
                    status = process.wait(30)
                    output = process.stdout and process.stdout.read()
                assert b"Miso" in (output or b"")
                if status == 0:
                    return
        raise AssertionError("the shared process never answered in time")

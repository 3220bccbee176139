"""The command line: what it prints, its exit codes, and one sentence for whatever is wrong."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from cli_program import CommandLine
from one_machine import children_seconds

from sandbox.chats import chat
from sandbox.workbench.chat_replay import moment
from sandbox.workbench.terminal import Terminal


@pytest.fixture
def talk(tmp_path: Path) -> str:
    path = tmp_path / "chat.txt"
    path.write_text("user: 今天是我的生日\nassistant: Happy birthday!\n", encoding="utf-8-sig")
    return str(path)


def test_a_trigger_that_fires(workbench: CommandLine, talk: str) -> None:
    source = "console.log(match_keys(context.messages, ['生日'])); new Date().getHours() === 9"
    code, out, err = workbench(
        "run",
        "-e",
        source,
        "--chat",
        talk,
        "--now",
        "2026-07-17T09:00",
        "--tz",
        "Asia/Shanghai",
    )
    assert (code, err) == (0, "")
    assert re.match(r"console  1\nfired    \d+\.\d ms\n", out)


def test_a_trigger_that_is_quiet(workbench: CommandLine) -> None:
    code, out, _ = workbench("run", "-e", "context.messages.length")
    assert (code, out[:5]) == (1, "quiet")


def test_a_trigger_that_fails_is_shown_with_a_caret(workbench: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "trigger.js"
    path.write_text("1;\n'生日' && nope\n", encoding="utf-8")
    code, out, _ = workbench("run", str(path))
    assert code == 3
    assert out.splitlines()[:3] == [
        "failed   reference: ReferenceError: nope is not defined at line 2, column 9",
        "'生日' && nope",
        "          ^",
    ]


def test_everything_of_the_context_can_be_given(workbench: CommandLine) -> None:
    source = "context.participants.user.name === 'Ann' && context.conversation_id === 'c' && args.messages.length === 0"
    code, _, _ = workbench(
        "run",
        "-e",
        source,
        "--participants",
        '{"user":{"name":"Ann"}}',
        "--conversation",
        "c",
    )
    assert code == 0


def test_the_seed_gives_the_same_numbers_again(workbench: CommandLine) -> None:
    source = "console.log(Math.random())"

    def first_line(seed: str) -> str:
        _, out, _ = workbench("run", "-e", source, "--seed", seed)
        return out.splitlines()[0]

    numbers = first_line("1")
    assert first_line("1") == numbers
    assert first_line("2") != numbers


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "missing.js"], "missing.js cannot be read: No such file"),
        (["run", "-e", "1", "--now", "yesterday"], "--now: 'yesterday' is not an ISO time"),
        (["run", "-e", "1", "--tz", "Mars/Olympus"], "--tz: no time zone 'Mars/Olympus'"),
        (["run", "-e", "1", "--participants", "[1]"], "--participants must be a JSON object"),
        (["run", "-e", "1", "--participants", "{"], "--participants is not JSON"),
        (["run", "-e", "1", "--chat", "missing.txt"], "missing.txt cannot be read"),
    ],
)
def test_a_wrong_command_gets_one_sentence(
    workbench: CommandLine, arguments: list[str], sentence: str
) -> None:
    code, out, err = workbench(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("trigger-sandbox: ")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_file_that_is_no_utf_8(workbench: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_bytes("user: 生日".encode("gbk"))
    code, _, err = workbench("run", "-e", "1", "--chat", str(path))
    assert (code, "add the encoding gb18030, or save the file as UTF-8" in err) == (2, True)


def test_doctor_shows_each_layer(workbench: CommandLine) -> None:
    code, out, _ = workbench("doctor")
    assert code == 0
    assert out.startswith("V8 ")
    for name in ("process", "memory", "file system and network", "system calls"):
        assert re.search(rf"^(active |MISSING)  {name}  ", out, re.MULTILINE), name
    for name in ("opening a file", "making a socket", "starting a program"):
        assert re.search(rf"^(blocked|OPEN   )  {name}  ", out, re.MULTILINE), name
    details = [re.sub(r"^\S+ +(?:\S+ )*\S+  +", "", line) for line in out.splitlines()[1:]]
    columns = {
        line.index(detail) for line, detail in zip(out.splitlines()[1:], details, strict=True)
    }
    assert len(columns) == 1, "what each line says is below that of the others"


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_help_of_a_command_has_an_example_and_starts_at_once(command: str) -> None:
    """What the help of the program itself loads, tests/workbench/test_workbench_help.py looks at."""
    least_seconds = math.inf
    for _ in range(3):
        before = children_seconds()
        process = subprocess.run(
            [sys.executable, "-m", "sandbox.cli", command, "--help"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
            check=True,
        )
        least_seconds = min(least_seconds, children_seconds() - before)
        assert "trigger-sandbox" in process.stdout
        assert "example:" in process.stdout
        if least_seconds < 1.0:
            break
    assert least_seconds < 1.0  # 0.07 s on an idle machine


def test_a_terminal_that_cannot_show_a_character_is_no_failure() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Terminal(out).show("生日 \ud800 ok")
    out.flush()
    assert out.buffer.getvalue() == b"???? ? ok\n"  # type: ignore[attr-defined]


def test_a_moment_has_a_zone() -> None:
    assert moment("2026-07-17T09:00", "Asia/Shanghai").isoformat() == "2026-07-17T09:00:00+08:00"
    assert moment("2026-07-17T09:00Z", "Asia/Shanghai") == datetime.fromisoformat(
        "2026-07-17T09:00:00+00:00"
    )
    assert moment("2026-07-17T09:00", None).tzinfo is not None
    assert moment(None, "UTC").tzinfo is not None


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", []),
        ("user: a", [("user", "a")]),
        ("\ufeffUser： a\nb\n\nassistant:c: d\n", [("user", "a\nb"), ("assistant", "c: d")]),
        ("system:\nuser: note: x", [("system", ""), ("user", "note: x")]),
        (
            '{"role":"user","content":"a"}\n\n{"role":"system","content":"b"}\n',
            [("user", "a"), ("system", "b")],
        ),
    ],
)
def test_a_chat_is_read(text: str, messages: list[tuple[str, str]]) -> None:
    assert [(message["role"], message["content"]) for message in chat.parse(text)[0]] == messages


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello", "line 1 must begin with user:"),
        ("\n\nat 10:30, nobody: x", "line 3 must begin with"),
        ('{"role":"user","content":"a"}\n{"role"', "line 2 is not JSON"),
        ('{"role":"user"}', "line 1 is not a message"),
        ('{"role":"critic","content":"a"}', "line 1 has the role 'critic'"),
    ],
)
def test_what_is_no_chat_is_said_by_line(text: str, sentence: str) -> None:
    with pytest.raises(chat.ChatError, match=re.escape(sentence)):
        chat.parse(text)

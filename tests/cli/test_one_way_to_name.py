"""One way to name a conversation: `-c`."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from cli_program import CommandLine
from forked_programs import start

from memory_server.cli.parser import main
from sandbox.cli import main as workbench


@pytest.fixture
def cli(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command in Shanghai, in the folder of the test."""
    monkeypatch.setenv("MEMORY_SERVER_TIMEZONE", "Asia/Shanghai")
    monkeypatch.chdir(tmp_path)
    return cli


def remembered_id(
    cli: CommandLine, text: str, conversation: str, time_ms: int = 1_780_000_000_000
) -> str:
    messages = [{"role": "user", "content": text, "timestamp": time_ms}]
    arguments = json.dumps({"conversation_id": conversation, "messages": messages})
    memory_id: str = json.loads(cli("call", "add_short_term_memory", arguments).out)["id"]
    return memory_id


def test_looking_needs_no_conversation(cli: CommandLine) -> None:
    mango = remembered_id(cli, "我对芒果过敏", "小满")
    pizza = remembered_id(cli, "我喜欢吃披萨", "小明", 1_780_000_600_000)
    assert "我对芒果过敏" in cli("search", "芒果").out
    assert "芒果" in cli("show", mango[:6]).out
    assert cli("explain", "芒果", "--ask", "芒果蛋糕？").out.startswith(f"{mango} in 小满")
    assert cli("explain", pizza[:6], "--ask", "披萨？").out.startswith(f"{pizza} in 小明")
    changes = cli("history").out.splitlines()
    assert [line.split(" in ")[1].split()[0] for line in changes] == ["小明", "小满"], (
        "newest first"
    )
    assert len(cli("history", "-c", "小明").out.splitlines()) == 1
    assert "More: -c ID" in cli("history", "--limit", "1").err
    listed = cli("list").out
    assert "小满" in listed
    assert mango not in listed
    assert mango in cli("list", "-c", "小满").out


def test_the_only_conversation_is_meant(cli: CommandLine) -> None:
    mango = remembered_id(cli, "我对芒果过敏", "小满")
    assert mango in cli("list").out


def test_what_is_changed_is_found_by_the_beginning_of_its_id(cli: CommandLine) -> None:
    mango = remembered_id(cli, "我对芒果过敏", "小满")
    remembered_id(cli, "我喜欢吃披萨", "小明")
    assert cli("pin", mango[:6]).out.startswith(f"{mango} is pinned.")
    assert "0 pinned" in cli("list", "-c", "小满").out
    unpinned = cli("pin", "--off", mango[:6]).out
    assert unpinned.startswith(f"{mango} is not pinned. Change ")
    changed = unpinned.split()[-1].rstrip(".")
    cli("call", "delete_short_term_memories", '{"conversation_id": "小满", "pattern": "芒果"}')
    assert "Would bring back 1 memory." in cli("undo", "--memory", mango[:6], "--dry-run").out
    assert mango in cli("explain", mango[:6], "--ask", "芒果？").out, (
        "the archive is looked through as well"
    )
    assert "Brought back 1 memory." in cli("undo", "--memory", mango[:6]).out
    assert cli("undo", changed).out.startswith(f"Undid {changed};"), (
        "its conversation is found by the change"
    )
    assert "`zzz` is not in an archive" in cli("undo", "--memory", "zzz").err


def test_a_day_until_which_something_was_removed_is_a_whole_day(cli: CommandLine) -> None:
    remembered_id(cli, "我对芒果过敏", "小满")
    cli("call", "delete_short_term_memories", '{"conversation_id": "小满", "pattern": "芒果"}')
    today = datetime.now(ZoneInfo("Asia/Shanghai")).date()
    listed = ("undo", "--memory", "--dry-run", "--until")
    assert "Would bring back 1 memory." in cli(*listed, today.isoformat()).out
    assert "Would bring back 0" in cli(*listed, (today - timedelta(days=1)).isoformat()).out


def test_an_id_that_begins_several_is_refused_with_the_ids(cli: CommandLine) -> None:
    for number in range(40):
        remembered_id(cli, f"我喜欢吃披萨 {number}", "小明", 1_780_000_000_000 + number * 10**9)
    ids = [
        line.split()[0] for line in cli("list").out.splitlines() if re.match("[0-9a-f]{16} ", line)
    ]
    [(common_letter, number_of_ids)] = Counter(memory_id[0] for memory_id in ids).most_common(1)
    assert number_of_ids > 1
    status, _, err = cli("pin", common_letter)
    assert status == 1
    assert "write more of it" in err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lst", "list"),
        ("serach", "search"),
        ("doktor", "doctor"),
        ("erase", "forget"),
        ("delete", "forget"),
    ],
)
def test_a_wrong_command_gets_the_right_one(cli: CommandLine, typed: str, meant: str) -> None:
    sentence = f"memory-server: There is no command `{typed}`; did you mean `{meant}`?\n"
    assert cli(typed) == (2, "", sentence)


@pytest.mark.parametrize(
    ("program", "typed", "english", "chinese"),
    [
        (
            "memory-server",
            ("install", "cursr"),
            "install` cannot be used with `cursr`; did you mean `cursor`?",
            "`cursor`？",
        ),
        (
            "memory-server",
            ("uninstall", "foo"),
            "`foo`; choose one of: claude-code, ",
            "可以用：claude-code",
        ),
        (
            "memory-server",
            ("list", "--family", "note"),
            "`--family` cannot be `note`; did you mean `notes`?",
            "`notes`？",
        ),
        (
            "memory-server",
            ("zzz",),
            "There is no command `zzz`; `memory-server --help` lists",
            "没有命令 `zzz`；",
        ),
        (
            "memory-server",
            ("secrets", "find"),
            "There is no command `secrets`; choose one of: secrets test, secrets erase",
            "可以用：secrets test, secrets erase",
        ),
        (
            "trigger-sandbox",
            ("lint",),
            "There is no command `lint`; did you mean `check`?",
            "没有命令 `lint`；你是不是",
        ),
        (
            "trigger-sandbox",
            ("pack", "chek"),
            "There is no command `chek`; did you mean `check`?",
            "你是不是",
        ),
        ("trigger-sandbox", ("new", "birtday"), "`birtday`; did you mean `birthday`?", "你是不是"),
    ],
)
def test_a_wrong_choice_gets_the_right_one_in_both_languages(
    program: str,
    typed: tuple[str, ...],
    english: str,
    chinese: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = main if program == "memory-server" else workbench
    for language, sentence in (("en", english), ("zh", chinese)):
        monkeypatch.setenv("MEMORY_SERVER_LANGUAGE", language)
        with pytest.raises(SystemExit, match="2"):
            run(list(typed))
        err = capfd.readouterr().err
        assert sentence in err
        assert err.count("\n") == 1
        assert "invalid choice" not in err


def test_times_are_local_in_a_shell_and_in_utc_for_clients(cli: CommandLine) -> None:
    mango = remembered_id(cli, "我对芒果过敏", "小满")  # 20:26:40 in UTC
    for command in (["list"], ["show", mango], ["search", "芒果"]):
        assert "2026-05-29 04:26" in cli(*command).out
    cli("call", "delete_short_term_memories", '{"conversation_id": "小满", "pattern": "芒果"}')
    texts = [
        cli("search", "芒果", "--archived").out,
        cli("undo", "--memory", mango).out,
        cli("history").out,
    ]
    assert not re.search(r"UTC|\d\dZ", "".join(texts))


def test_every_page_of_help_has_an_example_and_no_setting(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for words in (["list"], ["backup", "restore"], ["install"], ["search"]):
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--help"])
        page = capfd.readouterr().out
        assert "example:\n  memory-server " in page
        assert "--toolsets" not in page
        assert "--data-dir" not in page


def test_nobody_waits_at_a_terminal_without_a_word(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    pipe = subprocess.PIPE
    process = start(["--data-dir", tmp_path, "recall"], stdin=terminal, stdout=pipe, stderr=pipe)
    try:
        assert process.stderr is not None
        assert (
            b"reading messages as JSON from this terminal; Ctrl-D ends it"
            in process.stderr.readline()
        )
    finally:
        process.kill()
        process.communicate()
        os.close(terminal)
        os.close(controller)


def test_without_standard_output_there_is_one_sentence(tmp_path: Path) -> None:
    command = f"{sys.executable} -m memory_server --data-dir {tmp_path} list >&-"
    completed = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert (completed.returncode, completed.stderr.count("\n")) == (1, 1)
    assert "no standard output" in completed.stderr


def test_a_list_on_a_terminal_is_cut_at_its_edge_and_nothing_ends_with_blanks(
    cli: CommandLine, tmp_path: Path
) -> None:
    text = "今天我们去了植物园，看了很多很多的花，还买了一盆小小的多肉植物放在窗台上，晚上又一起吃了火锅。"
    remembered_id(cli, text, "小明")
    plain = cli("list").out
    assert not [line for line in plain.splitlines() if line != line.rstrip()]
    controller, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"}
    with start(["list"], stdout=terminal, env=environment) as process:
        assert process.wait(60) == 0
    os.close(terminal)
    screen = re.sub("\x1b\\[[0-9;]*m", "", os.read(controller, 10_000).decode())
    os.close(controller)
    [line] = [line for line in screen.splitlines() if "植物园" in line]
    assert line.endswith("…")

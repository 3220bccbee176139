"""What the commands say about themselves: aligned, in plain words, and in the language of the reader."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from languages import speaking
from languages.columns import cells
from memory_server.cli import daemon
from memory_server.cli.imports import taken_text
from memory_server.cli.terminal import print_plain, progress, say
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.messages import said_beginning, with_roles
from memory_server.kernel.text import beginning

MESSAGES = [
    {"role": "user", "content": "我喜欢喝乌龙茶", "timestamp": 1782000000000},
    {"role": "assistant", "content": "记住了", "timestamp": 1782000001000},
]

ASKED = {"conversation_id": "阿遥", "recentMessages": [{"role": "user", "content": "喝乌龙茶"}]}


@pytest.fixture
def cli(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command, for a reader of Chinese."""
    monkeypatch.setenv("MEMORY_SERVER_LANGUAGE", "zh")
    return cli


@pytest.fixture
def memory_id(cli: CommandLine) -> str:
    """The id of a memory with two speakers."""
    cli.text(
        "call",
        "add_short_term_memory",
        json.dumps({"conversation_id": "阿遥", "messages": MESSAGES}),
    )
    memory_id: str = json.loads(cli.text("list", "-c", "阿遥", "--json").splitlines()[0])["id"]
    return memory_id


@pytest.mark.parametrize(
    "command",
    [
        ("list", "-c", "阿遥"),
        ("list", "--family", "memories"),
        ("search", "乌龙茶"),
        ("show", "ID"),
        ("explain", "ID", "--ask", "喝什么茶？"),
        ("forget", "乌龙茶", "--dry-run"),
        ("history",),
        ("undo", "--dry-run"),
        (
            "call",
            "--text",
            "search_short_term_memories",
            json.dumps(ASKED),
        ),
    ],
    ids=lambda command: command[0],
)
def test_roles_are_in_the_language_of_the_reader(
    cli: CommandLine, memory_id: str, command: tuple[str, ...]
) -> None:
    out = cli.text(*(word.replace("ID", memory_id) for word in command))
    assert "用户: 我喜欢喝乌龙茶" in out
    assert "user:" not in out
    assert "assistant:" not in out


def test_the_place_of_what_would_be_forgotten_is_translated(
    cli: CommandLine, memory_id: str
) -> None:
    out = cli.text("forget", "乌龙茶", "--dry-run")
    assert "记忆 阿遥" in out
    assert "memories" not in out


@pytest.mark.parametrize(
    "text",
    [
        "user: a\nassistant: b",
        "Alice: a\nassistant: b\nuser: ",
        "no role",
        "user:no blank",
        "user: a\n\n  indented\nsystem: c",
        "",
        "\n",
        "user: " + "long " * 60,
        "user: " + "x" * 94 + "\nassistant: b",
        "user: " + "x" * 93 + "\nassistant: b",
        "user: a\nassistant: " + "y" * 300,
    ],
)
def test_a_text_with_roles_is_the_same_in_english(text: str) -> None:
    assert with_roles(text) == text
    assert said_beginning(text) == beginning(text)


def test_only_the_role_at_the_beginning_of_a_line_is_translated() -> None:
    with speaking("zh"):
        assert with_roles("user: say user: hi\nuserland: x") == "用户: say user: hi\nuserland: x"


@pytest.mark.parametrize(
    ("counts", "dry_run", "english", "chinese"),
    [
        (MergeCounts(added=2), False, "小明: 2 new", "小明：新增 2 条"),
        (MergeCounts(unchanged=27), False, "小明: 27 unchanged", "小明：27 条没有变化"),
        (
            MergeCounts(added=1, forgotten=1),
            False,
            "小明: 1 new, 1 of them forgotten before",
            None,
        ),
        (MergeCounts(added=1, replaced=2), True, "小明 (dry run): 1 new, 2 replaced", None),
        (MergeCounts(), False, "小明: nothing", None),
    ],
)
def test_what_an_import_did_is_a_sentence(
    counts: MergeCounts, dry_run: bool, english: str, chinese: str | None
) -> None:
    text = taken_text("小明", counts, dry_run=dry_run)
    assert text.replace("[bold]", "").replace("[/]", "") == english
    with speaking("zh"):
        text = taken_text("小明", counts, dry_run=dry_run)
    translated = text.replace("[bold]", "").replace("[/]", "")
    assert "得到" not in translated
    assert translated.startswith("小明：" if not dry_run else "小明（")
    assert chinese in (None, translated)


def test_doctor_and_where_put_their_columns_below_each_other(
    cli: CommandLine, memory_id: str
) -> None:
    lines = cli.text("doctor").splitlines()[:-1]
    ends = {cells(re.sub(r"(\S+ +\S+ +).*", r"\1", line)) for line in lines}
    assert len(ends) == 1, lines
    cli.text("call", "add_short_term_memory", json.dumps({"messages": MESSAGES}))
    out = cli.text("where").splitlines()
    heading = next(number for number, line in enumerate(out) if line.startswith("对话"))
    ends = {cells(re.sub(r"(\S+ +).*", r"\1", line)) for line in out[heading : heading + 3]}
    assert len(ends) == 1, out


def test_doctor_names_only_shared_processes_of_this_folder(
    cli: CommandLine, memory_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"pid": 11, "sessions": 1, "since": 1782000000, "place": str(tmp_path / "data")}
    theirs = ours | {"pid": 22, "place": "/elsewhere"}
    monkeypatch.setattr(
        daemon, "running", lambda: [(Path("a.sock"), ours), (Path("b.sock"), theirs)]
    )
    for command in ("doctor", "where"):
        out = cli.text(command)
        assert "11" in out
        assert "/elsewhere" not in out


@pytest.mark.parametrize("names_folder", [True, False])
def test_uninstall_says_where_the_memories_stay_and_how_long_the_shared_process(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_folder: bool
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(Path, "home", classmethod(lambda _class: home))
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / ("other" if names_folder else "data")
    folder.mkdir(exist_ok=True)
    process_note: dict[str, Any] = {"place": str(folder)}
    monkeypatch.setattr(daemon, "running", lambda: [(Path("a.sock"), process_note)])
    cli.text("install", "cursor", *(["--data-dir", str(folder)] if names_folder else []))
    out = cli.text("uninstall", "cursor", "--dry-run")
    assert "记忆还在" not in out, "nothing was taken out"
    out = cli.text("uninstall", "cursor")
    assert f"记忆还在 {folder} 里" in out
    assert "10 分钟" in out
    assert "memory-server daemon stop" in out
    assert "记忆还在" not in cli.text("uninstall", "cursor"), "nothing was changed"


@pytest.mark.parametrize("text", ["a :cat: b", "[bold]x[/] {y}"])
def test_a_text_in_a_message_is_shown_as_it_is(
    text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    say("Revoked the token {name}.", text)
    print_plain(text)
    assert capfd.readouterr().out == f"Revoked the token {text}.\n{text}\n"


@pytest.mark.parametrize("title", ["importing [/] x", "importing [bold]x", "importing \x1b[2Jx"])
def test_the_title_of_a_progress_bar_may_hold_any_name(
    title: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # the bar is only shown on a terminal
    monkeypatch.setenv("COLUMNS", "100")
    with progress(title, 1) as advance:
        advance()
    shown = capsys.readouterr().err
    assert title.replace("\x1b", "\ufffd") in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)

"""`memory-server import` and `export` on files and folders."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from cli_program import CommandLine
from store_on_disk import tree

from memory_server.kernel import files as folders

OLD = [
    {
        "time_stamp": "2026-05-01T10:00:00.000Z",
        "text": "user: 我住在杭州",
        "keywords": [],
        "conversation_id": "小明",
        "mood": {"x": 1},
    }
]
PACK = [
    {
        "name": "生日",
        "prompt": "祝贺",
        "trigger": "match_keys(context.messages, ['生日']) > 0",
        "tags": ["a"],
    },
    {"name": "broken", "prompt": "p", "trigger": "f(("},
]


@pytest.fixture
def cli(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command in UTC, in the folder of the test."""
    monkeypatch.setenv("MEMORY_SERVER_TIMEZONE", "UTC")
    monkeypatch.chdir(tmp_path)
    return cli.with_flags("--data-dir", "data")


def write(name: str, value: object, encoding: str = "utf-8") -> None:
    text = value
    if not isinstance(text, str):
        text = json.dumps(value, ensure_ascii=False)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(text.encode(encoding))


def stored(cli: CommandLine) -> list[str]:
    return cli("export", "-")[1].splitlines()[1:]


def test_a_dry_run_shows_what_would_come_and_changes_nothing(
    cli: CommandLine, tmp_path: Path
) -> None:
    write("old/小明~x/short-term-memory.json", [*OLD, {"text": "no time"}])
    status, out, _ = cli("import", "old", "--dry-run")
    assert status == 0
    assert "old has the format node." in out
    assert "(dry run): 1 new" in out
    assert "  2026-05-01 10:00  user: 我住在杭州" in out
    assert "left out  小明~x/short-term-memory.json, memory 2: it has no timestamp" in out
    assert "1 memory can be used, 1 record left out. Nothing was changed." in out
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("form", ["native", "node"])
def test_everything_survives_an_export_and_an_import(cli: CommandLine, form: str) -> None:
    write("pack.json", PACK[:1])
    write("old.json", OLD)
    cli("import", "old.json")
    cli("import", "pack.json", "-c", "小红")
    before = stored(cli)
    assert '"mood":{"x":1}' in "".join(before)
    assert cli("export", "out", "--format", form)[0] == 0
    Path("data").rename("former")
    assert cli("import", "out")[0] == 0
    assert stored(cli) == before
    assert cli("import", "out")[1].count("1 unchanged") == 2


def test_keywords_are_found_for_memories_without(cli: CommandLine) -> None:
    write("old.json", OLD)
    cli("import", "old.json")
    assert '"word":"杭州"' in "".join(stored(cli))


def test_a_trigger_that_cannot_work_is_left_out_with_its_reason(cli: CommandLine) -> None:
    write("pack.json", PACK)
    status, out, _ = cli("import", "pack.json", "-c", "小红")
    assert status == 0
    assert "小红: 1 new" in out
    assert "left out  broken: its trigger cannot work: " in out


def test_files_in_gbk_are_named_as_such_and_read_when_told(cli: CommandLine) -> None:
    write("gbk.json", OLD, "gbk")
    status, _, err = cli("import", "gbk.json")
    assert status == 2
    assert "probably GBK; add `--encoding gb18030`" in err
    assert cli("import", "gbk.json", "--encoding", "gb18030")[0] == 0
    assert "我住在杭州" in "".join(stored(cli))
    write("utf16.json", OLD, "utf-16")
    assert "1 unchanged" in cli("import", "utf16.json")[1]
    assert "there is no encoding" in cli("import", "gbk.json", "--encoding", "klingon")[2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["import", "nowhere.json"], "nowhere.json cannot be read: No such file"),
        (["import", "text.txt"], "text.txt has an unknown form"),
        (["import", "text.txt", "--format", "pack"], "text.txt is not JSON"),
        (["import", "folder"], "folder holds no file of a format that can be imported as a folder"),
        (["import", "folder", "--format", "pack"], "is a folder, but the format pack is a file"),
        (["import", "old.json", "-c", "小红"], "old.json names its own conversations"),
        (["export", "text.txt"], "nothing to export"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(
    cli: CommandLine, arguments: list[str], sentence: str
) -> None:
    write("text.txt", "hello")
    write("old.json", OLD)
    Path("folder").mkdir()
    before = tree(Path.cwd())
    status, out, err = cli(*arguments)
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert tree(Path.cwd()) == before


def test_a_form_that_holds_no_notes_says_so(cli: CommandLine) -> None:
    cli(
        "call",
        "remember",
        '{"type": "tech", "topic": "pool", "content": "The pool has 20 connections."}',
    )
    status, out, err = cli("export", "-", "--format", "pack")
    assert (status, out) == (2, "")
    assert "nothing to export in this format: " in err
    assert "holds notes (1)." in err
    write("old.json", OLD)
    cli("import", "old.json")
    report = cli("export", "page.md", "--format", "markdown")[1]
    assert "Not included: 1 entry of other kinds; use the format native or csv for them." in report


def test_an_export_replaces_nothing_unless_told(cli: CommandLine) -> None:
    write("old.json", OLD)
    cli("import", "old.json")
    write("there.md", "mine")
    assert "add --force" in cli("export", "there.md", "--format", "markdown")[2]
    assert cli("export", "there.md", "--format", "markdown", "--force")[0] == 0
    assert "## 小明" in Path("there.md").read_text(encoding="utf-8")
    assert Path("there.md").stat().st_mode & 0o077 == 0
    write("full/file", "mine")
    assert "full is not empty" in cli("export", "full", "--format", "node")[2]
    assert "is a folder; give the name of a folder" in cli("export", "-", "--format", "node")[2]
    assert "cannot be written" in cli("export", "no/such/folder.jsonl")[2]


def test_a_data_folder_of_ours_is_not_read_around_its_journal(cli: CommandLine) -> None:
    write("old.json", OLD)
    cli("import", "old.json")
    assert "is a data folder of memory-server" in cli("import", "data")[2]


def test_a_file_beyond_all_measure_is_refused_unread(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAX_FILE_BYTES", 10)
    write("old.json", OLD)
    assert "old.json has more than 10 bytes; split it." in cli("import", "old.json")[2]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="pipes have no names here")
def test_a_pipe_that_the_user_names_is_read_as_far_as_a_file_is(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def piped(data: bytes) -> str:
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        try:
            return "".join(cli("import", f"/dev/fd/{reading}", "--dry-run")[1:])
        finally:
            os.close(reading)

    data = json.dumps(OLD).encode()
    assert "小明 (dry run): 1 new" in piped(data)
    monkeypatch.setattr(folders, "MAX_FILE_BYTES", len(data) - 1)
    assert f"has more than {len(data) - 1} bytes; split it." in piped(data)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_in_a_folder_is_no_file_of_memories(cli: CommandLine) -> None:
    write("old/小明/short-term-memory.json", OLD)
    os.mkfifo("old/小明/long-term-memory.json")
    try:
        status, _, err = cli("import", "old")
    finally:
        with contextlib.suppress(OSError):  # whoever does wait for it is let go
            os.close(os.open("old/小明/long-term-memory.json", os.O_WRONLY | os.O_NONBLOCK))
    assert (
        status,
        "long-term-memory.json cannot be read: it is a named pipe and not a file" in err,
    ) == (2, True)


def test_standard_input_is_read(cli: CommandLine) -> None:
    assert "小明: 1 new" in cli("import", "-", stdin=OLD).out


def test_a_lorebook_comes_with_its_invalid_expression_as_plain_text(cli: CommandLine) -> None:
    entry = {"uid": 0, "comment": "芒果", "key": ["/m[/", "芒果"], "content": "过敏"}
    write("book.json", {"entries": {"0": entry}})
    status, out, err = cli("import", "book.json", "-c", "小明")
    assert (status, err) == (0, "")
    assert "has the format worldinfo" in out
    assert "not a valid expression" in out


def test_an_export_says_what_is_not_in_it(cli: CommandLine, tmp_path: Path) -> None:
    message = {"role": "user", "content": "我喜欢吃披萨"}
    cli("call", "add_short_term_memory", json.dumps({"messages": [message]}))
    cli("call", "add_long_term_memory", json.dumps({"name": "a", "prompt": "p", "trigger": "true"}))
    _, out, _ = cli("export", "pack.json", "--format", "pack")
    assert "1 memory of 1 conversation," in out
    assert "Not included: 1 short-term memory; a pack holds only long-term memories." in out
    assert "Not included" not in cli("export", "all.jsonl")[1]

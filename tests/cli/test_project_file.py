"""`.memory-server.toml`: one hook and one server for all folders, in each with the conversation that it names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from hook_transcripts import event, transcript, user
from stdio_process import command, running

from memory_server.config.project_file import MOST_BYTES, NAME, project_at, read, text_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.files import PRIVATE

NOW = "2026-06-20T08:00:10Z"


@pytest.mark.parametrize(
    "name",
    ["my-project", "小明", 'with "quotes" and \\', "it's", "a = 1 # no comment", "Родной 🐈"],
)
def test_a_file_gives_back_the_name_that_was_written_into_it(tmp_path: Path, name: str) -> None:
    (tmp_path / NAME).write_text(text_of(name), encoding="utf-8")
    assert read(tmp_path / NAME).conversation == name


def test_the_nearest_file_above_a_folder_counts(tmp_path: Path) -> None:
    deep = tmp_path / "project" / "package" / "src"
    deep.mkdir(parents=True)
    assert project_at(deep) is None
    (tmp_path / "project" / NAME).write_text('conversation = "outer"', encoding="utf-8")
    project = project_at(deep)
    assert project is not None
    assert (project.conversation, project.path, project.ignored) == (
        "outer",
        tmp_path / "project" / NAME,
        (),
    )
    (deep.parent / NAME).write_text('\ufeffconversation = "inner"\r\n', encoding="utf-8")
    assert [
        getattr(project_at(folder), "conversation", None)
        for folder in (deep, deep.parent.parent, tmp_path)
    ] == [
        "inner",
        "outer",
        None,
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "does not name a conversation"),
        (b'conversaton = "x"', "does not name a conversation"),
        (b"conversation = 5", "does not name a conversation"),
        (b'conversation = ["x"]', "does not name a conversation"),
        (b'conversation = ""', "The conversation_id is empty"),
        (b'conversation = "a\\nb"', "line break"),
        (b"conversation = my-project", "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
        (b"a = " + b"[" * 9_000, "is not valid TOML"),
        (b'conversation = "x"\n#' + b"x" * MOST_BYTES, "has more than 10,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_and_never_passed_over(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(InvalidInput) as raised:
        project_at(tmp_path / "below")
    assert str(tmp_path / NAME) in str(raised.value)
    assert reason in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / NAME).mkdir()
    assert project_at(tmp_path / "folder") is None


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """The command, on the day of these tests."""
    return cli.with_flags("--now", NOW)


def stop_event(tmp_path: Path, text: str, folder: Path) -> dict[str, Any]:
    path = tmp_path / "session.jsonl"
    path.write_bytes(transcript(user(text)))
    return event("Stop", transcript_path=str(path), last_assistant_message="好", cwd=str(folder))


def conversation_folders(folder: Path) -> list[Path]:
    """The folders of conversations; the record of recalls is beside them."""
    return [path for path in (folder / "data").iterdir() if path.name != PRIVATE]


@pytest.mark.parametrize("flags", [(), ("--conversation", "mine")])
def test_what_is_said_in_a_project_lies_nowhere_else(
    cli: CommandLine, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    project = tmp_path / "project" / "src"
    elsewhere = tmp_path / "elsewhere"
    project.mkdir(parents=True)
    elsewhere.mkdir()
    (tmp_path / "project" / NAME).write_text(text_of("heron"), encoding="utf-8")
    assert cli(*flags, "hook", stdin=stop_event(tmp_path, "代号是苍鹭", project)) == (0, "", "")
    assert cli(*flags, "hook", stdin=stop_event(tmp_path, "我喜欢披萨", elsewhere)) == (0, "", "")
    usual = flags[1] if flags else "default"
    folders = conversation_folders(tmp_path)
    texts = {
        folder.name: (folder / "short-term-memory.json").read_text("utf-8") for folder in folders
    }
    assert {name: "苍鹭" in text for name, text in texts.items()} == {"heron": True, usual: False}
    prompt = event("UserPromptSubmit", prompt="苍鹭是什么代号？", session_id="s2")
    assert "苍鹭" in cli(*flags, "hook", stdin=prompt | {"cwd": str(project)}).out
    assert cli(*flags, "hook", stdin=prompt | {"cwd": str(elsewhere)}).out == ""


def test_a_repository_says_nothing_but_a_name(cli: CommandLine, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / NAME).write_text(
        f'conversation = "x"\ndata_dir = "{tmp_path / "theirs"}"\nread_only = true', "utf-8"
    )
    status, out, err = cli("hook", stdin=stop_event(tmp_path, "我喜欢披萨", project))
    assert (status, out) == (0, "")
    assert (
        err
        == f"memory-server: {project / NAME}: only `conversation` is read there; data_dir, read_only has no effect\n"
    )
    assert [folder.name for folder in conversation_folders(tmp_path)] == ["x"]
    assert not (tmp_path / "theirs").exists()


def test_where_the_file_cannot_be_used_a_hook_keeps_nothing_and_brings_nothing(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli("hook", stdin=stop_event(tmp_path, "我喜欢披萨", tmp_path))
    project = tmp_path / "project"
    project.mkdir()
    (project / NAME).write_text("conversation = heron", encoding="utf-8")
    stop = stop_event(tmp_path, "代号是苍鹭", project)
    prompt = event("UserPromptSubmit", prompt="披萨", cwd=str(project))
    for hook_event in (stop, prompt):
        status, out, err = cli("hook", stdin=hook_event)
        assert (status, out) == (0, "")
        assert err.count("\n") == 1
        assert "is not valid TOML" in err
    assert len(json.loads(cli("call", "get_memory_stats").out)["conversationCounts"]) == 1


def test_where_says_which_conversation_the_folder_has(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "heron" not in cli("where").out
    (tmp_path / NAME).write_text(text_of("heron"), encoding="utf-8")
    assert f"here      heron, set by {tmp_path / NAME} for" in cli("where").out
    # What is typed names its conversation itself.
    cli("remember", stdin=[{"role": "user", "content": "我喜欢披萨"}])
    assert [folder.name for folder in (tmp_path / "data").iterdir()] == ["default"]


def test_a_server_that_is_started_in_a_project_uses_its_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / NAME).write_text(text_of("heron"), encoding="utf-8")
    monkeypatch.chdir(project)
    with running(command(tmp_path / "data")) as client:
        client.connect()
        client.call("add_short_term_memory", messages=[{"role": "user", "content": "代号是苍鹭"}])
        assert client.call("get_memory_stats", conversation_id="heron")["total"] == 1
        assert client.call("get_memory_stats")["total"] == 1
        assert client.call("get_memory_stats", conversation_id="default")["total"] == 0
    (project / NAME).write_text("conversation = ", encoding="utf-8")
    with running(command(tmp_path / "data")) as client:
        assert client.process.wait(60) == 2
        assert client.process.stderr is not None
        assert b"is not valid TOML" in client.process.stderr.read()


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_counts_in_the_home_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "dotfiles").write_text('conversation = "mine"', encoding="utf-8")
    for folder in ("home", "repository"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / NAME).symlink_to(tmp_path / "dotfiles")
    project = project_at(tmp_path / "home")
    assert project is not None
    assert project.conversation == "mine"
    with pytest.raises(InvalidInput, match="is a link, which may come with a repository; write"):
        project_at(tmp_path / "repository")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
def test_a_file_of_another_user_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / NAME).write_text('conversation = "mine"', encoding="utf-8")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / NAME).write_text('conversation = "theirs"', encoding="utf-8")
    os.chown(tmp_path / "below" / NAME, 65534, -1)
    project = project_at(tmp_path / "below")
    assert project is not None
    assert project.conversation == "mine"
    assert (
        "is not used, because it, or its folder, belongs to another user" in capsys.readouterr().err
    )

"""`memory-server pause` and `resume`: while it lasts, nothing that is said is kept, and no hook recalls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from cli_program import CommandLine
from hook_transcripts import event, transcript, user

from memory_server import App, Message, Settings
from memory_server.cli.parser import main
from memory_server.kernel.errors import MemoryPaused
from memory_server.storage.small_files import PauseNote

NOON = "2026-06-20T12:00:00Z"
ONE = "2026-06-20T13:00:00Z"
THREE = "2026-06-20T15:00:00Z"
TRIGGER = (
    '{"name":"过敏","prompt":"不能吃花生","trigger":"match_keys(context.messages,[\'花生\'])"}'
)


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """The command in Shanghai, at noon."""
    return cli.with_flags("--now", NOON, "--timezone", "Asia/Shanghai")


def stop_event(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "session.jsonl"
    path.write_bytes(transcript(user(text)))
    return event("Stop", transcript_path=str(path), last_assistant_message="好")


PROMPT_EVENT = event("UserPromptSubmit", prompt="能吃花生吗？", session_id="another")


def memory_count(cli: CommandLine) -> int:
    return int(json.loads(cli("call", "get_memory_stats").out)["total"])


def test_while_it_is_paused_hooks_neither_recall_nor_remember(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli("hook", stdin=stop_event(tmp_path, "我对花生过敏"))
    assert "花生" in cli("hook", stdin=PROMPT_EVENT, now=ONE).out
    assert cli("pause") == (
        0,
        "Memory is paused until `memory-server resume`: nothing is stored, and hooks do not recall.\n",
        "",
    )
    for hook_event in (PROMPT_EVENT, stop_event(tmp_path, "我的密码是 1234")):
        status, out, err = cli("hook", stdin=hook_event, now=ONE)
        assert (status, out) == (0, "")
        assert err == (
            "memory-server: hook: nothing is recalled or remembered: paused until `memory-server resume`\n"
        )
    assert cli("resume", now=THREE) == (0, "Memory resumed.\n", "")
    assert memory_count(cli) == 1
    # In a session that was not given it yet.
    prompt = event("UserPromptSubmit", prompt="能吃花生吗？", session_id="new")
    assert "花生" in cli("hook", stdin=prompt, now=THREE).out
    assert cli("resume") == (0, "Memory was not paused.\n", "")


def test_nothing_is_said_of_a_folder_that_does_not_exist_yet(cli: CommandLine) -> None:
    assert cli("resume") == (0, "Memory was not paused.\n", "")


def test_a_pause_ends_by_itself_when_its_time_is_over(cli: CommandLine, tmp_path: Path) -> None:
    assert "paused until 2026-06-20 22:00, or until" in cli("pause", "--for", "2h").out
    assert "22:00" in cli("hook", stdin=stop_event(tmp_path, "一"), now=ONE).err
    assert cli("hook", stdin=stop_event(tmp_path, "二"), now=THREE) == (0, "", "")
    assert memory_count(cli) == 1
    assert "22:50" in cli("pause", "--for", "170m").out, "a second one takes the place of the first"
    assert cli("resume", now=THREE).out == "Memory was not paused.\n", "it is over"


def test_what_is_stored_by_a_command_or_a_tool_is_refused_with_the_way_out(
    cli: CommandLine,
) -> None:
    cli("pause", "--for", "1d")
    status, out, err = cli("remember", stdin=[{"role": "user", "content": "我的密码是 1234"}])
    assert (status, err) == (0, "")
    assert out.startswith("Memory is paused until 2026-06-21 20:00")
    assert out.endswith("; nothing was stored.\n")
    adding = json.dumps({"messages": [{"role": "user", "content": "x"}]})
    for tool, arguments in (("add_short_term_memory", adding), ("add_long_term_memory", TRIGGER)):
        status, out, err = cli("call", tool, arguments)
        assert (status, out) == (1, "")
        assert "`memory-server resume`; nothing was stored." in err
    assert json.loads(cli("call", "list_long_term_memories").out)["total"] == 0
    assert memory_count(cli) == 0


def test_where_and_doctor_tell_of_it(cli: CommandLine) -> None:
    assert "paused" not in cli("where").out
    cli("pause")
    assert "paused until `memory-server resume`" in cli("where").out
    notes = [
        finding
        for finding in json.loads(cli("doctor", "--json").out)["findings"]
        if "paused" in finding["what"]
    ]
    assert [(note["grade"], note["about"]) for note in notes] == [("note", "folder")]


@pytest.mark.parametrize(
    "duration", ["", "2", "h", "-2h", "0m", "2 weeks", "1.5h", "999999999d", "٢h"]
)
def test_what_is_not_a_duration_is_told_and_nothing_is_paused(
    cli: CommandLine, tmp_path: Path, duration: str
) -> None:
    status, out, err = cli("pause", f"--for={duration}")
    assert (status, out) == (2, "")
    assert "write a number and m, h or d, such as 30m, 2h or 3d." in err
    assert not (tmp_path / "data").exists()


def test_a_memory_that_nobody_changes_is_not_paused_either(cli: CommandLine) -> None:
    assert cli("--read-only", "pause").status == 2
    assert cli("--read-only", "resume").status == 2


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"until": "tomorrow"}', b'{"until": true}']
)
def test_a_note_that_cannot_be_read_is_a_pause(tmp_path: Path, content: bytes) -> None:
    note = tmp_path / ".memory-server" / "paused.json"
    note.parent.mkdir()
    note.write_bytes(content)
    assert PauseNote(tmp_path).read(0) is not None
    PauseNote(tmp_path).remove()
    assert PauseNote(tmp_path).read(0) is None


@pytest.mark.anyio
async def test_a_process_that_runs_sees_at_once_that_another_one_paused(
    tmp_path: Path, cli: CommandLine
) -> None:
    async with App(Settings(data_dir=tmp_path / "data")) as app:
        chat = app.conversation()
        await chat.short_term.add([Message("user", "一")])
        await anyio.to_thread.run_sync(main, ["pause"])
        with pytest.raises(MemoryPaused):
            await chat.short_term.add([Message("user", "二")])
        with pytest.raises(MemoryPaused):
            await chat.long_term.update("过敏", prompt="x")
        await anyio.to_thread.run_sync(main, ["resume"])
        await chat.short_term.add([Message("user", "三")])
        assert [memory.text for memory in await chat.short_term.memories()] == [
            "user: 一",
            "user: 三",
        ]

"""The hook in VS Code and Cursor: events and transcripts as documentation and other programs describe them. Neither
client was run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from memory_server.operations.hook_events import event_of

Run = Callable[[dict[str, Any]], str]


@pytest.fixture
def run(cli: CommandLine) -> Run:
    """What the hook prints for an event."""

    def run(hook_event: dict[str, Any]) -> str:
        outcome = cli("--timezone", "Asia/Shanghai", "hook", stdin=hook_event)
        assert (outcome.status, outcome.err) == (0, "")
        return outcome.out

    return run


def stored_messages(folder: Path) -> Iterator[list[tuple[str, str]]]:
    for record in json.loads((folder / "data" / "default" / "short-term-memory.json").read_bytes()):
        yield [(message["role"], message["content"]) for message in record["messages"]]


def written_transcript(path: Path, *entries: dict[str, Any]) -> str:
    path.write_text(
        "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries), encoding="utf-8"
    )
    return str(path)


def vscode_event(name: str, path: str, session: str = "v1", **fields: Any) -> dict[str, Any]:
    about = {
        "timestamp": "2026-06-20T08:00:00.000Z",
        "hook_event_name": name,
        "session_id": session,
    }
    return about | {"transcript_path": path, "cwd": "/tmp"} | fields


def copilot_entry(kind: str, content: str, **data: Any) -> dict[str, Any]:
    at = "2026-06-20T08:00:00.000Z"
    return {
        "type": kind,
        "data": {"content": content, **data},
        "id": "x",
        "timestamp": at,
        "parentId": None,
    }


def test_vs_code(run: Run, tmp_path: Path) -> None:
    path = written_transcript(
        tmp_path / "v.jsonl",
        {
            "type": "session.start",
            "data": {"sessionId": "v1"},
            "timestamp": "2026-06-20T07:59:00.000Z",
        },
        copilot_entry("user.message", "我的狗叫阿黄"),
        {
            "type": "assistant.turn_start",
            "data": {"turnId": "0"},
            "timestamp": "2026-06-20T08:00:01.000Z",
        },
        copilot_entry("assistant.message", "", toolRequests=[{"name": "read_file"}]),
        copilot_entry("assistant.message", "记住了，阿黄"),
    )
    ended = vscode_event("Stop", path, stop_hook_active=False)
    assert run(ended) == run(ended) == ""
    assert list(stored_messages(tmp_path)) == [
        [("user", "我的狗叫阿黄"), ("assistant", "记住了，阿黄")]
    ]
    start = vscode_event("SessionStart", str(tmp_path / "none"), "v2", source="new")
    output = json.loads(run(start))["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    assert "我的狗叫阿黄" in output["additionalContext"]
    second_answer = run(
        vscode_event("UserPromptSubmit", str(tmp_path / "none"), "v2", prompt="阿黄是谁？")
    )
    assert second_answer == "", "this session was given it at its start"
    other_answer = run(
        vscode_event("UserPromptSubmit", str(tmp_path / "none"), "v3", prompt="阿黄是谁？")
    )
    assert "我的狗叫阿黄" in json.loads(other_answer)["hookSpecificOutput"]["additionalContext"]


def test_the_names_that_vs_code_documents_are_known_too() -> None:
    hook_event = event_of({"hookEventName": "Stop", "sessionId": "v1", "transcript_path": "/t"})
    assert (hook_event.name, hook_event.session_id) == ("Stop", "v1")


def cursor_event(
    name: str, path: str, session: str = "c1", turn: str = "g1", **fields: Any
) -> dict[str, Any]:
    about = {
        "conversation_id": session,
        "generation_id": turn,
        "hook_event_name": name,
        "cursor_version": "2.0",
    }
    return about | {"workspace_roots": ["/tmp"], "transcript_path": path} | fields


def cursor_entry(role: str, *blocks: Any) -> dict[str, Any]:
    texts = [
        {"type": "text", "text": block} if isinstance(block, str) else block for block in blocks
    ]
    return {"role": role, "message": {"content": texts}}


def test_cursor(run: Run, tmp_path: Path) -> None:
    query = (
        "<attached_files>\nsecret.txt\n</attached_files>\n<user_query>\n我的狗叫阿黄\n</user_query>"
    )
    path = written_transcript(
        tmp_path / "c.jsonl",
        cursor_entry("user", query),
        cursor_entry("assistant", "看一下", {"type": "tool_use", "name": "Read", "input": {}}),
        cursor_entry("assistant", "记住了，阿黄"),
    )
    ended = cursor_event("stop", path, status="completed", loop_count=0)
    assert run(ended) == run(ended) == ""
    assert list(stored_messages(tmp_path)) == [
        [("user", "我的狗叫阿黄"), ("assistant", "看一下\n记住了，阿黄")]
    ]
    begun = json.loads(run(cursor_event("sessionStart", "", "c2", is_background_agent=False)))
    assert "我的狗叫阿黄" in begun.pop("additional_context")
    assert begun == {}
    assert run(cursor_event("beforeSubmitPrompt", path, "c2", prompt="阿黄是谁？")) == "", (
        "it cannot add to a prompt"
    )


def test_the_folder_of_cursor_decides_the_conversation() -> None:
    assert event_of(cursor_event("stop", "")).cwd == "/tmp"
    assert event_of(cursor_event("stop", "", workspace_roots=[])).cwd is None
    assert event_of(cursor_event("stop", "", cwd=None)).cwd == "/tmp"
    assert event_of(cursor_event("stop", "")).prompt_id == "g1"

"""Who wrote a prompt: what a program says is kept under its name, and comes only where it is searched for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hook_transcripts import assistant, event, user

from memory_server.conversations.model import EVERYWHERE, ConversationState, ShortTermMemory
from memory_server.interchange import claude_code, codex
from memory_server.interchange.spoken_places import program_of
from memory_server.memories.hooks import Turn
from memory_server.operations.hook_events import event_of, turn_ended

Line = dict[str, Any]
OBSERVER = "/home/ana/.claude-mem/observer-sessions"


def session(*prompts: str, **fields: Any) -> bytes:
    rows: list[Line] = []
    for number, prompt in enumerate(prompts):
        named = {"uuid": f"u{number}", "sessionId": "s1"} | fields
        rows.append(user(prompt, f"p{number}", at=f"2026-06-20T08:0{number}:00.000Z", **named))
        named = {"uuid": f"a{number}", "sessionId": "s1"} | fields
        rows.append(assistant("Done.", at=f"2026-06-20T08:0{number}:05.000Z", **named))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def imported(data: bytes, *programs: str) -> list[ShortTermMemory]:
    folders = claude_code.WorkingFolders(lambda folder: folder, lambda folder: "")
    incoming = claude_code.read({"p/s1.jsonl": data}, "default", {}, folders, programs)
    return list(incoming.conversations[0].short_term)


def ended(data: bytes, prompt_id: str, *programs: str) -> Turn:
    fields = {"prompt_id": prompt_id, "last_assistant_message": "Done."}
    turn = turn_ended(event_of(event("Stop", **fields)), data, programs)
    assert turn is not None
    return turn


@pytest.mark.parametrize(
    ("fields", "prompts", "name"),
    [
        ({"entrypoint": "cli"}, 1, ""),
        ({"entrypoint": "claude-vscode"}, 1, ""),
        ({"entrypoint": "claude-desktop"}, 1, ""),
        ({}, 1, ""),
        ({"entrypoint": "sdk-cli"}, 1, "claude -p"),
        ({"entrypoint": "sdk-cli"}, 3, "claude -p"),
        ({"entrypoint": "claude-code-github-action"}, 1, "claude-code-action"),
        ({"entrypoint": "sdk-ts"}, 1, "Claude Agent SDK"),
        ({"entrypoint": "sdk-ts"}, 2, ""),
        ({"entrypoint": "sdk-py"}, 1, "Claude Agent SDK"),
        ({"entrypoint": "sdk-py"}, 5, ""),
        ({"promptSource": "sdk"}, 1, "Claude Agent SDK"),
        ({"entrypoint": "sdk-ts", "cwd": OBSERVER}, 9, "claude-mem"),
        ({"entrypoint": "cli", "cwd": OBSERVER.replace("/", "\\")}, 9, "claude-mem"),
        ({"cwd": "/home/ana/observer-sessions"}, 9, ""),
        ({"source": "exec", "originator": "codex_exec"}, 2, "codex exec"),
        ({"source": "exec", "originator": "codex_sdk_ts"}, 1, "Codex SDK"),
        ({"source": "exec", "originator": "codex_sdk_ts"}, 2, ""),
        ({"source": "mcp"}, 1, "codex mcp-server"),
        ({"source": "vscode"}, 1, ""),
        ({"source": {"subagent": "review"}}, 1, ""),
        ({"entrypoint": "my-bot"}, 4, "my-bot"),
    ],
)
def test_who_wrote_the_prompts_of_a_session(fields: Line, prompts: int, name: str) -> None:
    assert program_of(fields, prompts, ["my-bot"]) == name


def test_an_import_and_the_hook_say_the_same_of_a_prompt_of_a_program() -> None:
    data = session("List stale issues.", entrypoint="sdk-cli")
    (memory,) = imported(data)
    turn = ended(data, "p0")
    assert memory.muted == (EVERYWHERE,)
    assert [message.name for message in memory.messages] == ["claude -p", None]
    assert turn.program == "claude -p"
    assert [message.name for message in turn.messages] == ["claude -p", None]


def test_programs_that_the_settings_name_are_programs() -> None:
    data = session("Post the news.", "And the weather.", entrypoint="my-bot")
    assert {memory.muted for memory in imported(data, "my-bot")} == {(EVERYWHERE,)}
    assert ended(data, "p1", "my-bot").program == "my-bot"
    assert not ended(data, "p1").program


def test_a_second_prompt_on_an_sdk_gives_the_first_one_to_the_user() -> None:
    (first,) = imported(session("Hello.", entrypoint="sdk-ts"))
    assert first.muted
    state = ConversationState("default", short_term={first.id: first})
    both = session("Hello.", "And now?", entrypoint="sdk-ts")
    turn = ended(both, "p1")
    assert not turn.program
    (change,) = turn.corrections.changes(state, lambda memory: memory)
    assert change.memory.muted == ()  # type: ignore[union-attr]
    assert change.memory.messages[0].name is None  # type: ignore[union-attr]
    assert [memory.muted for memory in imported(both)] == [(), ()]


def test_what_the_user_muted_or_another_session_said_is_not_corrected() -> None:
    (first,) = imported(session("Hello.", entrypoint="sdk-ts", sessionId="s2"))
    state = ConversationState("default", short_term={first.id: first})
    turn = ended(session("Hello.", "And now?", entrypoint="sdk-ts"), "p1")
    assert turn.corrections.changes(state, lambda memory: memory) == []


def test_a_person_who_goes_on_in_a_session_of_a_script_is_the_user() -> None:
    rows = session("List stale issues.", entrypoint="sdk-cli")
    more = session("x", "Close the first.", entrypoint="cli").splitlines(keepends=True)
    memories = imported(rows + b"".join(more[2:]))
    assert sorted(memory.muted for memory in memories) == [(), (EVERYWHERE,)]


def test_codex_exec_is_a_program() -> None:
    def file(source: str) -> bytes:
        rows = [
            ("session_meta", {"id": "c1", "cwd": "/w", "source": source}),
            ("event_msg", {"type": "user_message", "message": "Run the checks."}),
        ]
        lines = [json.dumps({"type": kind, "payload": payload}) for kind, payload in rows]
        return "\n".join(lines).encode()

    for source, muted in (("exec", (EVERYWHERE,)), ("cli", ())):
        read = codex.read({"a.jsonl": file(source)}, "default", lambda folder: folder)
        assert [memory.muted for memory in read.conversations[0].short_term] == [muted]

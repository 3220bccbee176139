"""Events of hooks as Claude Code, VS Code and Cursor give them, with and without a transcript."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import hook_transcripts
from lived_in import texts
from lived_in.house import House

EVENTS = (
    "SessionStart",
    "SessionStart",
    "UserPromptSubmit",
    "UserPromptSubmit",
    "Stop",
    "Stop",
    "Stop",
)
RARE = ("SubagentStop", "PreCompact", "SessionEnd", "Notification", "PostToolUse", "")
SOURCES = ("startup", "resume", "clear", "compact", "fork", "new", None)


def event_of_a_client(house: House, rng: Random) -> dict[str, Any]:
    """An event of one of the clients, in one of a few sessions and folders."""
    client = rng.choices(("claude", "vscode", "cursor"), (6, 2, 2))[0]
    names = EVENTS
    if rng.random() < 0.1:
        names = RARE
    name = rng.choice(names)
    session = f"s{rng.randrange(4)}"
    turn = f"p{rng.randrange(60)}"
    event: dict[str, Any] = {
        "hook_event_name": name,
        "session_id": session,
        "cwd": _folder(house, rng),
    }
    if client == "claude":
        event |= {"permission_mode": "default"}
        if rng.random() < 0.8:
            event["prompt_id"] = turn
    if name == "SessionStart":
        event["source"] = rng.choice(SOURCES)
    if name == "UserPromptSubmit":
        event["prompt"] = rng.choice((*texts.QUESTIONS, texts.sentence(rng), "", "\ud83d lone"))
    if name == "Stop":
        event["stop_hook_active"] = False
    if name == "PreCompact":
        event |= {"trigger": "manual", "custom_instructions": ""}
    if rng.random() < 0.8:
        event["transcript_path"] = str(_transcript(house, rng, client, turn, session))
    if rng.random() < 0.3:
        event["last_assistant_message"] = rng.choice(texts.ANSWERS)
    if client == "vscode" and rng.random() < 0.5:
        event["hookEventName"] = event.pop("hook_event_name")
        event["sessionId"] = event.pop("session_id")
    if client == "cursor":
        return _as_cursor(event, turn)
    if rng.random() < 0.1:
        del event["cwd"]
    return event


def _as_cursor(event: dict[str, Any], turn: str) -> dict[str, Any]:
    names = {
        "SessionStart": "sessionStart",
        "UserPromptSubmit": "beforeSubmitPrompt",
        "Stop": "stop",
    }
    name = event["hook_event_name"]
    translated = {
        "hook_event_name": names.get(name, name),
        "conversation_id": event["session_id"],
        "generation_id": turn,
        "workspace_roots": [event["cwd"]],
        "cursor_version": "2.0",
    }
    return translated | {key: event[key] for key in ("prompt", "transcript_path") if key in event}


def _folder(house: House, rng: Random) -> str:
    return rng.choice(
        (str(house.folder / "work"), "/tmp", "/srv/shop", "/srv/书店", str(house.folder / "gone"))
    )


def _transcript(house: House, rng: Random, client: str, turn: str, session: str) -> Path:
    """The transcript of a session: missing, empty, cut, or with some turns, the last of which is `turn`."""
    path = house.folder / f"{client}-{session}.jsonl"
    kind = rng.random()
    if kind < 0.1:
        path.unlink(missing_ok=True)
        return path
    at = house.now - timedelta(minutes=rng.randrange(1, 3_000))
    lines: list[dict[str, Any]] = []
    for number in range(rng.randrange(0, 4)):
        moment = (
            (at + timedelta(seconds=number))
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
        name = turn
        if number:
            name = f"{turn}-{number}"
        lines += _turn(client, rng, name, moment)
        if rng.random() < 0.15:
            lines.append(hook_transcripts.compacted(moment))
    if client == "claude":
        lines = _chained(rng, lines)
    data = hook_transcripts.transcript(*lines)
    if kind < 0.2:
        data = data[: rng.randrange(len(data))]
    path.write_bytes(data)
    return path


def _chained(rng: Random, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines, each of which follows the one before it; but a prompt may follow an earlier one, because the user went
    back, and a script or a front-end on an SDK may have written the prompts."""
    origin = rng.choice(
        ({}, {"entrypoint": "cli"}, {"entrypoint": "sdk-cli"}, {"entrypoint": "sdk-ts"})
    )
    chained: list[dict[str, Any]] = []
    for line in lines:
        ends = [earlier["uuid"] for earlier in chained if earlier["type"] == "assistant"]
        parent = chained[-1]["uuid"] if chained else None
        if ends and isinstance(line.get("message", {}).get("content"), str) and rng.random() < 0.3:
            parent = rng.choice(ends)
        chained.append(line | origin | {"uuid": f"x{len(chained)}", "parentUuid": parent})
    if chained and rng.random() < 0.2:
        leaf = rng.choice(chained)["uuid"]
        chained.append({"type": "last-prompt", "leafUuid": leaf, "explicit": rng.random() < 0.5})
    return chained


def _turn(client: str, rng: Random, turn: str, moment: str) -> Sequence[dict[str, Any]]:
    question = texts.sentence(rng)
    answer = rng.choice(texts.ANSWERS)
    if client == "vscode":
        return [
            {
                "type": "user.message",
                "data": {"content": question},
                "id": "x",
                "timestamp": moment,
                "parentId": None,
            },
            {
                "type": "assistant.message",
                "data": {"content": answer},
                "id": "y",
                "timestamp": moment,
            },
        ]
    if client == "cursor":
        return [
            {"role": "user", "message": {"content": [{"type": "text", "text": question}]}},
            {"role": "assistant", "message": {"content": [{"type": "text", "text": answer}]}},
        ]
    return [
        hook_transcripts.user(question, turn, moment),
        hook_transcripts.assistant(hook_transcripts.TOOL_USE, at=moment),
        hook_transcripts.user(hook_transcripts.TOOL_RESULT, turn, moment),
        hook_transcripts.assistant(answer or "ok", at=moment),
    ]

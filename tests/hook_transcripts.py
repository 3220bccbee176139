"""Transcripts and hook events as Claude Code 2.1.330 writes them, short to write in a test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def event(name: str, **fields: Any) -> dict[str, Any]:
    usual = {
        "session_id": "s1",
        "cwd": "/tmp",
        "permission_mode": "default",
        "hook_event_name": name,
    }
    return usual | ({"stop_hook_active": False} if name == "Stop" else {}) | fields


def user(
    content: Any, prompt_id: str | None = "p1", at: str = "2026-06-20T08:00:00.000Z", **rest: Any
) -> dict[str, Any]:
    named = {} if prompt_id is None else {"promptId": prompt_id}
    message = {"role": "user", "content": content}
    return {
        "parentUuid": None,
        "isSidechain": False,
        **named,
        "type": "user",
        "message": message,
        "timestamp": at,
    } | rest


def assistant(*blocks: Any, at: str = "2026-06-20T08:00:05.000Z", **rest: Any) -> dict[str, Any]:
    content = [
        {"type": "text", "text": block} if isinstance(block, str) else block for block in blocks
    ]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": content}
    return {
        "parentUuid": "u",
        "isSidechain": False,
        "message": message,
        "type": "assistant",
        "timestamp": at,
    } | rest


def compacted(at: str) -> dict[str, Any]:
    """The line that a compaction leaves."""
    about = {
        "compactMetadata": {"trigger": "manual", "preTokens": 6},
        "content": "Conversation compacted",
    }
    return {
        "parentUuid": None,
        "type": "system",
        "subtype": "compact_boundary",
        "isMeta": False,
        "timestamp": at,
    } | about


TOOL_USE = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
TOOL_RESULT = [{"type": "tool_result", "tool_use_id": "t1", "content": "secret.txt"}]
AROUND = (
    {"type": "queue-operation", "operation": "enqueue", "content": "not a message"},
    {
        "type": "attachment",
        "attachment": {"type": "skill_listing", "content": "not a message either"},
    },
    {
        "type": "api-request-blob",
        "message": {"role": "user", "content": [{"type": "text", "text": "nor this"}]},
    },
)


def transcript(*entries: dict[str, Any]) -> bytes:
    """The lines, with what else stands in a transcript around them."""
    lines: Sequence[dict[str, Any]] = (*AROUND, *entries, AROUND[1])
    return b"".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for line in lines
    )

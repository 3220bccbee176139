"""Every message of a file is carried in each form, or the report counts it. Files are made of parts of known kinds,
each with a word of its own, in any order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.interchange import (
    chat_exports,
    chats,
    claude_code,
    codex,
    gemini_cli,
    mem0,
    memory_service,
    official,
)
from memory_server.interchange.incoming import Incoming, NotThisFormat

Rows = list[dict[str, Any]]
AT = 1_750_000_000
TIME = "2026-05-28T20:00:00.000Z"


@dataclass(frozen=True)
class Form:
    """How a form is written and read. `parts`: by its kind, what makes a record with this word in it."""

    parts: Mapping[str, Callable[[str], dict[str, Any]]]
    written: Callable[[Rows], bytes]
    read: Callable[[bytes], Incoming]


def _lines(rows: Rows) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def _array(rows: Rows) -> bytes:
    return json.dumps(rows).encode()


def _chat(data: bytes) -> Incoming:
    return chats.read(data, chats.ChatOptions("default", UTC))


def _export(data: bytes) -> Incoming:
    return chat_exports.read({"conversations.json": data}, [], "default", {})


def _folder(_path: str) -> str | None:
    return None


FOLDERS = claude_code.WorkingFolders(_folder, lambda _path: "")


# --- ChatGPT --------------------------------------------------------------------------------------------------


def _gpt(
    role: str, kind: str = "text", to: str = "all", **metadata: Any
) -> Callable[[str], dict[str, Any]]:
    def make(word: str) -> dict[str, Any]:
        content = {"content_type": kind, "parts": [word]}
        return {
            "author": {"role": role},
            "content": content,
            "recipient": to,
            "metadata": metadata,
            "create_time": AT,
        }

    return make


def _gpt_picture(word: str) -> dict[str, Any]:
    parts = [{"content_type": "image_asset_pointer", "asset_pointer": word}]
    return _gpt("user", "multimodal_text")(word) | {
        "content": {"content_type": "multimodal_text", "parts": parts}
    }


def _gpt_canvas(kind: str, tool: str = "create_textdoc") -> Callable[[str], dict[str, Any]]:
    def make(word: str) -> dict[str, Any]:
        text = json.dumps({"name": "n", "type": kind, "content": word})
        return _gpt("assistant", to=f"canmore.{tool}")(text)

    return make


CHATGPT = {
    "asked": _gpt("user"),
    "answered": _gpt("assistant"),
    "narrated": _gpt("system"),
    "hidden": _gpt("user", is_visually_hidden_from_conversation=True),
    "instructions": _gpt("user", "user_editable_context"),
    "remembered": _gpt("assistant", "model_editable_context"),
    "thought": _gpt("assistant", "thoughts"),
    "recap": _gpt("assistant", "reasoning_recap"),
    "called": _gpt("assistant", "code", "python"),
    "searched": _gpt("assistant", "text", "web.run"),
    "result": _gpt("tool", "execution_output"),
    "failed": _gpt("assistant", "system_error"),
    "new kind": _gpt("assistant", "telepathy"),
    "picture": _gpt_picture,
    "document": _gpt_canvas("document"),
    "program": _gpt_canvas("code/python"),
    "revision": _gpt_canvas("document", "update_textdoc"),
}


def _tree(rows: Rows) -> bytes:
    """A tree of which every third message is on a branch that was left."""
    mapping: dict[str, Any] = {"root": {"parent": None, "children": [], "message": None}}
    last = "root"
    for number, row in enumerate(rows):
        mapping[f"n{number}"] = {"parent": last, "children": [], "message": row}
        if number % 3 < 2:
            last = f"n{number}"
    return json.dumps([{"title": "t", "current_node": last, "mapping": mapping}]).encode()


# --- Claude ---------------------------------------------------------------------------------------------------


def _claude(
    sender: str, *blocks: str, text: str = "", **fields: Any
) -> Callable[[str], dict[str, Any]]:
    """`blocks`: as JSON with `WORD` for the word."""

    def make(word: str) -> dict[str, Any]:
        message = {
            "sender": sender,
            "text": text.replace("WORD", word),
            "content": [json.loads(block.replace("WORD", word)) for block in blocks],
            "created_at": TIME,
        }
        return message | json.loads(json.dumps(fields).replace("WORD", word))

    return make


CLAUDE = {
    "asked": _claude("human", '{"type": "text", "text": "WORD"}'),
    "asked long ago": _claude("human", text="WORD"),
    "answered": _claude("assistant", '{"type": "text", "text": "WORD"}'),
    "pasted": _claude(
        "human", attachments=[{"file_name": "paste.txt", "extracted_content": "WORD"}]
    ),
    "attached": _claude("human", attachments=[{"file_name": "a.pdf", "extracted_content": ""}]),
    "uploaded": _claude("human", files=[{"file_name": "WORD.png"}]),
    "thought": _claude("assistant", '{"type": "thinking", "thinking": "WORD"}'),
    "called": _claude("assistant", '{"type": "tool_use", "name": "web", "input": {"q": "WORD"}}'),
    "result alone": _claude("assistant", '{"type": "tool_result", "content": "WORD"}'),
    "new kind": _claude("assistant", '{"type": "telepathy", "text": "WORD"}'),
    "new sender": _claude("ghost", '{"type": "text", "text": "WORD"}'),
    "artifact": _claude(
        "assistant",
        '{"type": "tool_use", "name": "artifacts", "input": {"command": "create", "content": "WORD"}}',
    ),
    "file": _claude(
        "assistant",
        '{"type": "tool_use", "name": "create_file", "input": {"path": "a.md", "file_text": "WORD"}}',
    ),
    "program": _claude(
        "assistant",
        '{"type": "tool_use", "name": "create_file", "input": {"path": "a.py", "file_text": "WORD"}}',
    ),
    "revision": _claude(
        "assistant",
        '{"type": "tool_use", "name": "artifacts", "input": {"command": "update", "new_str": "WORD"}}',
    ),
}


def _claude_export(rows: Rows) -> bytes:
    """A conversation of which every third message is on a branch that was left."""
    last = "none"
    for number, row in enumerate(rows):
        row["uuid"] = f"n{number}"
        row["parent_message_uuid"] = last
        if number % 3 < 2:
            last = row["uuid"]
    return json.dumps(
        [{"name": "n", "chat_messages": rows, "current_leaf_message_uuid": last}]
    ).encode()


# --- The others -----------------------------------------------------------------------------------------------


def _tavern(is_user: bool, **fields: Any) -> Callable[[str], dict[str, Any]]:
    return lambda word: {"name": "Ann", "is_user": is_user, "mes": word, "send_date": TIME} | fields


TAVERN = {
    "asked": _tavern(True),
    "answered": _tavern(False),
    "narrated": _tavern(False, is_system=True, extra={"type": "narrator"}),
    "hidden": _tavern(True, is_system=True),
    "undated": _tavern(True, send_date="Invalid date"),
    "without text": lambda word: {"name": word, "is_user": True},
}
LINES = {
    "asked": lambda word: {"role": "user", "content": word},
    "answered": lambda word: {"role": "assistant", "content": word},
    "undated": lambda word: {"role": "user", "content": word, "timestamp": "soon"},
    "tool": lambda word: {"role": "tool", "content": word},
    "blocks": lambda word: {"role": "user", "content": [word]},
}
OFFICIAL = {
    "entity": lambda word: {
        "type": "entity",
        "name": word,
        "entityType": "e",
        "observations": [word],
    },
    "empty": lambda word: {"type": "entity", "name": word, "entityType": "e", "observations": []},
    "stray": lambda word: {"type": "relation", "from": word, "to": "x", "relationType": "is"},
    "other": lambda word: {"type": word},
}
MEM0 = {
    "fact": lambda word: {"id": word, "memory": word},
    "blank": lambda word: {"id": word, "memory": ""},
    "broken": lambda word: {"id": word},
}
SERVICE = {
    "memory": lambda word: {
        "content": word,
        "content_hash": word,
        "tags": "a,b",
        "created_at": AT + 0.5,
    },
    "blank": lambda word: {"content": " ", "content_hash": word},
    "broken": lambda word: {"content_hash": word},
}


def _claude_code(kind: str, content: Any, **fields: Any) -> Callable[[str], dict[str, Any]]:
    def make(word: str) -> dict[str, Any]:
        filled_content = json.loads(json.dumps(content).replace("WORD", word))
        message = {"role": kind, "content": filled_content}
        return {
            "type": kind,
            "uuid": word,
            "sessionId": "s",
            "timestamp": TIME,
            "message": message,
        } | fields

    return make


TRANSCRIPT = {
    "asked": _claude_code("user", "WORD"),
    "answered": _claude_code("assistant", [{"type": "text", "text": "WORD"}]),
    "thought": _claude_code("assistant", [{"type": "thinking", "thinking": "WORD"}]),
    "called": _claude_code(
        "assistant", [{"type": "tool_use", "id": "t", "name": "Read", "input": {"p": "WORD"}}]
    ),
    "by an agent": _claude_code("user", "WORD", isSidechain=True),
    "for the model": _claude_code("user", "WORD", isMeta=True),
    "new kind": lambda word: {
        "type": "telepathy",
        "uuid": word,
        "sessionId": "s",
        "message": {"role": "x"},
    },
}


def _codex(kind: str, **payload: Any) -> Callable[[str], dict[str, Any]]:
    def make(word: str) -> dict[str, Any]:
        filled_payload = json.loads(json.dumps(payload).replace("WORD", word))
        return {"timestamp": TIME, "type": kind, "payload": filled_payload}

    return make


CODEX = {
    "asked": _codex("event_msg", type="user_message", message="WORD"),
    "answered": _codex(
        "response_item", type="message", role="assistant", content=[{"text": "WORD"}]
    ),
    "thought": _codex("response_item", type="reasoning", summary="WORD"),
    "called": _codex("response_item", type="function_call", name="shell", arguments="WORD"),
    "new kind": _codex("response_item", type="telepathy", text="WORD"),
    "new line": _codex("telepathy", text="WORD"),
}
GEMINI = {
    "asked": lambda word: {"id": word, "type": "user", "content": word, "timestamp": TIME},
    "answered": lambda word: {"id": word, "type": "gemini", "content": word, "timestamp": TIME},
    "info": lambda word: {"id": word, "type": "info", "content": word, "timestamp": TIME},
    "new kind": lambda word: {"id": word, "type": "telepathy", "content": word, "timestamp": TIME},
}
FORMS: Mapping[str, Form] = {
    "ChatGPT": Form(CHATGPT, _tree, _export),
    "Claude": Form(CLAUDE, _claude_export, _export),
    "SillyTavern": Form(TAVERN, lambda rows: _lines([{"chat_metadata": {}}, *rows]), _chat),
    "lines": Form(LINES, _lines, _chat),
    "official": Form(OFFICIAL, _lines, lambda data: official.read(data, "default")),
    "read_graph": Form(
        {name: OFFICIAL[name] for name in ("entity", "empty")},
        lambda rows: json.dumps({"entities": rows, "relations": []}).encode(),
        lambda data: official.read(data, "default"),
    ),
    "mem0": Form(MEM0, _array, mem0.read),
    "mcp-memory-service": Form(
        SERVICE,
        lambda rows: json.dumps({"export_metadata": {}, "memories": rows}).encode(),
        memory_service.read,
    ),
    "Claude Code": Form(
        TRANSCRIPT, _lines, lambda data: claude_code.read({"a.jsonl": data}, "default", {}, FOLDERS)
    ),
    "Codex": Form(CODEX, _lines, lambda data: codex.read({"a.jsonl": data}, "default", _folder)),
    "Gemini CLI": Form(
        GEMINI,
        lambda rows: json.dumps({"sessionId": "s", "projectHash": "p", "messages": rows}).encode(),
        lambda data: gemini_cli.read({"a.json": data}, "default", _folder),
    ),
}


def _texts(incoming: Incoming) -> str:
    memories = chain.from_iterable(contents.short_term for contents in incoming.conversations)
    entries = chain.from_iterable(incoming.entries.values())
    return "\n".join([*(memory.text for memory in memories), *(entry.body for entry in entries)])


@pytest.mark.parametrize("name", FORMS)
@given(data=st.data())
def test_every_message_is_carried_or_counted(name: str, data: st.DataObject) -> None:
    form = FORMS[name]
    kinds: Sequence[str] = data.draw(
        st.lists(st.sampled_from(sorted(form.parts)), min_size=1, max_size=12)
    )
    words = [f"word{number}x" for number in range(len(kinds))]
    rows = [form.parts[kind](word) for kind, word in zip(kinds, words, strict=True)]
    try:
        incoming = form.read(form.written(rows))
    except NotThisFormat:
        return  # nothing of the file comes, and the command says so
    text = _texts(incoming)
    missing = [word for word in words if word not in text]
    undated = sum(kind == "undated" for kind in kinds)
    counted = sum(incoming.lost.values()) + len(incoming.skipped) - undated
    assert counted == len(missing), (kinds, incoming.lost, incoming.skipped)

"""What stands between `<private>` and `</private>` never comes with an import, also where a reader splits or cuts the
text between the two: at the most characters of a message, at lines, headings, items of a list and marks of clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.conversations.model import ShortTermMemory
from memory_server.interchange import (
    chat_exports,
    chats,
    claude_code,
    claude_mem,
    codex,
    gemini_cli,
    livingmemory,
    mem0,
    memory_service,
    official,
    pages,
    seed_stores,
)
from memory_server.interchange.incoming import EMPTY_OR_PRIVATE, Incoming, NotThisFormat
from memory_server.kernel.messages import MAX_CONTENT_CHARS
from memory_server.knowledge.entry import MAX_BODY_CHARS

TIME = "2026-05-28T20:00:00.000Z"
SECRET = "S3CRET"
LONG = f"{SECRET} " * (2 * MAX_CONTENT_CHARS // len(SECRET))
FOLDERS = claude_code.WorkingFolders(lambda _path: None, lambda _path: "")
BOUNDARIES = (
    "**Health**",
    "## Health",
    "# Health",
    "assistant: yes",
    "user: no",
    "Ann: well",
    "## My request for Codex:",
    "--- Content from referenced files ---",
    "- [page](b.md)",
    "```",
    "x" * MAX_BODY_CHARS,
    "x" * (MAX_CONTENT_CHARS - 20),
    "a, b",
)
Reader = Callable[[str], Incoming]


def _lines(*rows: Mapping[str, Any]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def _array(*rows: Mapping[str, Any]) -> bytes:
    return json.dumps(rows).encode()


def _chat(data: bytes) -> Incoming:
    return chats.read(data, chats.ChatOptions("default", UTC))


def _messages(text: str) -> Incoming:
    return _chat(
        _lines({"role": "user", "content": text}, {"role": "assistant", "content": "Noted."})
    )


def _plain(text: str) -> Incoming:
    return _chat(f"user: {text}\nassistant: Noted.".encode())


def _tavern(text: str) -> Incoming:
    return _chat(
        _lines(
            {"chat_metadata": {}}, {"name": "Ann", "is_user": True, "mes": text, "send_date": TIME}
        )
    )


def _claude_chat(text: str) -> Incoming:
    pasted = [{"file_name": "paste.txt", "extracted_content": text}]
    message = {
        "sender": "human",
        "text": text,
        "content": [],
        "created_at": TIME,
        "attachments": pasted,
    }
    data = json.dumps([{"name": "n", "chat_messages": [message]}]).encode()
    return chat_exports.read({"conversations.json": data}, [], "default", {})


def _chatgpt(text: str) -> Incoming:
    content = {"content_type": "text", "parts": text.split("\n")}
    message = {"author": {"role": "user"}, "content": content}
    node = {"parent": None, "children": [], "message": message}
    data = json.dumps([{"title": "t", "current_node": "a", "mapping": {"a": node}}]).encode()
    return chat_exports.read({"conversations.json": data}, [], "default", {})


def _claude_memory(text: str) -> Incoming:
    data = json.dumps([{"conversations_memory": text, "account_uuid": "u"}]).encode()
    return chat_exports.read({"memories.json": data}, [], "default", {})


def _claude_project(text: str) -> Incoming:
    document = {"filename": text, "content": text}
    row = {
        "name": text,
        "uuid": "p",
        "prompt_template": text,
        "description": "d",
        "docs": [document],
    }
    return chat_exports.read({"projects.json": _array(row)}, [], "default", {})


def _pages(text: str) -> Incoming:
    return pages.read({"a.md": text.encode(), "b.md": b"Another page"}, {}, UTC)


def _pages_with_fields(text: str) -> Incoming:
    page = f"---\ntitle: {json.dumps(text)}\ndescription: {json.dumps(text)}\n---\n{text}"
    return pages.read({"a.md": page.encode()}, {}, UTC)


def _mem0(text: str) -> Incoming:
    return mem0.read(
        _array(
            {"id": "1", "memory": text, "categories": text.split("\n"), "metadata": {"n": [text]}}
        )
    )


def _service(text: str) -> Incoming:
    row = {"content": text, "content_hash": "h", "tags": text, "metadata": {"n": {"m": text}}}
    return memory_service.read(json.dumps({"memories": [row]}).encode())


def _mem_of_claude(text: str) -> Incoming:
    fields = {"project": "p", "memory_session_id": "s", "created_at_epoch": 1_750_000_000_000}
    observation = {
        **fields,
        "title": text,
        "narrative": "n",
        "facts": text.split("\n"),
        "concepts": text,
    }
    summary = {**fields, "request": text, "learned": "l"}
    prompt = {"prompt_text": text, "content_session_id": "s", "prompt_number": 1}
    lists = {"observations": [observation], "summaries": [summary], "prompts": [prompt]}
    return claude_mem.read(json.dumps(lists).encode(), "default")


def _living(text: str) -> Incoming:
    source = [{"role": "user", "content": text, "session_id": "qq:FriendMessage:1"}]
    row = {
        "content": text,
        "metadata": {"session_id": "qq:FriendMessage:1"},
        "source_messages": source,
    }
    return livingmemory.read(json.dumps({"memories": [row]}).encode(), "default")


def _official(text: str) -> Incoming:
    row = {
        "type": "entity",
        "name": "Ann",
        "entityType": "e",
        "observations": [*text.split("\n"), "She is here."],
    }
    return official.read(_lines(row), "default")


def _notes_db(text: str) -> Incoming:
    row = {
        "id": "1",
        "type": "domain",
        "topic": text,
        "content": text,
        "examples": json.dumps(text.split("\n")),
    }
    return seed_stores.read_notes({"memories": [row]})


def _refs(text: str) -> Incoming:
    entry = {
        "id": "1",
        "summary": text,
        "content": text,
        "tags": text.split("\n"),
        "metadata": {"n": text},
    }
    return seed_stores.read_refs(_lines({"op": "add", "entry": entry}))


def _claude_code(text: str) -> Incoming:
    rows = [
        {
            "type": who,
            "uuid": who,
            "sessionId": "s",
            "timestamp": TIME,
            "message": {"role": who, "content": content},
        }
        for who, content in (("user", text), ("assistant", "Noted."))
    ]
    return claude_code.read({"a.jsonl": _lines(*rows)}, "default", {}, FOLDERS)


def _codex(text: str) -> Incoming:
    row = {
        "timestamp": TIME,
        "type": "event_msg",
        "payload": {"type": "user_message", "message": text},
    }
    return codex.read({"a.jsonl": _lines(row)}, "default", lambda _path: None)


def _gemini(text: str) -> Incoming:
    message = {"id": "1", "type": "user", "content": text, "timestamp": TIME}
    data = json.dumps({"sessionId": "s", "projectHash": "p", "messages": [message]}).encode()
    return gemini_cli.read({"a.json": data}, "default", lambda _path: None)


READERS: Mapping[str, Reader] = {
    "lines": _messages,
    "plain lines": _plain,
    "SillyTavern": _tavern,
    "chats of Claude": _claude_chat,
    "chats of ChatGPT": _chatgpt,
    "memory of Claude": _claude_memory,
    "projects of Claude": _claude_project,
    "pages": _pages,
    "pages with fields": _pages_with_fields,
    "mem0": _mem0,
    "mcp-memory-service": _service,
    "claude-mem": _mem_of_claude,
    "LivingMemory": _living,
    "official": _official,
    "notes of a database": _notes_db,
    "log of refs": _refs,
    "Claude Code": _claude_code,
    "Codex": _codex,
    "Gemini CLI": _gemini,
}


def _stored(incoming: Incoming) -> str:
    """All that an import stores, and what it says about the rest."""
    entries = chain.from_iterable(incoming.entries.values())
    stored = [*_memories(incoming), *entries]
    return "\n".join(map(repr, [*stored, incoming.skipped, incoming.notes]))


def _memories(incoming: Incoming) -> list[ShortTermMemory]:
    return list(chain.from_iterable(contents.short_term for contents in incoming.conversations))


@pytest.mark.parametrize("name", READERS)
@given(
    inside=st.lists(st.sampled_from(BOUNDARIES), max_size=4),
    before=st.sampled_from(("Hi ", "", "Hi\n", "Hi\n**More**\n", "x" * (MAX_CONTENT_CHARS - 12))),
    end=st.sampled_from(
        ("</private> there", "</private>", "</private>\nuser: and\nassistant: so", "")
    ),
)
def test_a_private_part_over_any_boundary_never_comes(
    name: str, inside: list[str], before: str, end: str
) -> None:
    private = "".join(f"{boundary}\n{SECRET}\n" for boundary in ["", *inside]).removesuffix("\n")
    try:
        incoming = READERS[name](f"{before}<private>{private}{end}")
    except NotThisFormat:
        return  # nothing of the file comes
    assert SECRET not in _stored(incoming)


@pytest.mark.parametrize("name", READERS)
def test_a_long_private_part_never_comes(name: str) -> None:
    try:
        incoming = READERS[name](f"<private>{LONG}</private> hello")
    except NotThisFormat:
        return
    assert SECRET not in _stored(incoming)


def _said(incoming: Incoming) -> list[list[str]]:
    return [_contents(memory) for memory in _memories(incoming)]


def _contents(memory: ShortTermMemory) -> list[str]:
    return [message.content for message in memory.messages]


def test_of_a_long_message_what_is_not_private_comes() -> None:
    assert _said(_messages(f"<private>{LONG}</private> hello")) == [["hello", "Noted."]]


def test_the_answer_to_a_long_private_message_is_left_out_and_counted() -> None:
    incoming = Incoming()
    rows = [
        {"role": "user", "content": f"<private>{LONG}</private>"},
        {"role": "assistant", "content": "Noted."},
    ]
    chats.add_exchanges(incoming, [rows], "default", {})
    assert _said(incoming) == []
    assert incoming.lost[chats.PRIVATE_OR_EMPTY] == 1


def test_the_answer_to_a_private_message_is_left_out_in_whichever_memory_it_would_stand() -> None:
    many_questions = [
        {"role": "user", "content": f"part {number}"} for number in range(chats.MOST_MESSAGES - 1)
    ]
    private = {"role": "user", "content": f"<private>{SECRET}</private>"}
    answer = {"role": "assistant", "content": f"About {SECRET}"}
    others = [
        {"role": "user", "content": "Good morning", "conversation_id": "other"},
        {"role": "assistant", "content": "Good morning!", "conversation_id": "other"},
    ]
    for rows in ([*many_questions, private, answer], [private, *others, answer]):
        incoming = Incoming()
        chats.add_exchanges(incoming, [rows], "default", {})
        assert SECRET not in _stored(incoming)
        assert incoming.count


def test_a_section_of_a_memory_of_claude_that_is_private_is_not_a_note() -> None:
    incoming = _claude_memory("Hi <private>\n**Health**\nHIV\n**More**\nsecret</private>")
    [entry] = incoming.entries["notes"]
    assert (entry.title, entry.body) == ("Hi", "Hi")
    wholly = Incoming()
    chat_exports.take_projects(wholly, [], [{"conversations_memory": "<private>HIV</private>"}], 0)
    assert wholly.lost[EMPTY_OR_PRIVATE] == 1

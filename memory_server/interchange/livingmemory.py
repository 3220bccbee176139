"""LivingMemory, the plugin of AstrBot: its databases `livingmemory.db` and `conversations.db`, and its JSON export.

Facts of its storage and of core/memory_transfer.py (2.6): a memory is a row of `documents` with the text that is
searched, `metadata` as JSON (session_id, persona_id, importance, topics, create_time in seconds, status), and perhaps
the messages that it is made of; `messages` has what was said. A session `qq:FriendMessage:10001` is the conversation
that our plugin (distribution/astrbot) calls `qq/user/10001`, one `qq:GroupMessage:777` is `qq/group/777`: so what was
told in private stays there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC
from typing import Any

from languages import _
from memory_server.conversations.model import ShortTermMemory
from memory_server.interchange import chats
from memory_server.interchange.incoming import (
    Incoming,
    NotThisFormat,
    Tables,
    document,
    fields_of,
    list_of,
    milliseconds_of,
    numbered,
    share_of,
    text_in,
    texts,
)
from memory_server.kernel.json_text import Fields, objects_in, without_surrogates
from memory_server.kernel.messages import Message
from memory_server.kernel.private import without_private
from sandbox import chat

TABLES = {
    "documents": ("id", "text", "metadata", "created_at"),
    "memory_sources": ("memory_id", "source_json"),
    "sessions": ("id",),
    "messages": ("session_id", "role", "content", "sender_name", "timestamp"),
}


_METADATA = ("importance", "topics", "persona_id", "participants", "sentiment")
"""Fields of the metadata that a memory keeps."""


def read(data: bytes, usual: str) -> Incoming:
    """Read the memories of an export. Raises NotThisFormat."""
    export = document(data)
    rows = export.get("memories") if isinstance(export, dict) else None
    if not isinstance(rows, list):
        raise NotThisFormat("has no `memories`; export them from the page of LivingMemory as JSON.")
    return _read(rows, [], usual)


def read_tables(tables: Tables, usual: str) -> Incoming:
    """Read memories and messages from the tables of its databases, as from an export."""
    sources = {
        row.get("memory_id"): row.get("source_json") for row in tables.get("memory_sources", ())
    }
    rows = [
        {**row, "content": row.get("text"), "source_messages": sources.get(row.get("id"))}
        for row in tables.get("documents", ())
    ]
    return _read(rows, tables.get("messages", []), usual)


def _read(rows: list[Any], message_rows: list[Fields], usual: str) -> Incoming:
    """Read the memories in `rows` as short-term memories of their conversations, and the messages in them and in
    `message_rows` as exchanges. A memory whose text is missing is skipped, and so is a wrong record; one that is
    archived or deleted there is counted as lost. A memory that names no conversation becomes a note, because it is
    for all who talk to the bot; messages that name none go to `usual`."""
    incoming = Incoming()
    memories: dict[str, list[ShortTermMemory]] = {}
    messages: list[chat.Message] = []
    for location, row in numbered(rows, "memory"):
        with incoming.record(location):
            text = text_in(row, "content")
            sources = objects_in(list_of(row.get("source_messages")))
            messages += _messages(sources)
            _take_memory(incoming, memories, location=location, row=row, text=text)

    for location, row in numbered(message_rows, "message"):
        with incoming.record(location):
            messages += _messages([row])

    chats.add_exchanges(incoming, [messages], usual, {}, others=memories)
    return incoming


def _take_memory(
    incoming: Incoming,
    memories: dict[str, list[ShortTermMemory]],
    *,
    location: str,
    row: Fields,
    text: str,
) -> None:
    """Add the memory of a row to `memories` of its conversation, or as a note if it has none. One
    that was archived or deleted there is counted; any that cannot be stored is skipped."""
    # Its database writes the metadata as JSON text, its export as an object.
    metadata = fields_of(row.get("metadata"))
    if metadata.get("status", "active") != "active":
        incoming.lost[_("memories that are archived or deleted there")] += 1
        return

    if metadata.get("persona_summary") not in (None, "", text):
        incoming.lost[
            _("summaries in the words of the persona; those for searching were imported")
        ] += 1

    session = row.get("session_id") or metadata.get("session_id")
    conversation_id = incoming.conversation_of(_conversation(session), "", location)
    if conversation_id is None:
        return

    created_ms = milliseconds_of(metadata.get("create_time"), unit=1000)
    if not created_ms:
        created_ms = milliseconds_of(row.get("created_at"), UTC)

    number = row.get("original_id", row.get("id"))
    identity = f"livingmemory\n{conversation_id}\n{number}\n{created_ms}"
    # A memory without a conversation is a fact for all who talk to the bot.
    if not conversation_id:
        incoming.note(
            location,
            identity,
            title="",
            body=text,
            tags=texts(metadata.get("topics")),
            created_ms=created_ms,
            importance=share_of(metadata.get("importance")),
        )
        return

    kept_fields = {
        name: metadata[name] for name in _METADATA if metadata.get(name) not in (None, "", [])
    }
    public_text = without_private(without_surrogates(text))
    message = Message("system", public_text, created_ms or None)
    memory = chats.memory_of(
        conversation_id, (message,), identity, extra={"livingmemory": kept_fields}
    )
    memory = replace(memory, text=public_text, messages=())
    if memory.text.strip() and incoming.fits(location, memory):
        memories.setdefault(conversation_id, []).append(memory)


def _messages(rows: Iterable[Fields]) -> list[chat.Message]:
    """Return the rows that are messages with words."""
    messages: list[chat.Message] = []
    for row in rows:
        message = _message(row)
        if message is not None:
            messages.append(message)
    return messages


def _message(row: Fields) -> chat.Message | None:
    """Return a row as a message, or None if it has no words or an unknown role."""
    role = row.get("role")
    content = row.get("content")
    if role not in chat.ROLES or not isinstance(content, str) or not content.strip():
        return None
    message = {
        "role": role,
        "content": content,
        "conversation_id": _conversation(row.get("session_id")),
    }
    time_ms = milliseconds_of(row.get("timestamp"), unit=1000)
    if time_ms:
        message["timestamp"] = time_ms
    if row.get("sender_name"):
        message["name"] = str(row["sender_name"])
    return message


def _conversation(session: Any) -> str:
    """Return the conversation of a session as our plugin names it, without the persona; a session that is not named
    so keeps its name."""
    parts = str(session or "").split(":", 2)
    if len(parts) != 3:
        return ":".join(parts)
    platform, kind, partner = parts
    if partner.count("!") == 2:  # `webchat!USER!WINDOW`
        partner = partner.split("!")[1]
    kind_of_path = "group" if kind == "GroupMessage" else "user"
    return f"{_escaped(platform)}/{kind_of_path}/{_escaped(partner)}"


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")

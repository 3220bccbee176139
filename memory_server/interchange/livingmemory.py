"""LivingMemory, the plugin of AstrBot: its databases `livingmemory.db` and `conversations.db`, and its JSON export.

Facts of its storage and of core/memory_transfer.py (2.6): a memory is a row of `documents` with the text that is
searched, `metadata` as JSON (session_id, persona_id, importance, topics, create_time in seconds, status), and perhaps
the messages that it is made of; `messages` has what was said. A session `qq:FriendMessage:10001` is the conversation
that our plugin (distribution/astrbot) calls `qq/user/10001`, one `qq:GroupMessage:777` is `qq/group/777`: so what was
told in private stays there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from typing import Any

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
    texts,
)
from memory_server.kernel.messages import Message, without_surrogates
from memory_server.kernel.private import without_private
from sandbox import chat
from sandbox.locale import _

TABLES = {
    "documents": ("id", "text", "metadata", "created_at"),
    "memory_sources": ("memory_id", "source_json"),
    "sessions": ("id",),
    "messages": ("session_id", "role", "content", "sender_name", "timestamp"),
}
_KEPT = ("importance", "topics", "persona_id", "participants", "sentiment")


def read(data: bytes, usual: str) -> Incoming:
    """The memories of an export. Raises NotThisFormat."""
    whole = document(data)
    rows = whole.get("memories") if isinstance(whole, dict) else None
    if not isinstance(rows, list):
        raise NotThisFormat("has no `memories`; export them from the page of LivingMemory as JSON.")
    return _read(rows, [], usual)


def read_tables(tables: Tables, usual: str) -> Incoming:
    """The same of its databases."""
    sources = {row.get("memory_id"): row.get("source_json") for row in tables.get("memory_sources", ())}
    rows = [
        {**row, "content": row.get("text"), "source_messages": sources.get(row.get("id"))}
        for row in tables.get("documents", ())
    ]
    return _read(rows, tables.get("messages", []), usual)


def _read(rows: list[Any], messages: list[Mapping[str, Any]], usual: str) -> Incoming:
    found, memories, said = Incoming(), dict[str, list[ShortTermMemory]](), list[chat.Message]()
    for place, row in numbered(rows, "memory"):
        if not isinstance(row, dict) or not isinstance(text := row.get("content"), str):
            found.skipped.append((place, _("it has no text")))
            continue
        source = list_of(row.get("source_messages"))
        said += (one for each in source if isinstance(each, dict) and (one := _message(each)) is not None)
        _memory(found, memories, place, row, text)
    said += (one for each in messages if (one := _message(each)) is not None)
    chats.take(found, [said], usual, {}, memories)
    return found


def _memory(
    found: Incoming,
    memories: dict[str, list[ShortTermMemory]],
    place: str,
    row: Mapping[str, Any],
    text: str,
) -> None:
    about = fields_of(row.get("metadata"))
    if about.get("status", "active") != "active":
        found.lost[_("memories that are archived or deleted there")] += 1
        return
    if about.get("persona_summary") not in (None, "", text):
        found.lost[_("summaries in the words of the persona: those that were searched came")] += 1
    made_ms = milliseconds_of(about.get("create_time"), unit=1000) or milliseconds_of(row.get("created_at"), UTC)
    number = row.get("original_id", row.get("id"))
    name = found.conversation_of(_conversation(row.get("session_id") or about.get("session_id")), "", place)
    if name is None:
        return
    known_by = f"livingmemory\n{name}\n{number}\n{made_ms}"
    if not name:  # it belongs to no talk
        tags = texts(about.get("topics"))
        found.note(place, known_by, "", text, tags=tags, created_ms=made_ms, importance=_share(about.get("importance")))
        return
    kept = {"livingmemory": {key: about[key] for key in _KEPT if about.get(key) not in (None, "", [])}}
    memory = chats.memory_of(
        name, (Message("system", without_private(without_surrogates(text)), made_ms or None),), known_by, extra=kept
    )
    memory = replace(memory, text=memory.messages[0].content, messages=())
    if memory.text.strip() and found.fits(place, memory):
        memories.setdefault(name, []).append(memory)


def _message(row: Mapping[str, Any]) -> chat.Message | None:
    role, content = row.get("role"), row.get("content")
    if role not in chat.ROLES or not isinstance(content, str) or not content.strip():
        return None
    message = {"role": role, "content": content, "conversation_id": _conversation(row.get("session_id"))}
    if made_ms := milliseconds_of(row.get("timestamp"), unit=1000):
        message["timestamp"] = made_ms
    return message | ({"name": str(row["sender_name"])} if row.get("sender_name") else {})


def _conversation(session: Any) -> str:
    """As our plugin names it, without the persona."""
    parts = str(session or "").split(":", 2)
    if len(parts) != 3:
        return parts[0] if len(parts) == 1 else ":".join(parts)
    platform, kind, of = parts
    of = of.split("!")[1] if of.count("!") == 2 else of  # `webchat!USER!WINDOW`
    named = (part.replace("%", "%25").replace("/", "%2F") for part in (platform, of))
    return ("/group/" if kind == "GroupMessage" else "/user/").join(named)


def _share(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None

"""Books and the state of chats, to and from JSON (docs/reference/data-folder.md). Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memory_server.kernel.json_text import Json, dumps
from memory_server.kernel.messages import NOTHING
from memory_server.lore.chat_state import ChatState, Effect, Firing
from memory_server.lore.entry_keys import counted_json
from memory_server.lore.memory import BookEntry, LongTermMemory
from memory_server.lore.rule_fields import rules_json

_FIRST_COMMENT = re.compile(r"\A//[^\n]*\n")


def book_json(entry: BookEntry | None) -> Json:
    """Return the fields of a record that name its book."""
    if entry is None:
        return {}
    book = {"id": entry.book_id, "name": entry.book_name, "source": entry.source}
    fields: Json = {
        "book": book,
        "uid": entry.uid,
        "imported": entry.imported,
        "importedOff": entry.imported_off,
        "placement": dict(entry.placement),
    }
    return {name: value for name, value in fields.items() if value}


def taken_book(record: Json) -> BookEntry | None:
    """Take the fields of a book out of a record. Return the book, or None if the record names none that this program
    would write."""
    book = record.get("book")
    if (
        not isinstance(book, dict)
        or not isinstance(book.get("id"), str)
        or not isinstance(book.get("name"), str)
    ):
        return None

    if (
        not book["id"]
        or set(book) - {"id", "name", "source"}
        or not isinstance(book.get("source", ""), str)
    ):
        return None

    texts = {name: record.get(name, "") for name in ("uid", "imported")}
    placement = record.get("placement", {})

    imported_off = record.get("importedOff", False)
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(placement, dict):
        return None
    if not isinstance(imported_off, bool):
        return None

    # Only fields that are understood leave the record; all others stay as they are.
    for name in ("book", "uid", "imported", "importedOff", "placement"):
        record.pop(name, None)

    return BookEntry(
        book["id"],
        book["name"],
        book.get("source", ""),
        **texts,
        imported_off=imported_off,
        placement=placement or NOTHING,
    )


def imported_fingerprint(memory: LongTermMemory) -> str:
    """Return the fingerprint of a memory. It does not depend on whether the memory is switched off, nor on the comment
    at the beginning of its trigger, which has the number of its entry."""
    counted_keys = memory.extra.get("groupKeys")  # of an import from before keys were data
    if memory.keys is not None:
        counted_keys = counted_json(memory.keys)
    rules = dumps(rules_json(replace(memory.rules, is_off=False), counted_keys)).decode()
    trigger = _FIRST_COMMENT.sub("", memory.trigger)
    content = "\0".join((memory.prompt, trigger, rules)).encode(errors="replace")
    return hashlib.blake2b(content, digest_size=8).hexdigest()


# --- the state of a chat -----------------------------------------------------------------------------------


def chat_state_json(state: ChatState | None) -> Json | None:
    if state is None:
        return None
    return {
        "messages": state.messages,
        "at": state.at_ms,
        "firings": {name: _firing_json(firing) for name, firing in state.firings.items()},
    }


def _firing_json(firing: Firing) -> Json:
    fields: Json = {
        "message": firing.message,
        "at": firing.at_ms,
        "before": None if firing.before is None else list(firing.before),
        "sticky": None if firing.sticky is None else _effect_json(firing.sticky),
        "cooldown": None if firing.cooldown is None else _effect_json(firing.cooldown),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _effect_json(effect: Effect) -> list[Any]:
    return [effect.start, effect.end, effect.is_protected]


def chat_state_of(record: Any) -> ChatState | None:
    """Read the state of a chat from its JSON form; None for none. Raise KeyError, TypeError, ValueError or
    AttributeError."""
    if record is None:
        return None
    firings = {str(name): _firing(value) for name, value in record["firings"].items()}
    return ChatState(int(record["messages"]), int(record["at"]), firings)


def _firing(record: Mapping[str, Any]) -> Firing:
    before = record.get("before")
    if before is not None:
        message, at_ms = before
        before = (int(message), int(at_ms))
    return Firing(
        message=int(record["message"]),
        at_ms=int(record["at"]),
        before=before,
        sticky=_effect(record.get("sticky")),
        cooldown=_effect(record.get("cooldown")),
    )


def _effect(record: Any) -> Effect | None:
    if record is None:
        return None
    start, end, is_protected = record
    return Effect(int(start), int(end), bool(is_protected))


def chats_json(chats: Mapping[str, ChatState]) -> Json:
    return {session: chat_state_json(state) for session, state in chats.items()}


def chats_of(record: Any) -> dict[str, ChatState]:
    """Return the chats of a conversation by their sessions; what cannot be read is left out."""
    states: dict[str, ChatState] = {}
    if not isinstance(record, dict):
        return states
    for session, value in record.items():
        try:
            state = chat_state_of(value)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            continue
        if state is not None:
            states[session] = state
    return states

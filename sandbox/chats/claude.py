"""A Claude export, `conversations.json`: each conversation is a list of messages. Pure.

A message has `sender`, `created_at`, and blocks of `content`; older files have only its `text`. Where messages name
their parents, the branch that ends with the last message is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.chats.dates import DateError, milliseconds
from sandbox.chats.messages import ChatError, Message

_ROLES = {"human": "user", "assistant": "assistant"}


def is_conversation(value: Any) -> bool:
    """Whether this JSON value is a conversation of such an export."""
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


def messages(conversation: Mapping[str, Any]) -> list[Message]:
    """Its messages with text: without thoughts, tools and attached files. Raises ChatError."""
    rows: Sequence[Any] = conversation["chat_messages"]
    return [message for row in _branch([row for row in rows if isinstance(row, dict)]) if (message := _message(row))]


def _branch(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    by_id = {row["uuid"]: row for row in rows if isinstance(row.get("uuid"), str)}
    if not any(str(row.get("parent_message_uuid")) in by_id for row in rows):
        return rows
    found = [rows[-1]]
    while (parent := by_id.pop(str(found[-1].get("parent_message_uuid")), None)) is not None:
        found.append(parent)
    return found[::-1]


def _message(row: Mapping[str, Any]) -> Message | None:
    blocks = [block for block in row.get("content") or () if isinstance(block, dict) and block.get("type") == "text"]
    parts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    text = "\n".join(part for part in parts if part) or row.get("text")
    role = _ROLES.get(str(row.get("sender")))
    if role is None or not isinstance(text, str) or not text.strip():
        return None
    message: Message = {"role": role, "content": text}
    if row.get("created_at"):
        try:
            message["timestamp"] = milliseconds(row["created_at"], None)
        except DateError as error:
            raise ChatError(f"has a message whose created_at {error}") from error
    return message

"""A ChatGPT export, `conversations.json`: each conversation is a tree; its current branch is read. Pure.

A tree (`mapping`) has a node per message with `parent` and `children`. A message that is edited or answered again
makes a new branch. The current branch leads from `current_node` to the root. Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.chats.messages import ROLES, Message


def is_conversation(value: Any) -> bool:
    """Whether this JSON value is a conversation of such an export."""
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def messages(conversation: Mapping[str, Any]) -> list[Message]:
    """The messages of its current branch."""
    nodes: Mapping[str, Any] = conversation["mapping"]
    at: Any = conversation.get("current_node") or _latest(nodes)
    found: list[Message] = []
    seen: set[str] = set()
    while isinstance(at, str) and at not in seen and isinstance(nodes.get(at), dict):
        seen.add(at)
        if (message := _message(nodes[at].get("message"))) is not None:
            found.append(message)
        at = nodes[at].get("parent")
    return found[::-1]


def _latest(nodes: Mapping[str, Any]) -> str | None:
    """The leaf with the newest message, for files without a current branch."""
    leaves = [name for name, node in nodes.items() if isinstance(node, dict) and not node.get("children")]
    return max(leaves, key=lambda name: (nodes[name].get("message") or {}).get("create_time") or 0, default=None)


def _message(value: Any) -> Message | None:
    """A visible message with text; None for tools, hidden instructions, empty roots and pictures."""
    if not isinstance(value, dict):
        return None
    role = (value.get("author") or {}).get("role")
    content = value.get("content") or {}
    hidden = (value.get("metadata") or {}).get("is_visually_hidden_from_conversation")
    if role not in ROLES or hidden or content.get("content_type") not in ("text", "multimodal_text"):
        return None
    parts = [part if isinstance(part, str) else _spoken(part) for part in content.get("parts") or ()]
    text = "\n".join(part for part in parts if part)
    if not text:
        return None
    message: Message = {"role": role, "content": text}
    time = value.get("create_time")
    if isinstance(time, int | float) and time > 0:
        message["timestamp"] = round(time * 1000)
    return message


def _spoken(part: Any) -> str:
    """The transcript of a spoken part; None for a picture."""
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""

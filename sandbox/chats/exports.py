"""`conversations.json`, the export of ChatGPT or Claude: choosing one of many conversations, and its messages. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.chats.dates import DateError, milliseconds
from sandbox.chats.messages import ROLES, ChatError, Message
from sandbox.locale import _

_CLAUDE_ROLES = {"human": "user", "assistant": "assistant"}


def conversations(value: Any) -> Sequence[Any]:
    """The conversations of an export; none if this JSON value is not one."""
    rows: list[Any] = value if isinstance(value, list) else [value]
    return rows if rows and _form(rows[0]) else ()


def _form(value: Any) -> str | None:
    """The field that tells a conversation of ChatGPT (`mapping`) or Claude (`chat_messages`); None for other values."""
    fields = (("mapping", dict), ("chat_messages", list)) if isinstance(value, dict) else ()
    return next((name for name, kind in fields if isinstance(value.get(name), kind)), None)


def title(conversation: Any) -> str:
    named = isinstance(conversation, dict) and (conversation.get("title") or conversation.get("name"))
    return str(named or "")


def messages(conversation: Any) -> list[Message]:
    """The messages of a conversation. Raises ChatError."""
    match _form(conversation):
        case "mapping":
            return _of_chatgpt(conversation)
        case "chat_messages":
            return _of_claude(conversation)
    raise ChatError("has a conversation without `mapping` or `chat_messages`; export it again")


def chosen(conversations: Sequence[Any], which: str | None) -> Any:
    """One conversation. `which`: its number from 1, or a part of its title. Raises ChatError."""
    count = len(conversations)
    if which is None:
        if count > 1:
            raise ChatError(
                "has {number} conversations; add # and a number or a part of the title to the file's name, "
                "such as conversations.json#1 for {title!r}",
                count,
                title(conversations[0]),
            )
        return conversations[0]
    if which.isdecimal():
        if not 1 <= int(which) <= count:
            raise ChatError("has no conversation {which}; give a number from 1 to {number}", which, count)
        return conversations[int(which) - 1]
    found = [one for one in conversations if which.casefold() in title(one).casefold()]
    if len(found) != 1:
        numbers = [str(number) for number, one in enumerate(conversations, start=1) if one in found][:5]
        hint = (
            _("give a number, one of {numbers}", ", ".join(numbers))
            if found
            else _("give a number from 1 to {number}", count)
        )
        raise ChatError(
            "has {found} conversations with {which!r} in the title; {hint}", len(found) or "no", which, hint
        )
    return found[0]


def _of_chatgpt(conversation: Mapping[str, Any]) -> list[Message]:
    """The messages of the current branch of a tree (`mapping`): a node per message, with `parent` and `children`. A
    message that is edited or answered again makes a new branch. The current branch leads from `current_node` to the
    root. Times are seconds since 1970."""
    nodes: Mapping[str, Any] = conversation["mapping"]
    at: Any = conversation.get("current_node") or _latest(nodes)
    found: list[Message] = []
    seen: set[str] = set()
    while isinstance(at, str) and at not in seen and isinstance(nodes.get(at), dict):
        seen.add(at)
        if (message := _chatgpt_message(nodes[at].get("message"))) is not None:
            found.append(message)
        at = nodes[at].get("parent")
    return found[::-1]


def _latest(nodes: Mapping[str, Any]) -> str | None:
    """The leaf with the newest message, for files without a current branch."""
    leaves = [name for name, node in nodes.items() if isinstance(node, dict) and not node.get("children")]
    return max(leaves, key=lambda name: _seconds(nodes[name].get("message")), default=None)


def _chatgpt_message(value: Any) -> Message | None:
    """A visible message with text; None for tools, hidden instructions, empty roots and pictures."""
    if not isinstance(value, dict):
        return None
    role = (value.get("author") or {}).get("role")
    content = value.get("content") or {}
    hidden = (value.get("metadata") or {}).get("is_visually_hidden_from_conversation")
    if role not in ROLES or hidden or content.get("content_type") not in ("text", "multimodal_text"):
        return None
    # A spoken part has its transcript; a picture has no text.
    parts = [part.get("text") if isinstance(part, dict) else part for part in content.get("parts") or ()]
    text = "\n".join(part for part in parts if isinstance(part, str) and part)
    if not text:
        return None
    message: Message = {"role": role, "content": text}
    if (time := _seconds(value)) > 0:
        try:
            message["timestamp"] = milliseconds(time * 1000, None)
        except DateError as error:
            raise ChatError("has a message whose create_time {reason}", error) from error
    return message


def _seconds(message: Any) -> float:
    """When a message of a tree was written; 0: this is not known."""
    time = message.get("create_time") if isinstance(message, dict) else None
    return time if isinstance(time, int | float) else 0


def _of_claude(conversation: Mapping[str, Any]) -> list[Message]:
    """The messages with text: without thoughts, tools and attached files. Raises ChatError. A message has `sender`,
    `created_at`, and blocks of `content`; older files have only its `text`. Where messages name their parents, the
    branch that ends with the last message is read."""
    rows = [row for row in conversation["chat_messages"] if isinstance(row, dict)]
    return [message for row in _branch(rows) if (message := _claude_message(row))]


def _branch(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    by_id = {row["uuid"]: row for row in rows if isinstance(row.get("uuid"), str)}
    if not any(str(row.get("parent_message_uuid")) in by_id for row in rows):
        return rows
    found = [rows[-1]]
    while (parent := by_id.pop(str(found[-1].get("parent_message_uuid")), None)) is not None:
        found.append(parent)
    return found[::-1]


def _claude_message(row: Mapping[str, Any]) -> Message | None:
    blocks = [block for block in row.get("content") or () if isinstance(block, dict) and block.get("type") == "text"]
    parts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    text = "\n".join(part for part in parts if part) or row.get("text")
    role = _CLAUDE_ROLES.get(str(row.get("sender")))
    if role is None or not isinstance(text, str) or not text.strip():
        return None
    message: Message = {"role": role, "content": text}
    if row.get("created_at"):
        try:
            message["timestamp"] = milliseconds(row["created_at"], None)
        except DateError as error:
            raise ChatError("has a message whose created_at {reason}", error) from error
    return message

"""Exports with many conversations, such as ChatGPT's and Claude's: telling them, and choosing a conversation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sandbox.chats import chatgpt, claude
from sandbox.chats.messages import ChatError, Message

_KINDS = (chatgpt, claude)


def conversations(value: Any) -> Sequence[Any]:
    """The conversations of an export; none if this JSON value is not one."""
    rows: list[Any] = value if isinstance(value, list) else [value]
    return rows if rows and any(kind.is_conversation(rows[0]) for kind in _KINDS) else ()


def title(conversation: Any) -> str:
    """Its title, or ''."""
    named = isinstance(conversation, dict) and (conversation.get("title") or conversation.get("name"))
    return str(named or "")


def messages(conversation: Any) -> list[Message]:
    """The messages of a conversation. Raises ChatError."""
    for kind in _KINDS:
        if kind.is_conversation(conversation):
            said: list[Message] = kind.messages(conversation)
            return said
    raise ChatError("has a conversation without `mapping` or `chat_messages`; export it again")


def chosen(conversations: Sequence[Any], which: str | None) -> Any:
    """One conversation. `which`: its number from 1, or a part of its title. Raises ChatError."""
    count = len(conversations)
    if which is None:
        if count > 1:
            raise ChatError(
                f"has {count} conversations; add # and a number or a part of the title to the file's name, "
                f"such as conversations.json#1 for {title(conversations[0])!r}"
            )
        return conversations[0]
    if which.isdecimal():
        if not 1 <= int(which) <= count:
            raise ChatError(f"has no conversation {which}; give a number from 1 to {count}")
        return conversations[int(which) - 1]
    found = [one for one in conversations if which.casefold() in title(one).casefold()]
    if len(found) != 1:
        numbers = [str(number) for number, one in enumerate(conversations, start=1) if one in found][:5]
        hint = f"give a number, one of {', '.join(numbers)}" if found else f"give a number from 1 to {count}"
        raise ChatError(f"has {len(found) or 'no'} conversations with {which!r} in the title; {hint}")
    return found[0]

"""Exports of chat programs: choosing a conversation of many, and its messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from languages import _
from sandbox.chats import chatgpt, claude, left_out, programs
from sandbox.chats.messages import ChatError, ParsedChat, Problem

_SHORT_LIVED = ("is_do_not_remember", "is_temporary_chat", "is_temporary")
"""Marks of a chat that its user did not want to be remembered."""

_SHOWN_NUMBERS = 5
"""Numbers of conversations that a refusal names."""


def conversations(value: Any) -> Sequence[Any]:
    """Return the conversations of an export; none if this JSON value is not one."""
    rows: list[Any] = value if isinstance(value, list) else [value]
    of_programs = programs.chats(rows)
    if of_programs:
        return of_programs
    if not any(map(_form, rows)):
        return ()
    return rows


def _form(value: Any) -> str | None:
    """Return the field that tells a conversation of ChatGPT (`mapping`) or Claude (`chat_messages`), or None for
    other values."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("mapping"), dict):
        return "mapping"
    if isinstance(value.get("chat_messages"), list):
        return "chat_messages"
    return None


def title(conversation: Any) -> str:
    """Return the title of a conversation; empty if it has none."""
    if isinstance(conversation, programs.Chat):
        return conversation.title
    if not isinstance(conversation, dict):
        return ""
    return str(conversation.get("title") or conversation.get("name") or "")


def read(conversation: Any, location: str) -> ParsedChat:
    """Read a conversation; `location`: how a report names it. A conversation that its user did not want to be
    remembered has no messages."""
    if isinstance(conversation, programs.Chat):
        return programs.read(conversation, location)
    form = _form(conversation)
    reading = ParsedChat()
    if form is None:
        reason = _("has neither `mapping` nor `chat_messages`; export it again")
        reading.problems.append(Problem(location, reason))
    elif any(conversation.get(mark) is True for mark in _SHORT_LIVED):
        reading.left_out[left_out.NOT_TO_BE_REMEMBERED] += 1
    else:
        with reading.record(location):
            return chatgpt.read(conversation) if form == "mapping" else claude.read(conversation)
    return reading


def chosen(conversations: Sequence[Any], which: str | None) -> Any:
    """Choose a conversation. `which`: its number from 1, or a part of its title, or None if there
    is only one. Raises ChatError if none or several match."""
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
            raise ChatError(
                "has no conversation {which}; give a number from 1 to {number}", which, count
            )
        return conversations[int(which) - 1]

    # A text that is not a number is a part of the title.
    numbers: list[int] = []
    for number, conversation in enumerate(conversations, start=1):
        if which.casefold() in title(conversation).casefold():
            numbers.append(number)

    if len(numbers) == 1:
        return conversations[numbers[0] - 1]

    if numbers:
        hint = _("give a number, one of {numbers}", ", ".join(map(str, numbers[:_SHOWN_NUMBERS])))
    else:
        hint = _("give a number from 1 to {number}", count)

    raise ChatError(
        "has {found} conversations with {which!r} in the title; {hint}",
        len(numbers) or "no",
        which,
        hint,
    )

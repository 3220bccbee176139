"""`conversations.json`, the export of ChatGPT or Claude: choosing one of many conversations, and its messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sandbox.chats import chatgpt, claude, left_out
from sandbox.chats.messages import ChatError, Problem, Reading
from sandbox.locale import _

_SHORT_LIVED = ("is_do_not_remember", "is_temporary_chat", "is_temporary")
"""Marks of a chat that its user did not want to be remembered."""


def conversations(value: Any) -> Sequence[Any]:
    """The conversations of an export; none if this JSON value is not one."""
    rows: list[Any] = value if isinstance(value, list) else [value]
    return rows if any(map(_form, rows)) else ()


def _form(value: Any) -> str | None:
    """The field that tells a conversation of ChatGPT (`mapping`) or Claude (`chat_messages`); None for other values."""
    fields = (("mapping", dict), ("chat_messages", list)) if isinstance(value, dict) else ()
    return next((name for name, kind in fields if isinstance(value.get(name), kind)), None)


def title(conversation: Any) -> str:
    named = isinstance(conversation, dict) and (conversation.get("title") or conversation.get("name"))
    return str(named or "")


def read(conversation: Any, place: str) -> Reading:
    """What one conversation holds; `place`: how a report names it. One that its user did not want to be remembered has
    no messages."""
    form = _form(conversation)
    reading = Reading()
    if form is None:
        reason = _("has neither `mapping` nor `chat_messages`; export it again")
        reading.problems.append(Problem(place, reason))
    elif any(conversation.get(mark) is True for mark in _SHORT_LIVED):
        reading.left_out[left_out.NOT_TO_BE_REMEMBERED] += 1
    elif form == "mapping":
        reading = chatgpt.read(conversation)
    else:
        reading = claude.read(conversation)
    return reading


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

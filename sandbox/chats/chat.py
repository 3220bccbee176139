"""Chat files of trigger authors; the content shows the form. Pure: text to messages.

Forms: JSON lines of messages, a JSON array of them, lines of `role: text`, an export of SillyTavern or ChatGPT.
docs/reference/trigger-packs.md describes them and changes with this.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import tzinfo
from itertools import chain
from typing import Any

from sandbox.chats import chatgpt, messages, plain, sillytavern
from sandbox.chats.messages import ROLES, ChatError, Message
from sandbox.chats.plain import People

__all__ = ["ROLES", "ChatError", "Message", "People", "parse"]


def parse(
    text: str,
    zone: tzinfo | None = None,
    which: str | None = None,
    people: People = People(),  # noqa: B008 - frozen
) -> tuple[list[Message], str]:
    """The messages of a chat file, and one sentence about the roles that were assumed, or ''. Raises ChatError.

    `zone`: of local times in it, None the system's. `which`: the conversation, in a file of several, by number from 1
    or a part of its title. `people`: known roles of names, for plain lines.
    """
    text = text.removeprefix("\ufeff")
    if which is None and text.lstrip()[:1] not in ("[", "{"):
        lines = plain.parse(text, people)
        return lines.messages, lines.note()
    return _structured(text, zone, which), ""


def _structured(text: str, zone: tzinfo | None, which: str | None) -> list[Message]:
    start = text.lstrip()[:1]
    whole = _whole(text) if start in ("[", "{") else None
    if whole is not None and chatgpt.is_export(whole):
        return chatgpt.messages(whole, which)
    if which is not None:
        raise ChatError(f"has one conversation; leave out #{which}")
    if start == "[":
        return _array(whole, zone)
    rows = messages.json_lines(text)
    first = next(rows)
    if sillytavern.is_export(first[1]):
        return sillytavern.messages(chain([first], rows), zone)
    _refuse_other_files(first[1])
    return messages.messages(chain([first], rows), zone)


def _whole(text: str) -> Any:
    """The text as one JSON value, or None: JSON lines are not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _array(whole: Any, zone: tzinfo | None) -> list[Message]:
    if not isinstance(whole, Sequence):
        raise ChatError("begins with [ but is not JSON; give JSON lines of messages, or lines of `role: text`")
    numbered = [(f"message {number}", row) for number, row in enumerate(whole, start=1)]
    if numbered and isinstance(numbered[0][1], dict) and "trigger" in numbered[0][1]:
        raise ChatError("is a pack of triggers, not a chat; give a chat file")
    if numbered and sillytavern.is_export(numbered[0][1]):
        return sillytavern.messages(numbered, zone)
    return messages.messages(numbered, zone)


def _refuse_other_files(first: Any) -> None:
    """Refuses files that people often give in place of a chat, and names them."""
    if isinstance(first, dict) and "role" not in first:
        if "entries" in first:
            raise ChatError("is a lorebook, not a chat; `memory-server convert` makes a pack of it")
        if "spec" in first:
            raise ChatError("is a character card, not a chat; export the chat itself as JSONL")

"""Chat files of trigger authors; the content shows the form. Pure: text to messages.

Forms: JSON lines of messages, a JSON array of them, lines of `role: text`, an export of SillyTavern, ChatGPT or Claude.
docs/reference/trigger-packs.md describes them and changes with this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import tzinfo
from itertools import chain
from typing import Any

from sandbox.chats import exports, messages, plain
from sandbox.chats.messages import ROLES, ChatError, Message
from sandbox.locale import _

__all__ = ["ROLES", "ChatError", "Message", "conversations", "is_chat", "parse"]
_OTHER_FILES = {
    "trigger": _("is a pack of triggers, not a chat; give a chat file"),
    "entries": _("is a lorebook, not a chat; `memory-server convert` makes a pack of it"),
    "spec": _("is a character card, not a chat; export the chat itself as JSONL"),
}
"""Files that people often give in place of a chat, by a field."""


def parse(
    text: str,
    zone: tzinfo | None = None,
    which: str | None = None,
    roles: Mapping[str, str] | None = None,
) -> tuple[list[Message], str]:
    """The messages of a chat file, and one sentence about the roles that were assumed, or ''. Raises ChatError. `zone`:
    of local times in it, None the system's. `which`: the conversation, in a file of several, by number from 1 or a part
    of its title. `roles`: known ones, by name, for plain lines."""
    text = text.removeprefix("\ufeff")
    if which is None and text.lstrip()[:1] not in ("[", "{"):
        return plain.parse(text, roles)
    return _structured(text, zone, which), ""


def conversations(
    text: str, zone: tzinfo | None = None, roles: Mapping[str, str] | None = None
) -> tuple[list[list[Message]], str]:
    """The messages of each conversation of a chat file, and the sentence that `parse` gives. Raises ChatError."""
    text = text.removeprefix("\ufeff")
    if held := exports.conversations(_whole(text)):
        return [exports.messages(one) for one in held], ""
    found, note = parse(text, zone, None, roles)
    return [found], note


def is_chat(first: Any) -> bool:
    """Whether a file that begins with this JSON value is a chat."""
    message = isinstance(first, dict) and "role" in first and "content" in first
    return message or messages.is_sillytavern(first) or bool(exports.conversations(first))


def _structured(text: str, zone: tzinfo | None, which: str | None) -> list[Message]:
    whole = _whole(text) if text.lstrip()[:1] in ("[", "{") else None
    if held := exports.conversations(whole):
        return exports.messages(exports.chosen(held, which))
    if which is not None:
        raise ChatError("has one conversation; leave out #{which}", which)
    rows = messages.json_lines(text)
    if text.lstrip().startswith("["):
        if not isinstance(whole, list):
            raise ChatError("begins with [ but is not JSON; give JSON lines of messages, or lines of `role: text`")
        rows = ((_("message {number}", number), row) for number, row in enumerate(whole, start=1))
    if (first := next(rows, None)) is None:
        return []
    for key, about in _OTHER_FILES.items() if isinstance(first[1], dict) and "role" not in first[1] else ():
        if key in first[1]:
            raise ChatError(about)
    read = messages.sillytavern_messages if messages.is_sillytavern(first[1]) else messages.messages
    return read(chain([first], rows), zone)


def _whole(text: str) -> Any:
    """The text as one JSON value, or None: JSON lines are not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

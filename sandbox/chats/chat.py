"""Chat files of trigger authors; the content shows the form. Pure: text to messages.

Forms: JSON lines of messages, a JSON array of them, lines of `role: text`, an export of SillyTavern, ChatGPT, Claude or
another program of programs.py.
docs/reference/trigger-packs.md describes them and changes with this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from itertools import chain
from typing import Any

from languages import N_, _
from sandbox.chats import exports, messages, plain
from sandbox.chats.message_forms import ROLES, is_message
from sandbox.chats.messages import ChatError, Message, ParsedChat
from sandbox.values import frozen

__all__ = [
    "ROLES",
    "ChatError",
    "ChatFile",
    "Message",
    "ParsedChat",
    "is_chat",
    "parse",
    "read",
    "read_export",
]
_OTHER_FILES = N_(
    {
        "trigger": "is a pack of triggers, not a chat; give a chat file",
        "entries": "is a lorebook, not a chat; `memory-server convert` makes a pack of it",
        "spec": "is a character card, not a chat; export the chat itself as JSONL",
    }
)
"""Files that people often give in place of a chat, by a field."""


@frozen
class ChatFile:
    """What was read of a file: each of its conversations, and one sentence about the roles that were assumed, or ''."""

    conversations: Sequence[ParsedChat]
    note: str = ""


def parse(
    text: str,
    zone: tzinfo | None = None,
    which: str | None = None,
    roles: Mapping[str, str] | None = None,
) -> tuple[list[Message], str]:
    """Read one conversation of a chat file. Return its messages and a sentence about the roles that were assumed, or ''.
    Raises ChatError if a message cannot be read, or it is not known which conversation is meant. `zone`: the zone of
    local times in it, None for the system's. `which`: the conversation, in a file of several, by number from 1 or a
    part of its title. `roles`: known roles, by name, for plain lines."""
    text = text.removeprefix("\ufeff")
    if which is None and text.lstrip()[:1] not in ("[", "{"):
        return plain.parse(text, roles)
    whole = _whole(text)
    export = exports.conversations(whole)
    if export:
        return exports.read(exports.chosen(export, which), _("the conversation")).checked(), ""
    if which is not None:
        raise ChatError("has one conversation; leave out #{which}", which)
    return _structured(text, whole, zone).checked(), ""


def read(
    text: str,
    zone: tzinfo | None = None,
    roles: Mapping[str, str] | None = None,
    *,
    with_hidden: bool = False,
) -> ChatFile:
    """Read each conversation of a chat file, as far as it can be read; `zone` and `roles` as in `parse`.
    `with_hidden`: also the messages of SillyTavern that the user hid. Raises ChatError: it is not a chat."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] not in ("[", "{") and not _begins_with_another_value(text):
        messages, note = plain.parse(text, roles)
        return ChatFile([ParsedChat(messages)], note)
    whole = _whole(text)
    return ChatFile(read_export(whole) or [_structured(text, whole, zone, with_hidden=with_hidden)])


def read_export(value: Any) -> list[ParsedChat]:
    """Read each conversation of an export of ChatGPT or Claude; nothing from another JSON value."""
    rows = enumerate(exports.conversations(value), start=1)
    return [exports.read(row, _("conversation {number}", number)) for number, row in rows]


def is_chat(first: Any) -> bool:
    """Tell whether a file that begins with this JSON value is a chat."""
    return (
        is_message(first)
        or _is_metadata(first)
        or messages.is_sillytavern(first)
        or bool(exports.conversations(first))
    )


def _structured(
    text: str, whole: Any, zone: tzinfo | None, *, with_hidden: bool = False
) -> ParsedChat:
    """Read a chat of rows: JSON lines, or the items of an array. `whole`: the text as one JSON
    value, or None. Raises ChatError if it begins as an array and is not JSON."""
    reading = ParsedChat()
    if isinstance(whole, list):
        rows = iter(
            [(_("message {number}", number), row) for number, row in enumerate(whole, start=1)]
        )
    elif text.lstrip().startswith("[") and not _begins_with_another_value(text):
        raise ChatError(
            "begins with [ but is not JSON; give JSON lines of messages, or lines of `role: text`"
        )
    else:
        rows = messages.json_lines(text, reading.problems)

    # Rows are read up to the first that tells the form; a damaged row before it does not decide.
    before: list[tuple[str, Any]] = []
    first_row: Any = None
    for location, first_row in rows:
        before.append((location, first_row))
        if _tells_the_form(first_row):
            break

    if not before:
        return reading

    _refuse_other_file(first_row)
    all_rows = chain(before, rows)
    if messages.is_sillytavern(first_row):
        return messages.read_sillytavern(all_rows, zone, reading, with_hidden=with_hidden)

    message_rows = ((location, row) for location, row in all_rows if not _is_metadata(row))
    return messages.read_messages(message_rows, zone, reading)


def _tells_the_form(row: Any) -> bool:
    """Tell whether a row shows what the rows of its file are; a damaged one does not."""
    if not isinstance(row, dict):
        return False
    return "role" in row or messages.is_sillytavern(row) or not row.keys().isdisjoint(_OTHER_FILES)


def _begins_with_another_value(text: str) -> bool:
    """Tell whether the first line is a damaged line of JSON lines: a value that is not an object, above an object."""
    first_line, _end, rest = text.lstrip().partition("\n")
    if not rest.lstrip().startswith("{"):
        return False
    try:
        json.loads(first_line)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_other_file(first_row: Any) -> None:
    """Refuse a file that people often give in place of a chat. Raises ChatError."""
    if not isinstance(first_row, dict) or "role" in first_row:
        return
    for key, advice in _OTHER_FILES.items():
        if key in first_row:
            raise ChatError(advice)


def _is_metadata(row: Any) -> bool:
    return isinstance(row, dict) and row.get("role") == messages.METADATA


def _whole(text: str) -> Any:
    """Return the text as one JSON value, or None for JSON lines. Lines each of which is a whole chat are a list of
    chats."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    rows = (row for _location, row in messages.json_lines(text, []))
    first = next(rows, None)
    if not exports.conversations(first):
        return None
    return [first, *rows]

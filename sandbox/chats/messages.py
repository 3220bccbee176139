"""Messages as triggers see them, which every form of chat becomes; rows that have this form, and those of SillyTavern.
Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import tzinfo
from typing import Any

from sandbox.chats.dates import DateError, milliseconds
from sandbox.locale import MessageError, _

Message = dict[str, Any]
"""role, content, and if known timestamp (ms since 1970) and name; other fields are kept unchanged."""
ROLES = ("user", "assistant", "system")
_EXAMPLE = '{"role": "user", "content": "text"}'


class ChatError(MessageError):
    """The text is not a chat; the message says which line is wrong and what is expected there."""


def json_lines(text: str) -> Iterator[tuple[str, Any]]:
    """Each line that is not blank, as JSON and with its place in words. Raises ChatError."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield _("line {number}", number), json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ChatError(
                "line {number} is not JSON ({reason}); each line must be one message", number, error
            ) from error


def messages(rows: Iterable[tuple[str, Any]], zone: tzinfo | None) -> list[Message]:
    """Rows that already are messages, each checked. `zone`: of times without an offset. Raises ChatError."""
    return [message(place, row, zone) for place, row in rows]


def message(place: str, row: Any, zone: tzinfo | None) -> Message:
    """One row as a message. Its timestamp may be ISO text and becomes milliseconds. Raises ChatError."""
    if not isinstance(row, dict) or not isinstance(row.get("content"), str):
        raise ChatError("{place} is not a message; expected {example}", place, _EXAMPLE)
    if row.get("role") not in ROLES:
        raise ChatError("{place}: role must be user, assistant or system, not {row!r}", place, row.get("role"))
    if row.get("timestamp") is None:
        return {key: value for key, value in row.items() if key != "timestamp"}
    try:
        return {**row, "timestamp": milliseconds(row["timestamp"], zone)}
    except DateError as error:
        raise ChatError("{place}: timestamp {reason}", place, error) from error


def is_sillytavern(first: Any) -> bool:
    """Whether a file that begins with this row is a chat export of SillyTavern."""
    return isinstance(first, dict) and ("mes" in first or "chat_metadata" in first or "character_name" in first)


def sillytavern_messages(rows: Iterable[tuple[str, Any]], zone: tzinfo | None) -> list[Message]:
    """The messages of JSON lines of SillyTavern, usually with a header first. `zone`: of local times. Raises ChatError.
    Hidden messages (is_system) are left out, because SillyTavern does not send them to the model; a narrator (`/sys`)
    is a system message."""
    found: list[Message] = []
    for position, (place, row) in enumerate(rows):
        if not isinstance(row, dict):
            raise ChatError("{place} is not a message of a SillyTavern chat; export the chat again as JSONL", place)
        if "mes" not in row and position == 0:
            continue  # the header
        if not isinstance(row.get("mes"), str):
            raise ChatError("{place} has no text in `mes`; export the chat again as JSONL", place)
        extra = row.get("extra")
        narrated = isinstance(extra, dict) and extra.get("type") == "narrator"
        if row.get("is_system") and not narrated:
            continue
        role = "system" if narrated else "user" if row.get("is_user") else "assistant"
        message: Message = {"role": role, "content": row["mes"]}
        if row.get("name"):
            message["name"] = str(row["name"])
        if row.get("send_date") not in (None, ""):
            try:
                message["timestamp"] = milliseconds(row["send_date"], zone)
            except DateError as error:
                raise ChatError("{place}: send_date {reason}", place, error) from error
        found.append(message)
    return found

"""A chat export of SillyTavern: JSON lines, usually with a header first, then one message a line. Pure.

Fields that are read: name, is_user, is_system, mes, send_date, extra.type. Hidden messages (is_system) are left out,
because SillyTavern does not send them to the model; a narrator (`/sys`) is a system message.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any

from sandbox.chats.dates import DateError, milliseconds
from sandbox.chats.messages import ChatError, Message


def is_export(first: Any) -> bool:
    """Whether a file that begins with this row is such an export."""
    return isinstance(first, dict) and ("mes" in first or "chat_metadata" in first or "character_name" in first)


def messages(rows: Iterable[tuple[str, Any]], zone: tzinfo | None) -> list[Message]:
    """The messages of an export. `zone`: of its local times. Raises ChatError."""
    found: list[Message] = []
    for position, (place, row) in enumerate(rows):
        if not isinstance(row, dict):
            raise ChatError(f"{place} is not a message of a SillyTavern chat; export the chat again as JSONL")
        if "mes" not in row and position == 0:
            continue  # the header
        if not isinstance(row.get("mes"), str):
            raise ChatError(f"{place} has no text in `mes`; export the chat again as JSONL")
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
                raise ChatError(f"{place}: send_date {error}") from error
        found.append(message)
    return found

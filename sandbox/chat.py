"""Chat files of trigger authors: JSON lines of messages, or plain lines of `role: text`. Pure: text to messages."""

from __future__ import annotations

import json
import re
from typing import Any

Message = dict[str, Any]
ROLES = ("user", "assistant", "system")
_LINE = re.compile(r"(?P<role>[A-Za-z]+)\s*[:：]\s*(?P<text>.*)", re.DOTALL)


class ChatError(Exception):
    """The text is no chat; the message says which line and what is expected there."""


def parse(text: str) -> list[Message]:
    """The messages of a chat file; the form is decided by its first character. Raises ChatError."""
    text = text.removeprefix("\ufeff")
    return _json_lines(text) if text.lstrip().startswith("{") else _plain_lines(text)


def _json_lines(text: str) -> list[Message]:
    messages = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ChatError(f"line {number} is not JSON ({error}); each line must be one message") from error
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise ChatError(f'line {number} is no message; expected {{"role": "user", "content": "text"}}')
        if message.get("role") not in ROLES:
            raise ChatError(f"line {number}: role must be user, assistant or system, not {message.get('role')!r}")
        messages.append(message)
    return messages


def _plain_lines(text: str) -> list[Message]:
    """A line that does not begin with a role continues the message before it."""
    messages: list[Message] = []
    for number, line in enumerate(text.splitlines(), start=1):
        found = _LINE.fullmatch(line)
        if found is not None and found["role"].lower() in ROLES:
            messages.append({"role": found["role"].lower(), "content": found["text"]})
        elif messages:
            messages[-1]["content"] += f"\n{line}"
        elif line.strip():
            raise ChatError(f"line {number} must begin with user:, assistant: or system:")
    for message in messages:
        message["content"] = message["content"].rstrip()
    return messages

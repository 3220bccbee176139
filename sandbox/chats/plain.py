"""The plain form: lines of `role: text`. A line that begins with no role continues the message before it. Pure."""

from __future__ import annotations

import re

from .messages import ROLES, ChatError, Message

_LINE = re.compile(r"(?P<role>[A-Za-z]+)\s*[:：]\s*(?P<text>.*)", re.DOTALL)


def parse(text: str) -> list[Message]:
    """Raises ChatError when the first line that is not blank begins with no role."""
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

"""What must not be stored: `<private>…</private>` in messages, and anything during a pause. Pure.

In doubt, text is private: an opening tag without an end hides all text after it, and a closing tag without a beginning,
as in a message that was cut, hides all text before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any, Protocol

from memory_server.kernel.messages import MAX_CONTENT_CHARS, Message, both_ends
from memory_server.kernel.times import local
from sandbox.locale import _

_TAG = re.compile(r"<(/?)private\s{0,9}>", re.IGNORECASE)


def without_private(text: str) -> str:
    """`text` without its private parts; a text without such tags is returned unchanged. Linear in the length."""
    kept: list[str] = []
    open_tags = place = 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            if not open_tags:
                kept.append(text[place : tag.start()])
            open_tags += 1
            continue
        if open_tags:
            open_tags -= 1
        else:
            kept.clear()
        place = tag.end()
    if not open_tags:
        if not place:
            return text
        kept.append(text[place:])
    return "".join(kept).strip()


def to_keep(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages as they may be stored: without private parts, without messages that were wholly private, and without
    the answers to a user's message that was wholly private, because they speak of it."""
    kept: list[Message] = []
    answers_private = answered = False
    for message in messages:
        content = without_private(message.content) if isinstance(message.content, str) else message.content
        all_private = content is not message.content and not content
        if message.role == "user":
            # An answer to two messages speaks of both.
            answers_private, answered = all_private or (answers_private and not answered), False
        elif message.role == "assistant":
            answered = True
        if all_private or (answers_private and message.role == "assistant"):
            continue
        kept.append(message if content is message.content else replace(message, content=content))
    return tuple(kept)


def shortened(message: Message) -> Message:
    """`message`; of one that is longer than may be stored the two ends of what is not private. A longer one that is
    wholly private stays as it is, so that `to_keep` leaves it out."""
    if len(message.content) <= MAX_CONTENT_CHARS:
        return message
    content = without_private(message.content)
    return replace(message, content=both_ends(content)) if content else message


def calls_forget(message: Any) -> bool:
    """Whether a message of a client, in the form of Anthropic or OpenAI, calls a tool `forget`, which clients give a
    prefix. Nothing of such a turn is stored."""
    if not isinstance(message, Mapping):
        return False
    content, calls = message.get("content"), message.get("tool_calls")
    parts = [message.get("function_call"), *(content if isinstance(content, list) else ())]
    parts += [each.get("function") for each in calls if isinstance(each, Mapping)] if isinstance(calls, list) else []
    names = (part.get("name") for part in parts if isinstance(part, Mapping))
    called = (name.removesuffix("forget") for name in names if isinstance(name, str) and name.endswith("forget"))
    return any(not before[-1:].isalpha() for before in called)


@dataclass(frozen=True, slots=True)
class Pause:
    """While it lasts, nothing is stored and hooks do not recall. It ends at `until_ms` (milliseconds since 1970); None:
    it lasts until somebody ends it."""

    until_ms: int | None = None

    def text(self, zone: tzinfo | None) -> str:
        """How long it lasts and what ends it, as text for people in `zone` (None: the system's)."""
        if self.until_ms is None:
            return _("paused until `memory-server resume`")
        return _("paused until {local:%Y-%m-%d %H:%M}, or until `memory-server resume`", local(self.until_ms, zone))


class Pauses(Protocol):
    """Where a pause is kept. Every method may raise StorageError; `write` and `remove` then changed nothing."""

    def read(self, now_ms: int) -> Pause | None:
        """The pause at `now_ms`; None without a pause, or after its end."""

    def write(self, pause: Pause) -> None:
        """Begin a pause, or replace one."""

    def remove(self) -> None:
        """End the pause, if there is one."""

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
EMPTY_PART = "<private></private>"
"""What stands for a private part, or for a message that is wholly private, after its words were removed."""


def without_private(text: str) -> str:
    """`text` without its private parts; a text without such tags is returned unchanged. Linear in the length."""
    parts = _public_parts(text)
    return text if len(parts) == 1 else "".join(parts).strip()


def without_private_tags(text: str) -> str:
    """`text` with what its private parts say, and without their tags."""
    return _TAG.sub(" ", text)


def emptied(text: str) -> str:
    """`text` with empty tags for each private part, so that it can be split at lines or headings: no piece has anything
    private, and a piece that had nothing else is still known as wholly private."""
    return EMPTY_PART.join(_public_parts(text))


def _public_parts(text: str) -> list[str]:
    """What stands before, between and after the private parts; a text without such tags is the only one."""
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
            kept = [""]
        place = tag.end()
    kept.append("" if open_tags else text[place:])
    return kept


def to_keep(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages as they may be stored: without private parts, without messages that were wholly private, and without
    the answers to a user's message that was wholly private, because they speak of it."""
    return PublicMessages().of(messages)


@dataclass(slots=True)
class PublicMessages:
    """What `to_keep` gives for a conversation that comes in several parts: the answer to a message that was wholly
    private may stand in a later part. `answers_private`: the next answer speaks of such a message."""

    answers_private: bool = False
    answered: bool = False

    def of(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """The messages of the next part as they may be stored."""
        kept = (self._kept(message) for message in messages)
        return tuple(message for message in kept if message is not None)

    def _kept(self, message: Message) -> Message | None:
        content = without_private(message.content) if isinstance(message.content, str) else message.content
        all_private = content is not message.content and not content
        if message.role == "user":
            # An answer to two messages speaks of both.
            self.answers_private = all_private or (self.answers_private and not self.answered)
            self.answered = False
        elif message.role == "assistant":
            self.answered = True
        if all_private or (self.answers_private and message.role == "assistant"):
            return None
        return message if content is message.content else replace(message, content=content)


def shortened(message: Message) -> Message:
    """`message`; of one that is longer than may be stored the two ends of what is not private. A longer one that is
    wholly private stays as it is, so that `to_keep` leaves it out."""
    if len(message.content) <= MAX_CONTENT_CHARS:
        return message
    content = without_private(message.content)
    return replace(message, content=both_ends(content)) if content else message


def loses_its_middle(message: Message) -> bool:
    """Whether `shortened` leaves out something of `message` that is not private."""
    if len(message.content) <= MAX_CONTENT_CHARS:
        return False
    return len(without_private(message.content)) > MAX_CONTENT_CHARS


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

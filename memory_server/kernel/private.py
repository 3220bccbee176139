"""What must not be stored: `<private>…</private>` in messages, and anything during a pause. Pure.

In doubt, text is private: an opening tag without an end hides all text after it, and a closing tag without a beginning,
as in a message that was cut, hides all text before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import tzinfo
from typing import Any, Protocol

from languages import _
from memory_server.kernel.messages import MAX_CONTENT_CHARS, Message, both_ends
from memory_server.kernel.times import local
from memory_server.kernel.values import dataclass, frozen

_TAG = re.compile(r"<(/?)private\s{0,9}>", re.IGNORECASE)
EMPTY_PART = "<private></private>"
"""The empty tags that replace a private part, or a message that is wholly private."""


def without_private(text: str) -> str:
    """Return `text` without its private parts; a text without such tags is returned unchanged. Linear in the length."""
    public_parts = _public_parts(text)
    if len(public_parts) == 1:
        return text
    return "".join(public_parts).strip()


def without_private_tags(text: str) -> str:
    """Return `text` with the words of its private parts, but without their tags."""
    return _TAG.sub(" ", text)


def emptied(text: str) -> str:
    """Return `text` with empty tags for each private part, so that it can be split at lines or headings: no piece has
    anything private, and a piece that had nothing else can still be seen to be wholly private."""
    return EMPTY_PART.join(_public_parts(text))


def _public_parts(text: str) -> list[str]:
    """Return the parts before, between and after the private parts; a text without such tags is the only part."""
    public_parts: list[str] = []
    open_tags = 0
    public_start = 0

    for tag in _TAG.finditer(text):
        is_closing_tag = bool(tag[1])
        if not is_closing_tag:
            if open_tags == 0:
                public_parts.append(text[public_start : tag.start()])
            open_tags += 1
            continue

        if open_tags > 0:
            open_tags -= 1
        else:
            # Without an opening tag, everything before is private.
            public_parts = [""]
        public_start = tag.end()

    # A part that is not closed is private to the end.
    if open_tags > 0:
        public_parts.append("")
    else:
        public_parts.append(text[public_start:])
    return public_parts


def to_keep(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages as they may be stored: without private parts, without wholly private messages, and without
    the answers to a user's wholly private message, because they speak of it."""
    return PublicMessages().of(messages)


@dataclass(slots=True)
class PublicMessages:
    """The messages that may be stored of a conversation that comes in several parts: the answer to a wholly private
    message may be in a later part. `answers_private`: the next answer speaks of such a message."""

    answers_private: bool = False
    answered: bool = False

    def of(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """Return the messages of the next part as they may be stored."""
        public_messages = [self._public_message(message) for message in messages]
        return tuple(message for message in public_messages if message is not None)

    def _public_message(self, message: Message) -> Message | None:
        """Return the next message of the conversation as it may be stored, or None if it may not be stored."""
        content = message.content
        if isinstance(content, str):
            content = without_private(content)

        is_changed = content is not message.content
        is_wholly_private = is_changed and not content

        if message.role == "user":
            # An answer to two messages speaks of both.
            follows_private = self.answers_private and not self.answered
            self.answers_private = is_wholly_private or follows_private
            self.answered = False
        elif message.role == "assistant":
            self.answered = True

        if is_wholly_private:
            return None
        if message.role == "assistant" and self.answers_private:
            return None

        if is_changed:
            return replace(message, content=content)
        return message


def shortened(message: Message) -> Message:
    """Return `message`, cut to the two ends of its public text if it is longer than may be stored. A longer message
    that is wholly private stays as it is, so that `to_keep` leaves it out."""
    if len(message.content) <= MAX_CONTENT_CHARS:
        return message
    content = without_private(message.content)
    if not content:
        return message
    return replace(message, content=both_ends(content))


def loses_its_middle(message: Message) -> bool:
    """Return whether `shortened` leaves out something of `message` that is not private."""
    if len(message.content) <= MAX_CONTENT_CHARS:
        return False
    return len(without_private(message.content)) > MAX_CONTENT_CHARS


def calls_forget(message: Any) -> bool:
    """Return whether a message of a client calls a tool `forget`, which clients give a prefix; in the form of
    Anthropic, OpenAI (chat completions and Responses), the AI SDK or Gemini. Nothing of such a turn is stored."""
    if not isinstance(message, Mapping):
        return False
    calls = [message.get("function_call")]  # OpenAI, before it had `tool_calls`
    if message.get("type") in ("function_call", "mcp_call"):  # an item of OpenAI's Responses
        calls.append(message)
    for name in ("content", "parts", "toolInvocations", "tool_calls"):
        items = message.get(name)
        if isinstance(items, list):  # of these, only calls have a name
            calls += items
    return any(
        isinstance(call, Mapping) and any(map(_is_forget, _names_in(call))) for call in calls
    )


def _names_in(call: Mapping[str, Any]) -> list[Any]:
    """Return what may be the name of the tool in a call, or in a part that has a call."""
    names = [call.get("name"), call.get("toolName")]
    for inner in ("function", "functionCall", "toolInvocation"):
        if isinstance(call.get(inner), Mapping):
            names += [call[inner].get("name"), call[inner].get("toolName")]
    kind = call.get("type")
    if isinstance(kind, str) and kind.startswith("tool-"):  # of the AI SDK
        names.append(kind.removeprefix("tool-"))
    return names


def _is_forget(tool_name: Any) -> bool:
    """Return whether this is `forget`, alone or after a prefix such as `mcp__memory__`."""
    if not isinstance(tool_name, str) or not tool_name.endswith("forget"):
        return False
    prefix = tool_name.removesuffix("forget")
    return not prefix[-1:].isalpha()


@frozen
class Pause:
    """A pause: while it lasts, nothing is stored and hooks do not recall. It ends at `until_ms` (milliseconds since
    1970); if that is None, it lasts until a person ends it."""

    until_ms: int | None = None

    def text(self, zone: tzinfo | None) -> str:
        """Describe how long it lasts and what ends it, as text for people in `zone` (the system's zone by default)."""
        if self.until_ms is None:
            return _("paused until `memory-server resume`")
        return _(
            "paused until {local:%Y-%m-%d %H:%M}, or until `memory-server resume`",
            local(self.until_ms, zone),
        )


class Pauses(Protocol):
    """The store of a pause. Every method may raise StorageError; `write` and `remove` then changed nothing."""

    def read(self, now_ms: int) -> Pause | None:
        """Return the pause at `now_ms`, or None without a pause or after its end."""

    def write(self, pause: Pause) -> None:
        """Begin a pause, or replace the present pause."""

    def remove(self) -> None:
        """End the pause, if there is one."""

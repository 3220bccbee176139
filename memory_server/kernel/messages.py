"""Messages, which conversations and knowledge are given. Those from outside pass through `storable`, which makes them
valid. A time is an `int` of milliseconds since 1970-01-01 UTC, the resolution of the Node original and of JavaScript's
`Date`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.nesting import DEEPEST, deeper
from memory_server.kernel.text import BEGINNING_CHARS, beginning
from sandbox.locale import N_, LocalizedText, _, joined

Role = Literal["user", "assistant", "system"]


ROLES: tuple[Role, ...] = get_args(Role)
_ROLE_WORDS = N_("user"), N_("assistant"), N_("system")
"""The roles, for the catalogues."""


MAX_CONTENT_CHARS = 100_000
"""Characters of one message: a short novel; its segmentation takes 15 ms."""
_MARK_CHARS = 60
"""Characters for the mark between two ends of a long text."""


MAX_MESSAGES = 500
"""Messages of one memory and of one call. Triggers look at the last few; a context of 500 is copied for each."""


MAX_NAME_CHARS = 200
"""Characters of a long-term memory's name: it is a title, the prompt is the text."""


NOTHING: Mapping[str, Any] = MappingProxyType({})


FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Milliseconds since 1970 of the first and the last moment that dates can show: the years 1 to 9999."""


@dataclass(frozen=True, slots=True)
class Message:
    """One line of a conversation. `time_ms` is None where the client gave no timestamp."""

    role: Role
    content: str
    time_ms: int | None = None
    name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class Session:
    """One context of a model in which messages are said, such as a window of Claude Code or one run of a server.
    Messages of the session from `context_since_ms` on (milliseconds since 1970) are still in its context. None:
    unknown, as for a server that runs for weeks."""

    id: str
    context_since_ms: int | None = None


def both_ends(text: str, most: int = MAX_CONTENT_CHARS) -> str:
    """`text`; of a longer one its beginning and its end, of `most` characters together, and between them how many were
    left out: people write a question before or after what they paste. What is private must not be in it any more."""
    if len(text) <= most:
        return text
    half = (most - _MARK_CHARS) // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"


def context_text(messages: Iterable[Message]) -> str:
    """The text of a memory: one `name-or-role: content` line per message."""
    return "\n".join(_("{about}: {what}", message.name or message.role, message.content) for message in messages)


_ROLE_LINE = re.compile(rf"({'|'.join(ROLES)}): ?(.*)", re.DOTALL)


def said_in(text: str) -> tuple[Message, ...]:
    """The messages of a text of `role: content` lines; any other text is one message of the user."""
    said: list[Message] = []
    for line in both_ends(text).split("\n"):
        if found := _ROLE_LINE.fullmatch(line):
            said.append(Message(cast(Role, found[1]), found[2]))
        elif said:
            said[-1] = replace(said[-1], content=f"{said[-1].content}\n{line}")
        else:
            return (Message("user", both_ends(text)),)
    return tuple(said)


def with_roles(text: str) -> str:
    """A text of `role: content` lines as a message, so that people read the roles in their language. The English is the
    text as it is."""
    lines = [_role_line(line) for line in text.split("\n")]
    if not any(isinstance(line, LocalizedText) for line in lines):
        return text
    return joined("\n", lines)


def said_beginning(text: str, most: int = BEGINNING_CHARS) -> str:
    """As `beginning`, of a text of `role: content` lines, as a message with the roles."""
    plain = beginning(text, most)
    lines: list[str] = []
    room = most
    for line in text.split("\n"):
        words = " ".join(line.split())
        if not words:
            continue
        if len(words) > room:
            lines.append(_role_line(words[:room] + "…"))
            break
        lines.append(_role_line(words))
        room -= len(words) + 1
        if room < 0:
            break
    spoken = joined(" ", lines)
    # Where it is cut between two lines, the mark of the cut has no line of its own.
    return spoken if spoken == plain else plain


def _role_line(line: str) -> str:
    role, colon, content = line.partition(": ")
    if colon and role in ROLES:
        return _("{about}: {what}", _(role), content)
    return line


def storable(message: Message) -> Message:
    """`message` as it will be read back: without lone surrogates. Raises InvalidInput: its role is not one of the
    three, its content is not text or is too long, its time is not a whole number of milliseconds in the years 1
    to 9999, which dates can show, or its other fields are too deep."""
    if message.role not in ROLES:
        raise InvalidInput("The role `{role}` is unknown; use user, assistant or system.", message.role)
    if not isinstance(message.content, str) or len(message.content) > MAX_CONTENT_CHARS:
        raise InvalidInput(
            "The content of a message must be text of at most {content:,} characters; split it.", MAX_CONTENT_CHARS
        )
    time_ms = message.time_ms
    if time_ms is not None and not (isinstance(time_ms, int) and FIRST_MS <= time_ms <= LAST_MS):
        raise InvalidInput("The timestamp {time} is not a time; give milliseconds since 1970 or leave it out.", time_ms)
    if message.extra and deeper(dict(message.extra)):
        raise InvalidInput(
            "The unknown fields of a message may be nested {deepest} levels deep; remove levels.", DEEPEST
        )
    name = None if message.name is None else without_surrogates(message.name)
    return replace(message, content=without_surrogates(message.content), name=name)


def without_surrogates(text: str) -> str:
    """`text` with lone surrogates, which UTF-8 cannot carry, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text

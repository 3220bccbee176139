"""Messages, which conversations and knowledge are given. Messages from outside pass through `storable`, which makes
them valid. A time is an `int` of milliseconds since 1970-01-01 UTC, the resolution of the Node original and of
JavaScript's `Date`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast, get_args

from languages import N_, _
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import DEEPEST, deeper, without_surrogates
from memory_server.kernel.text import BEGINNING_CHARS, beginning
from memory_server.kernel.values import frozen

Role = Literal["user", "assistant", "system"]


ROLES: tuple[Role, ...] = get_args(Role)
_ROLE_WORDS = N_("user"), N_("assistant"), N_("system")
"""The roles, for the catalogues."""


MAX_CONTENT_CHARS = 100_000
"""Characters of a message: a short novel; its segmentation takes 15 ms."""
_MARK_CHARS = 60
"""Characters for the mark between two ends of a long text."""


MAX_MESSAGES = 500
"""Messages of a memory and of a call. Triggers look at the last few; a context of 500 is copied for each."""


MAX_NAME_CHARS = 200
"""Characters of a long-term memory's name: it is a title, the prompt is the text."""


NOTHING: Mapping[str, Any] = MappingProxyType({})


FIRST_MS = -62_135_596_800_000
"""Milliseconds since 1970 of the first moment that dates can show, in the year 1."""
LAST_MS = 253_402_300_799_999
"""Milliseconds since 1970 of the last moment that dates can show, in the year 9999."""


@frozen
class Message:
    """One line of a conversation. `time_ms` is None where the client gave no timestamp."""

    role: Role
    content: str
    time_ms: int | None = None
    name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@frozen
class Session:
    """One context of a model, such as a window of Claude Code. Messages of the session from `context_since_ms` on
    (milliseconds since 1970) are still in its context; it is None if this is unknown."""

    id: str
    context_since_ms: int | None = None


GivenMessage: TypeAlias = Message | Mapping[str, Any]
"""A message of a program: as it is kept here, or as a chat client or an API has it."""


def messages_of(given: Iterable[GivenMessage]) -> tuple[Message, ...]:
    """Convert messages to ours. Messages of chat clients are read as sandbox/chats/message_forms.py does; messages
    without a text of a person or model are left out. Raise InvalidInput if a role or a text is missing, or a
    `timestamp` cannot be read."""
    messages: list[Message] = []
    for message in given:
        if isinstance(message, Message):
            messages.append(message)
        else:
            messages += _said_by_client(message)
    return tuple(messages)


def _said_by_client(message: object) -> list[Message]:
    """Return the message of a chat client, or nothing if no person or model said it. Raises
    InvalidInput if its role or text is missing, or its `timestamp` cannot be read."""
    from sandbox import read_message  # hooks have no such messages, and must not wait for it

    if not isinstance(message, Mapping):
        message = NOTHING
    reading = read_message(message)
    fields = reading.fields
    if fields is None:
        return []
    if reading.undated is not None and reading.undated[0] == "timestamp":
        name, reason = reading.undated
        raise InvalidInput("`{place}` cannot be used: {reason}.", name, reason)
    for name in ("role", "content"):
        if name not in fields:
            raise InvalidInput("A message needs `{name}`; give who said it, and the text.", name)
    return [Message(fields["role"], fields["content"], fields.get("timestamp"), fields.get("name"))]


def both_ends(text: str, most: int = MAX_CONTENT_CHARS) -> str:
    """Return `text`, or the beginning and end of a longer text, of `most` characters together, with the number of
    characters left out between them: people write a question before or after what they paste. Private parts must have
    been removed before."""
    if len(text) <= most:
        return text
    half = (most - _MARK_CHARS) // 2
    left_out_chars = len(text) - 2 * half
    return f"{text[:half]}\n[{left_out_chars:,} characters left out]\n{text[-half:]}"


def context_text(messages: Iterable[Message]) -> str:
    """Return the text of a memory: one `name-or-role: content` line per message."""
    return "\n".join(f"{message.name or message.role}: {message.content}" for message in messages)


_ROLE_LINE = re.compile(rf"({'|'.join(ROLES)}): ?(.*)", re.DOTALL)


def said_in(text: str) -> tuple[Message, ...]:
    """Return the messages of a text of `role: content` lines; any other text is a single message of the user."""
    messages: list[Message] = []
    for line in both_ends(text).split("\n"):
        role_line = _ROLE_LINE.fullmatch(line)
        if role_line is not None:
            role, content = role_line.groups()
            messages.append(Message(cast(Role, role), content))
        elif messages:
            last_message = messages[-1]
            messages[-1] = replace(last_message, content=f"{last_message.content}\n{line}")
        else:
            return (Message("user", both_ends(text)),)
    return tuple(messages)


def with_roles(text: str) -> str:
    """Return a text of `role: content` lines with the roles in the language of this context. In English the text is
    unchanged."""
    return "\n".join(_role_line(line) for line in text.split("\n"))


def said_beginning(text: str, most: int = BEGINNING_CHARS) -> str:
    """Return the `beginning` of a text of `role: content` lines, with the roles in the language of this context."""
    plain = beginning(text, most)
    lines: list[str] = []
    remaining_chars = most

    for line in text.split("\n"):
        words = " ".join(line.split())
        if not words:
            continue

        if len(words) > remaining_chars:
            lines.append(words[:remaining_chars] + "…")
            break
        lines.append(words)
        remaining_chars -= len(words) + 1
        if remaining_chars < 0:
            break
    # If it is cut between two lines, the mark of the cut has no line of its own.
    if " ".join(lines) != plain:
        return plain
    return " ".join(map(_role_line, lines))


def _role_line(line: str) -> str:
    role, colon, content = line.partition(": ")
    if colon and role in ROLES:
        return _("{about}: {what}", _(role), content)
    return line


def storable(message: Message) -> Message:
    """Return `message` as it will be read back: without lone surrogates, and with a known role. Raise InvalidInput if
    its role is not known, its content is not text or is too long, its time is not a whole number of milliseconds in the
    years 1 to 9999, which dates can show, or its other fields are too deep."""
    role = message.role
    if role not in ROLES:
        role = _known_role(role)

    if not isinstance(message.content, str) or len(message.content) > MAX_CONTENT_CHARS:
        raise InvalidInput(
            "The content of a message must be text of at most {content:,} characters; split it.",
            MAX_CONTENT_CHARS,
        )

    time_ms = message.time_ms
    if time_ms is not None and not (isinstance(time_ms, int) and FIRST_MS <= time_ms <= LAST_MS):
        raise InvalidInput(
            "The timestamp {time} is not a time; give milliseconds since 1970 or leave it out.",
            time_ms,
        )

    if message.extra and deeper(dict(message.extra)):
        raise InvalidInput(
            "The unknown fields of a message may be nested {deepest} levels deep; remove levels.",
            DEEPEST,
        )

    name = message.name
    # A client may give a number as a name.
    if name is not None:
        name = without_surrogates(str(name))
    return replace(message, role=role, content=without_surrogates(message.content), name=name)


def _known_role(word: str) -> Role:
    """Return the role that a program means by this word. Raise InvalidInput if it is not known."""
    from sandbox import role_of  # most messages have a role of ours

    role = role_of(word)
    if role not in ROLES:
        raise InvalidInput("The role `{role}` is unknown; use user, assistant or system.", word)
    return role

"""Shapes that several tools share: messages as clients send them, times as results show them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from memory_server.core.model import LAST_MS, MAX_CONTENT_CHARS, MAX_MESSAGES, Message, without_surrogates
from memory_server.core.phrases import counted as counted
from memory_server.core.times import iso
from nlp import ROLE_WEIGHTS

_FIRST_PLAUSIBLE_MS = 100_000_000_000
"""March 1973. A smaller timestamp is one in seconds, given by mistake."""


def _timestamp(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("a timestamp is a finite number of milliseconds since 1970")
    if not _FIRST_PLAUSIBLE_MS <= value <= LAST_MS:
        hint = f", {value * 1000:.0f} for this one if it is in seconds" if 0 < value < _FIRST_PLAUSIBLE_MS else ""
        raise ValueError(f"a timestamp is in milliseconds since 1970{hint}")
    return int(value)


def _content(value: str) -> str:
    if len(value) > MAX_CONTENT_CHARS:
        raise ValueError(f"it has {len(value):,} characters; split it or shorten it to {MAX_CONTENT_CHARS:,}")
    return without_surrogates(value)


Text = Annotated[str, AfterValidator(without_surrogates)]
"""A string without lone surrogates, which cannot be stored."""


class MessageArgument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["user", "assistant", "system"]
    content: Annotated[str, AfterValidator(_content)]
    timestamp: Annotated[int | None, BeforeValidator(_timestamp)] = Field(None, description="ms since 1970")
    name: Text | None = None

    def message(self) -> Message:
        return Message(self.role, self.content, self.timestamp, self.name)


def _role_weight(value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError("a weight is a number of at least 0")
    return value


class RoleWeights(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    user: Annotated[float, AfterValidator(_role_weight)] | None = None
    assistant: Annotated[float, AfterValidator(_role_weight)] | None = None
    system: Annotated[float, AfterValidator(_role_weight)] | None = None


Messages = Annotated[list[MessageArgument], Field(min_length=1, max_length=MAX_MESSAGES)]
ChangeId = Annotated[str | None, Field(description="Names this change for undo_change; left out where nothing changed")]
ConversationId = Annotated[str | None, Field(None, description="Leave out unless given one")]


def _offset(value: int | None) -> int | None:
    if value is not None and value < 0:
        raise ValueError("it is a number of items to leave out, the `next` of the result before")
    return value


Offset = Annotated[int | None, AfterValidator(_offset)]
"""Without a description: a result that goes on says what to give here."""

Scope = Annotated[
    str | None, Field(description="`conversation`, `all`, or a group of the settings; usually what they say")
]
_BEGINNING_CHARS = 100


def messages_of(arguments: Iterable[MessageArgument]) -> tuple[Message, ...]:
    """The messages of a call as records."""
    return tuple(argument.message() for argument in arguments)


def role_weights_of(argument: RoleWeights | None) -> Mapping[str, float]:
    """The weight of each role; the usual one where none is given, and an explicit 0 is 0."""
    given = {} if argument is None else argument.model_dump(exclude_none=True)
    return MappingProxyType({**ROLE_WEIGHTS, **given})


def time_text(time_ms: int | None) -> str | None:
    """A time in results: ISO 8601, UTC."""
    return None if time_ms is None else iso(time_ms)


def beginning(text: str) -> str:
    """The first characters of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _BEGINNING_CHARS else f"{line[:_BEGINNING_CHARS]}…"


def shell_command(conversation_id: str, *words: str) -> str:
    """A command of ours that says it of this conversation, as it is typed."""
    return shlex.join(["memory-server", "--conversation", conversation_id, *words])


class Undoable(Protocol):
    """A result that may carry the id of the change it tells of."""

    @property
    def changeId(self) -> str | None: ...


def undo_hint(result: Undoable) -> str:
    """How to name what was done, where something was."""
    return f" Change {result.changeId}." if result.changeId else ""

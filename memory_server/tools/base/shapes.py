"""Arguments that several tools share: messages, weights, places in a list and times as clients send them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from memory_server.conversations.model import MAX_EXTRA_CHARS, MAX_TEXT_CHARS
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import LAST_MS, MAX_CONTENT_CHARS, MAX_MESSAGES, Message, without_surrogates
from memory_server.kernel.nesting import size
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.times import milliseconds
from nlp import ROLE_WEIGHTS
from sandbox.locale import _

_FIRST_PLAUSIBLE_MS = 100_000_000_000
"""March 1973. A smaller timestamp is probably in seconds, by mistake."""


def _timestamp(value: Any) -> Any:
    if value is None:
        return None
    if type(value) not in (int, float) or (type(value) is float and not math.isfinite(value)):
        raise ValueError(_("a timestamp must be a finite number of milliseconds since 1970"))
    if not _FIRST_PLAUSIBLE_MS <= value <= LAST_MS:
        hint = (
            _(", {value:.0f} for this one if it is in seconds", value * 1000) if 0 < value < _FIRST_PLAUSIBLE_MS else ""
        )
        raise ValueError(_("a timestamp must be in milliseconds since 1970{hint}", hint))
    return int(value)


def _content(value: str) -> str:
    if len(value) > MAX_CONTENT_CHARS:
        raise ValueError(
            _("it has {value:,} characters; split it or shorten it to {content:,}", len(value), MAX_CONTENT_CHARS)
        )
    return without_surrogates(value)


Text = Annotated[str, AfterValidator(without_surrogates)]
"""A string without lone surrogates, which cannot be stored."""


class MessageArgument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    role: Literal["user", "assistant", "system"]
    content: Annotated[str, AfterValidator(_content)]
    timestamp: Annotated[int | None, BeforeValidator(_timestamp)] = Field(None, description="ms since 1970")
    name: Text | None = None


def _of_a_client(given: Any) -> Any:
    """Messages as chat clients keep them: of a content in parts the texts, joined by line breaks; without calls of
    tools, and without the output of tools, which is not what somebody said."""
    if not isinstance(given, list):
        return given
    return [plain for each in given if (plain := _plain(each)) is not None or each is None]


def _plain(message: Any) -> Any:
    """A message with a text as its content; None: it has only other things. What cannot be used stays as it is."""
    if not isinstance(message, dict):
        return message
    if message.get("role") in ("tool", "function"):
        return None
    kept = {name: value for name, value in message.items() if name not in _TOOL_FIELDS}
    content = kept.get("content")
    if isinstance(content, list) and all(isinstance(each, dict) and type(each.get("type")) is str for each in content):
        found = [each.get("text") for each in content if each["type"] in _TEXTS]
        texts = [text for text in found if isinstance(text, str)]
        kept["content"] = content = "\n".join(texts) if texts else None
    elif content is None and not _TOOL_FIELDS & message.keys():
        return message
    if kept.get("role") == "developer":
        kept["role"] = "system"
    return None if content is None else kept


_TEXTS = frozenset({"text", "input_text", "output_text"})
"""Kinds of parts that were said. Not `reasoning_text` or `thinking`: nobody else has heard it."""
_TOOL_FIELDS = frozenset({"tool_calls", "tool_call_id", "function_call", "refusal", "annotations", "audio"})
"""Fields of a message of OpenAI's form that hold no text."""


def _role_weight(value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError(_("a weight must be a number of at least 0"))
    return value


class RoleWeights(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    user: Annotated[float, AfterValidator(_role_weight)] | None = None
    assistant: Annotated[float, AfterValidator(_role_weight)] | None = None
    system: Annotated[float, AfterValidator(_role_weight)] | None = None

    @staticmethod
    def of(given: RoleWeights | None) -> Mapping[str, float]:
        """The weight of each role: the given one, else the usual one; an explicit 0 stays 0."""
        return MappingProxyType({**ROLE_WEIGHTS, **({} if given is None else given.model_dump(exclude_none=True))})


def _records(arguments: Sequence[MessageArgument]) -> tuple[Message, ...]:
    chars = sum(len(each.content) for each in arguments)
    if chars > MAX_TEXT_CHARS:
        raise ValueError(
            _("together they have {chars:,} characters; send at most {text:,}, the last ones", chars, MAX_TEXT_CHARS)
        )
    return tuple(Message(each.role, each.content, each.timestamp, each.name) for each in arguments)


if TYPE_CHECKING:
    Messages = tuple[Message, ...]
else:
    Messages = Annotated[
        list[MessageArgument],
        BeforeValidator(_of_a_client),
        Field(min_length=1, max_length=MAX_MESSAGES),
        AfterValidator(_records),
    ]
"""The messages of a call: checked as arguments, given to the tool as records."""
CurrentMessages = Annotated[Messages, "The last few messages of the chat"]


def _participants(value: dict[str, Any] | None) -> dict[str, Any] | None:
    if (chars := size(value)) > MAX_EXTRA_CHARS:
        raise ValueError(_("it has {chars:,} characters; send at most {extra:,}", chars, MAX_EXTRA_CHARS))
    return value


Participants = Annotated[
    dict[str, Any] | None, AfterValidator(_participants), "Who takes part; triggers see it as it is"
]
ConversationId = Annotated[str | None, "Leave out unless given one"]
SessionName = Annotated[str | None, "This device or window"]


def _texts(given: Any) -> Any:
    """Some models write a list as one text."""
    return words_between_commas(given) if isinstance(given, str) else given


Words = Annotated[list[Text], BeforeValidator(_texts)]
"""Words or short texts; a text with commas between them is taken for a list."""
OtherWords = Annotated[
    Words,
    "Other words for what may have been said before, in the chat's language: things, people, places, occasions, "
    "feelings; none for small talk",
]
"""What a search looks for beside the words of its messages."""
OtherWordsOfSearch = Annotated[Words, "Other words for what you look for, which count less"]
"""The same for a search of entries, which nobody makes unasked."""
KeptWords = Annotated[Words, "Other words by which one may ask for this later"]
"""By which a memory is found beside its own words."""
MAX_PATTERN_CHARS = 1_000
PATTERN = "A word, or /regex/flags in JavaScript syntax"
Regex = Annotated[Text, Field(min_length=1, max_length=MAX_PATTERN_CHARS), PATTERN]


def between(least: int, most: int, what: str) -> AfterValidator:
    """A range that the schema leaves out: every model would pay for it in every conversation."""

    def check(value: int | None) -> int | None:
        if value is not None and not least <= value <= most:
            raise ValueError(_("it must be a number of {what} from {least:,} to {most:,}", what, least, most))
        return value

    return AfterValidator(check)


_LAST_OFFSET = 2**53
"""JSON numbers are exact up to here, and databases take no more than 2^63."""


def _offset(value: int | None) -> int | None:
    if value is not None and not 0 <= value <= _LAST_OFFSET:
        raise ValueError(_("it must be a number of items to skip: the `next` of the result before"))
    return value


Offset = Annotated[int | None, AfterValidator(_offset)]
"""Without a description: a result with more pages says what to give here."""

Scope = Annotated[str | None, "`conversation`, `all`, or a group of the settings; usually what they say"]


def moment_ms(name: str, text: str | None, zone: tzinfo | None, *, end: bool = False) -> int | None:
    """Milliseconds since 1970 of the argument `name`; a date without a time means the first moment of the day, or
    with `end` the last. `zone` is for a text without a zone (None: the system's). Raises InvalidInput: it is not
    a time."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        whole_day = end and len(text) <= len("2026-05-03") and ":" not in text
        moment += timedelta(days=1 if whole_day else 0)
        if moment.tzinfo is None:
            moment = moment.astimezone() if zone is None else moment.replace(tzinfo=zone)
        return milliseconds(moment) - (1 if whole_day else 0)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            "`{name}` is not a time; write for example 2026-05-03 or 2026-05-03T12:00:00Z.", name
        ) from error

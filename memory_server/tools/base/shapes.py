"""Arguments that several tools share: messages, weights, places in a list and times as clients send them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from languages import _
from memory_server.conversations.model import MAX_EXTRA_CHARS, MAX_TEXT_CHARS
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import (
    crowded,
    deeper,
    repeated_name,
    size,
    strict_loads,
    without_surrogates,
)
from memory_server.kernel.messages import LAST_MS, MAX_CONTENT_CHARS, MAX_MESSAGES, Message
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.times import milliseconds
from memory_server.kernel.values import frozen
from nlp import ROLE_WEIGHTS
from sandbox import message_rows, read_message


class Arguments(BaseModel):
    """Base of all arguments: an unknown name is an error, because a misspelt name must not be ignored. Types are
    strict: `"yes"` and 1 are not true, and true is not 1, because `confirm` and an id must be meant. What clients are
    known to send otherwise is read before this check (`as_meant`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@frozen
class MessageContext:
    """What the check of the arguments of a call gives the reader of messages, and what the reader finds. `zone` is for
    times without an offset, None for the system's. `unknown_fields` are fields of messages that are not read."""

    zone: tzinfo | None = None
    unknown_fields: set[str] = field(default_factory=set)


def _from_client(given: Any, info: ValidationInfo) -> Any:
    """Convert messages of chat clients (sandbox/chats/message_forms.py), without messages that have
    no text of a person or model, such as calls of tools and their output. What cannot be used stays
    as it is. Raises ValueError if a timestamp cannot be read, or if no message has a text."""
    rows = message_rows(given)
    if not isinstance(rows, list):
        return rows
    context = info.context if isinstance(info.context, MessageContext) else MessageContext()
    messages: list[Any] = []
    for row in rows:
        if not isinstance(row, dict):
            # Its refusal names its index.
            messages.append(row)
            continue

        reading = read_message(row, context.zone)
        if reading.fields is not None:
            messages.append(reading.fields)
            context.unknown_fields.update(reading.unknown)

        if reading.undated is not None and reading.undated[0] == "timestamp":
            raise ValueError(_("{field} {reason}", *reading.undated))
        if reading.undated is not None:
            context.unknown_fields.add(reading.undated[0])

    # An empty list is right where a chat opens, but a list without a usable message is a mistake of the caller.
    if rows and not messages:
        raise ValueError(
            _("no message in it has a content that somebody said, only what tools or thoughts gave")
        )

    return messages


_FIRST_PLAUSIBLE_MS = 100_000_000_000
"""March 1973. A smaller timestamp is not of a chat."""


def _timestamp(value: int | None) -> int | None:
    if value is not None and not _FIRST_PLAUSIBLE_MS <= value <= LAST_MS:
        raise ValueError(_("a timestamp must be in milliseconds since 1970"))
    return value


def _content(value: str) -> str:
    """Return the content of a message without lone surrogates. Raise ValueError if it is too long."""
    if len(value) > MAX_CONTENT_CHARS:
        raise ValueError(
            _(
                "it has {value:,} characters; split it or shorten it to {content:,}",
                len(value),
                MAX_CONTENT_CHARS,
            )
        )
    return without_surrogates(value)


Text = Annotated[str, AfterValidator(without_surrogates)]
"""A string without lone surrogates, which cannot be stored."""


class MessageArgument(BaseModel):
    # Other fields of a message are not an error, unlike unknown arguments of a tool: clients send ids and much else.
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    role: Literal["user", "assistant", "system"]
    content: Annotated[str, AfterValidator(_content)]
    timestamp: Annotated[int | None, AfterValidator(_timestamp)] = Field(
        None, description="ms since 1970"
    )
    name: Text | None = None


def _role_weight(value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError(_("a weight must be a number of at least 0"))
    return value


class RoleWeights(Arguments):
    user: Annotated[float, AfterValidator(_role_weight)] | None = None
    assistant: Annotated[float, AfterValidator(_role_weight)] | None = None
    system: Annotated[float, AfterValidator(_role_weight)] | None = None

    @staticmethod
    def of(weights: RoleWeights | None) -> Mapping[str, float]:
        """Return the weight of each role: the weight in `weights`, otherwise the usual weight; an explicit 0 stays 0."""
        explicit_weights = {} if weights is None else weights.model_dump(exclude_none=True)
        return MappingProxyType({**ROLE_WEIGHTS, **explicit_weights})


def _records(arguments: Sequence[MessageArgument]) -> tuple[Message, ...]:
    """Return the messages of a client as records: pydantic calls this after it has checked each one.
    Raises ValueError, with the end of a sentence, if their texts are too long together."""
    chars = sum(len(message.content) for message in arguments)
    if chars > MAX_TEXT_CHARS:
        raise ValueError(
            _(
                "together they have {chars:,} characters; send at most {text:,}, the last ones",
                chars,
                MAX_TEXT_CHARS,
            )
        )
    return tuple(
        Message(message.role, message.content, time_ms=message.timestamp, name=message.name)
        for message in arguments
    )


if TYPE_CHECKING:
    Messages = tuple[Message, ...]
    _AnyMessages = tuple[Message, ...]
else:
    _AnyMessages = Annotated[
        list[MessageArgument],
        BeforeValidator(_from_client),
        Field(max_length=MAX_MESSAGES),
        AfterValidator(_records),
    ]
    Messages = Annotated[
        list[MessageArgument],
        BeforeValidator(_from_client),
        Field(min_length=1, max_length=MAX_MESSAGES),
        AfterValidator(_records),
    ]
"""The messages of a call: checked as arguments, given to the tool as records."""
CurrentMessages = Annotated[_AnyMessages, "The last few messages of the chat"]
"""The messages of a search; none where a chat opens."""


def _participants(value: dict[str, Any] | None) -> dict[str, Any] | None:
    chars = size(value)
    if chars > MAX_EXTRA_CHARS:
        raise ValueError(
            _("it has {chars:,} characters; send at most {extra:,}", chars, MAX_EXTRA_CHARS)
        )
    return value


Participants = Annotated[
    dict[str, Any] | None, AfterValidator(_participants), "Who takes part; triggers see it as it is"
]
ConversationId = Annotated[str | None, "Leave out unless given one"]
SessionName = Annotated[str | None, "This device or window"]


def _texts(value: Any) -> Any:
    """Return a list of texts; some models write it as one text."""
    if isinstance(value, str):
        return words_between_commas(value)
    return value


Words = Annotated[list[Text], BeforeValidator(_texts)]
"""Words or short texts; a text with commas between them is taken for a list."""
OtherWordsArgument = Annotated[
    Words,
    "Other words for what may have been said before, in the chat's language: things, people, places, occasions, "
    "feelings; none for small talk",
]
"""What a search looks for beside the words of its messages."""
OtherWordsOfSearch = Annotated[Words, "Other words for what you look for, which count less"]
"""The same for a search of entries, which is only made on request."""
KeptWords = Annotated[Words, "Other words by which one may ask for this later"]
"""Words by which a memory is found beside its own words."""
CorrectedIds = Annotated[list[Text], "Ids of recalled memories that this makes untrue"]
"""Older memories of the conversation that are no longer true."""
MAX_PATTERN_CHARS = 1_000
PATTERN = "A word, or /regex/flags in JavaScript syntax"
Regex = Annotated[Text, Field(min_length=1, max_length=MAX_PATTERN_CHARS), PATTERN]


def between(least: int, most: int, noun: str) -> AfterValidator:
    """Return a check that raises ValueError for a number outside of a range. The schema leaves the range out: every
    model would pay for it in every conversation."""

    def check(value: int | None) -> int | None:
        if value is not None and not least <= value <= most:
            raise ValueError(
                _("it must be a number of {what} from {least:,} to {most:,}", noun, least, most)
            )
        return value

    return AfterValidator(check)


_DATE_CHARS = len("2026-05-03")


_DAY = timedelta(days=1)


_LAST_OFFSET = 2**53
"""JSON numbers are exact up to here, and databases take no more than 2^63."""


def _offset(value: int | None) -> int | None:
    if value is not None and not 0 <= value <= _LAST_OFFSET:
        raise ValueError(_("it must be a number of items to skip: the `next` of the result before"))
    return value


Offset = Annotated[int | None, AfterValidator(_offset)]
"""Without a description: a result with more pages says what to give here."""

Scope = Annotated[
    str | None, "`conversation`, `all`, or a group of the settings; usually what they say"
]


def moment_ms(name: str, text: str | None, zone: tzinfo | None, *, end: bool = False) -> int | None:
    """Return the milliseconds since 1970 of the argument `name`, None without a text. A date without a time means the
    first moment of the day, or with `end` the last. `zone` is for a text without a zone (the system's by default).
    Raise InvalidInput if it is not a time."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        is_whole_day = len(text) <= _DATE_CHARS and ":" not in text
        if end and is_whole_day:
            # The last millisecond of a day is the one before the next day; a day may have 23 or 25 hours.
            return milliseconds(_in_zone(moment + _DAY, zone)) - 1
        return milliseconds(_in_zone(moment, zone))
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            "`{name}` is not a time; write for example 2026-05-03 or 2026-05-03T12:00:00Z.", name
        ) from error


def _in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    if moment.tzinfo is not None:
        return moment
    if zone is None:
        return moment.astimezone()
    return moment.replace(tzinfo=zone)


Schema = Mapping[str, Any]
_STRICT_NAME = re.compile(r"confirm|ids?|.*(_id|_ids|Id|Ids)")
"""Arguments that are taken exactly as they were sent."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,16}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MOST_INTEGER = 10**16
"""Whole numbers below it may have come as floats; `_INTEGER` reads as many digits."""
_TRUTH = {"true": True, "false": False}


def as_meant(schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, or the fields of an object in them, in the types that `schema`, a plain JSON
    Schema, asks for. What cannot be read as such stays as it is, so that the check of the arguments names it as the
    caller sent it. A null means a field that was left out, unless the schema requires that field."""
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    meant = {}
    for name, member in arguments.items():
        if name not in properties or _STRICT_NAME.fullmatch(name):
            meant[name] = member
        elif member is not None:
            meant[name] = _value(properties[name], member)
        elif name in required:
            meant[name] = None
    return meant


def _value(schema: Schema, value: Any) -> Any:
    """Return the value in the type of its schema if it can be read as such; otherwise unchanged."""
    if "anyOf" in schema:
        return _value_of_any_type(schema["anyOf"], value)

    match schema.get("type"):
        case "object":
            parsed = _parsed(value, dict)
            if isinstance(parsed, dict) and "properties" in schema:
                return as_meant(schema, parsed)
            return parsed
        case "array":
            parsed = _parsed(value, list)
            if not isinstance(parsed, list):
                return parsed
            item_schema = schema.get("items", {})
            return [_value(item_schema, item) for item in parsed]
        case "integer":
            return _integer(value)
        case "number":
            return _number(value)
        case "boolean" if isinstance(value, str):
            return _TRUTH.get(value.strip().lower(), value)

    return value


def _value_of_any_type(types: list[Schema], value: Any) -> Any:
    """Return a value that may have one of several types (`anyOf`), such as a text or a list of messages. Only the lists
    among the types are tried, and a list counts only if all its items are objects with the required fields: a JSON text
    may be meant as the text that it is."""
    for list_type in types:
        if list_type.get("type") != "array":
            continue
        items = _value(list_type, value)
        required_fields = list_type.get("items", {}).get("required", ())
        if (
            isinstance(items, list)
            and items
            and all(_is_object_with(required_fields, item) for item in items)
        ):
            return items
    return value


def _is_object_with(required_fields: Sequence[str], value: Any) -> bool:
    return isinstance(value, dict) and all(name in value for name in required_fields)


def _parsed(value: Any, json_type: type) -> Any:
    """Return the list or object that a JSON text is; the text itself if it is neither, or has too much in it."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        text = value.encode()
        if crowded(text):
            return value
        parsed = strict_loads(text)
        is_usable = (
            isinstance(parsed, json_type) and not deeper(parsed) and repeated_name(text) is None
        )
    except ValueError:
        return value
    if not is_usable:
        return value
    return parsed


def _integer(value: Any) -> Any:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _MOST_INTEGER:
        return int(value)
    return value


def _number(value: Any) -> Any:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        return value
    number = float(value)
    if not math.isfinite(number):
        return value
    return number

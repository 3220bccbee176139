"""Messages as triggers see them, which every form of chat becomes; rows that have this form, and rows of SillyTavern.
Pure.

A reader of a chat reads on after a row that it cannot read: what came, what did not and why is a `ParsedChat`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from languages import MessageError, _
from sandbox.chats import left_out
from sandbox.chats.dates import DateError, milliseconds_in
from sandbox.chats.message_forms import ROLES, TEXT_FIELDS, read_message
from sandbox.values import WRONG_VALUES, JsonObject, frozen, joined_values, mapping_in

Message = dict[str, Any]
"""role, content, and if known timestamp (ms since 1970) and name; `attached`: texts that the speaker attached, such as
a long paste; other fields are kept unchanged."""
METADATA = "metadata"
"""The role of the row of Open-LLM-VTuber that says when a chat began, and has no text."""
_READ_FIELDS = frozenset((*TEXT_FIELDS, "timestamp", "attached"))
_EXAMPLE = '{"role": "user", "content": "text"}'


class ChatError(MessageError):
    """The text is not a chat; the message says which line is wrong and what is expected there."""


@frozen
class Problem:
    """What cannot be read, and where it stands. `reason` follows the location, such as `is not JSON`."""

    location: str
    reason: str


@dataclass(slots=True)
class ParsedChat:
    """What was read of a chat. `left_out`: how often each kind of part did not come. `problems`: the rows that did
    not come because they cannot be read. `undated`: the messages that came without their time, because that cannot be
    read; the reason begins with the name of the field."""

    messages: list[Message] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    undated: list[Problem] = field(default_factory=list)

    def add(
        self,
        message: Message,
        location: str,
        field_name: str,
        time: object,
        zone: tzinfo | None = None,
    ) -> None:
        """Add a message with its time, if it has a time: a number of milliseconds, or a text in a form of dates.py. A time
        that cannot be read is left out, and becomes a problem in `undated`."""
        if time not in (None, ""):
            try:
                message["timestamp"] = milliseconds_in(field_name, time, zone)
            except DateError as error:
                self.undated.append(Problem(location, _("{field} {reason}", field_name, error)))
        self.messages.append(message)

    @contextmanager
    def record(self, location: str) -> Iterator[None]:
        """Read one record in this block: a value of a wrong type in it costs the record, which becomes a problem."""
        try:
            yield
        except WRONG_VALUES:
            reason = _("has a value of a type or size that it cannot have")
            self.problems.append(Problem(location, reason))

    def checked(self) -> list[Message]:
        """Return the messages, each with all of its text, if everything could be read. Raises ChatError."""
        for problem in self.problems:
            raise ChatError("{place} {reason}", problem.location, problem.reason)
        for problem in self.undated:
            raise ChatError("{about}: {what}", problem.location, problem.reason)
        return [whole(message) for message in self.messages]


def whole(message: Message) -> Message:
    """`message` with the texts that are attached to it as a part of its content."""
    parts = [message["content"], *message.get("attached", ())]
    fields = {key: value for key, value in message.items() if key != "attached"}
    return {**fields, "content": "\n\n".join(filter(None, parts))}


def json_lines(text: str, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    """Yield each line that is not blank, as JSON and with its place in words. A line of several objects, between
    which the end of the line is missing, gives each of them. What is not JSON goes to `problems`."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        location = _("line {number}", number)
        try:
            yield location, json.loads(line)
        except (ValueError, RecursionError) as error:
            values, rest = joined_values(line)
            for value in values:
                yield location, value
            if rest:
                reason = _("is not JSON ({reason}); each line must be one message", error)
                problems.append(Problem(location, reason))


def read_messages(
    rows: Iterable[tuple[str, Any]], zone: tzinfo | None, reading: ParsedChat
) -> ParsedChat:
    """Read rows that are messages, as message_forms.py reads them; a row that is not a message is a problem. `zone`:
    the zone of times without an offset."""
    for location, row in rows:
        with reading.record(location):
            _read_message(location, row, zone, reading)
    return reading


def _read_message(location: str, row: Any, zone: tzinfo | None, reading: ParsedChat) -> None:
    """Read a row into `reading`: as a message, or as a problem if it is not a message or has an
    unknown role. A row without words is only counted, and a time that cannot be read is left out
    and noted."""
    read = read_message(row, zone) if isinstance(row, Mapping) else None
    if read is not None:
        reading.left_out.update(read.left_out)
    if read is not None and read.fields is None:
        return  # its parts are counted, but it has no words

    if read is None or read.fields is None or not isinstance(read.fields.get("content"), str):
        reason = _("is not a message; expected {example}", _EXAMPLE)
        reading.problems.append(Problem(location, reason))
        return

    role = read.fields.get("role")
    if role not in ROLES:
        reason = _("has the role {row!r}; it must be user, assistant or system", role)
        reading.problems.append(Problem(location, reason))
        return

    if read.undated is not None:
        field_name, reason = read.undated
        reading.undated.append(Problem(location, _("{field} {reason}", field_name, reason)))
        read.fields.pop("timestamp", None)

    # Fields that this program does not know stay: a trigger may read them.
    others = {name: value for name, value in row.items() if name not in _READ_FIELDS}
    reading.messages.append(others | read.fields)


def message(location: str, row: Any, zone: tzinfo | None) -> Message:
    """Read one row in a form of message_forms.py, not of SillyTavern. Its time, under any name that message_forms.py
    knows, becomes `timestamp` in milliseconds; without an offset it is read in `zone` (None: the system's). Raises
    ChatError also where a reader of a whole chat would read on: if the time cannot be read, or if nothing was said,
    as in a row of a tool. A message with an empty text is a message."""
    messages = read_messages([(location, row)], zone, ParsedChat()).checked()
    if not messages:
        raise ChatError(
            "{place} {reason}", location, _("holds nothing that a person or a model said")
        )
    return messages[0]


def is_sillytavern(first: Any) -> bool:
    """Tell whether a file that begins with this row is a chat export of SillyTavern."""
    return isinstance(first, dict) and (
        "mes" in first or "chat_metadata" in first or "character_name" in first
    )


def read_sillytavern(
    rows: Iterable[tuple[str, Any]],
    zone: tzinfo | None,
    reading: ParsedChat,
    *,
    with_hidden: bool = False,
) -> ParsedChat:
    """Read the messages of JSON lines of SillyTavern, or of Chub, usually with a header first. `zone`: the zone of
    local times. Hidden messages (is_system) are left out, because SillyTavern does not send them to the model;
    `with_hidden` takes messages that the user hid, and not what the program itself wrote into the chat. A narrator
    (`/sys`) is a system message."""
    for position, (location, row) in enumerate(rows):
        if not isinstance(row, dict):
            reading.problems.append(
                Problem(
                    location,
                    _("is not a message of a SillyTavern chat; export the chat again as JSONL"),
                )
            )
        elif "mes" not in row and position == 0:
            continue  # the header
        elif _text_of(row) is None:
            reading.problems.append(
                Problem(location, _("has no text in `mes`; export the chat again as JSONL"))
            )
        elif _is_hidden(row, with_hidden=with_hidden):
            reading.left_out[left_out.HIDDEN] += 1
        else:
            with reading.record(location):
                _read_row(location, row, zone, reading)

    return reading


def _text_of(row: JsonObject) -> str | None:
    """Return what was said, or None if the row has no text. Chub has an object around the text."""
    text = row.get("mes")
    if isinstance(text, dict):
        text = text.get("message")
    if not isinstance(text, str):
        return None
    return text


def _is_hidden(row: JsonObject, *, with_hidden: bool) -> bool:
    """Tell whether a row stays out, because it is hidden. What the program wrote itself has a type."""
    kind = mapping_in(row, "extra").get("type")
    if not row.get("is_system") or kind == "narrator":
        return False
    return not with_hidden or bool(kind)


def _read_row(location: str, row: JsonObject, zone: tzinfo | None, reading: ParsedChat) -> None:
    """Read a row of SillyTavern into `reading`, and count the swipes, pictures and thoughts of
    it."""
    extra = mapping_in(row, "extra")
    swipes = row.get("swipes")
    if isinstance(swipes, list):
        reading.left_out[left_out.SWIPED] += len(swipes[1:])
    reading.left_out[left_out.PICTURES] += any(
        extra.get(name) for name in ("image", "media", "files", "file")
    )
    reading.left_out[left_out.THOUGHTS] += bool(extra.get("reasoning"))
    role = "assistant"
    if extra.get("type") == "narrator":
        role = "system"
    elif row.get("is_user"):
        role = "user"
    message: Message = {"role": role, "content": _text_of(row) or ""}
    if row.get("name"):
        message["name"] = str(row["name"])
    reading.add(message, location, "send_date", row.get("send_date"), zone)

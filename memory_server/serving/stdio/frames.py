"""JSON-RPC in lines, without I/O: bytes in, messages or refusals out.

Every request gets exactly one answer: from the server, or a refusal from here. A line that cannot be read gets a
refusal with the id null, a notification gets no answer, and after any line the next line is read. This module does
not know MCP or the source of the bytes.

Sources: JSON-RPC 2.0 (https://www.jsonrpc.org/specification); MCP's stdio transport, where a message is a line of
UTF-8, without batches since 2025-06-18."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from memory_server.kernel.json_text import DEEPEST, MOST_VALUES, crowded, deeper
from memory_server.kernel.values import frozen

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of a line at most. The longest valid call, 500 messages of many words, is far below."""

Message = dict[str, Any]
"""A request (with `id` and `method`), a notification (without `id`) or an answer of the client (without `method`), of
which every field is as JSON-RPC wants it."""


@frozen
class Refusal:
    """The input is not a message; `line` is the answer to it."""

    line: bytes


Frame = Message | Refusal


@frozen
class _Fault:
    """What is wrong with a line: the code of JSON-RPC and a sentence for whoever wrote the client."""

    code: int
    sentence: str


_TOO_DEEP = _Fault(
    INVALID_REQUEST, f"This message is nested too deeply; send at most {DEEPEST} levels."
)
_TOO_MANY = _Fault(
    INVALID_REQUEST, f"This message has more than {MOST_VALUES:,} values; send fewer at a time."
)
_NO_OBJECT = _Fault(INVALID_PARAMS, "`params` must be an object, with the parameters by name.")


class Frames:
    """Takes bytes in pieces of any size, and gives the frames of the lines that end in them."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._rest = bytearray()
        """The bytes of the unfinished line; empty if it is too long."""
        self._size = 0
        """Bytes of the unfinished line so far."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames of all lines that end in `data`, and keep the rest for the next call."""
        *ended, rest = data.split(b"\n")
        frames: list[Frame] = []
        for piece in ended:
            self._take(piece)
            frames += self.end()
        self._take(rest)
        return frames

    def end(self) -> list[Frame]:
        """Return the frame of a last line that has no line end, a refusal if it is too long, or
        nothing if it is blank."""
        line = bytes(self._rest)
        size = self._size
        self._rest = bytearray()
        self._size = 0
        if size > self._longest:
            sentence = (
                f"This line has {size:,} bytes; send at most {self._longest:,} in one message."
            )
            return [Refusal(error_line(INVALID_REQUEST, sentence))]
        frame = frame_of(line)
        if frame is None:
            return []
        return [frame]

    def _take(self, piece: bytes) -> None:
        """Add bytes to the unfinished line; a line that becomes too long is only counted."""
        self._size += len(piece)
        if self._size > self._longest:
            self._rest.clear()
        else:
            self._rest += piece


def frame_of(line: bytes) -> Frame | None:
    """Return the message of a line, or the refusal of any that cannot be used. Return None for what gets no answer: an
    empty line, an answer without a usable id, or a notification with wrong parameters."""
    line = line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    if not line:
        return None

    value, fault = _read(line)
    fields: Message = {}
    if isinstance(value, dict):
        fields = value

    id_ = fields.get("id")
    # An answer to a request of ours without a usable id can answer nothing.
    if fault is None and _is_answer(fields):
        if not _is_id(id_):
            return None
        return fields

    if fault is None:
        fault = _fault_of(value)
    if fault is None:
        return fields
    # A notification gets no answer, even if its parameters are wrong.
    if fault is _NO_OBJECT and "id" not in fields:
        return None
    if not _is_id(id_) and not isinstance(id_, float):
        id_ = None

    return Refusal(error_line(fault.code, fault.sentence, id_))


def encoded(message: Mapping[str, Any]) -> bytes:
    """Write a message as a line. Raises TypeError: it cannot be written as JSON in UTF-8."""
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)


def error_line(code: int, sentence: str, id_: Any = None) -> bytes:
    """Write an error as a line. In ASCII, so that an id that UTF-8 cannot write is returned unchanged."""
    error = {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": sentence}}
    return json.dumps(error).encode() + b"\n"


def _read(line: bytes) -> tuple[Any, _Fault | None]:
    """Return the value of a line, and what is wrong with it: not JSON, too deep or too much in it, or
    None if nothing is."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as problem:
        return _read_leniently(line, problem)
    if deeper(value):
        return value, _TOO_DEEP
    if crowded(line):
        return value, _TOO_MANY
    return value, None


def _read_leniently(line: bytes, problem: orjson.JSONDecodeError) -> tuple[Any, _Fault]:
    """Read the value of a line that orjson refused because of `problem`, and the fault to answer with. The line may
    be JSON that cannot be used, such as half of a character: then the value has the id for the answer."""
    if "depth" in str(problem):
        return None, _TOO_DEEP
    try:
        value = json.loads(line.decode(), parse_constant=_refuse_constant)
    except ValueError:
        return None, _Fault(PARSE_ERROR, f"This line is not JSON in UTF-8: {problem}.")
    sentence = f"This line cannot be used: {problem}; send whole characters and finite numbers."
    return value, _Fault(INVALID_PARAMS, sentence)


def _refuse_constant(constant: str) -> Any:
    raise ValueError(constant)  # NaN and Infinity are not JSON


def _is_answer(fields: Message) -> bool:
    return "method" not in fields and ("result" in fields or "error" in fields)


def _fault_of(value: Any) -> _Fault | None:
    """Say what is wrong with a value as a request or notification. Return None if nothing is."""
    if isinstance(value, list):
        return _Fault(INVALID_REQUEST, "Batches are not part of MCP; send one message per line.")
    if not isinstance(value, dict):
        return _Fault(
            INVALID_REQUEST, "This message is not a JSON object; send one object per line."
        )
    if value.get("jsonrpc") != "2.0":
        return _Fault(INVALID_REQUEST, '`jsonrpc` must be "2.0".')
    if not isinstance(value.get("method"), str):
        return _Fault(INVALID_REQUEST, "`method` must be text, the name of a method.")
    if "id" in value and not _is_id(value["id"]):
        return _Fault(INVALID_REQUEST, "`id` must be text or a whole number.")
    if not isinstance(value.get("params"), dict | None):
        return _NO_OBJECT
    return None


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)

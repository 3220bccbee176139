"""JSON-RPC in lines, without I/O: bytes in, messages or answers to what is none out.

Every line that is a request gets exactly one answer: the server's, or a refusal from here. What cannot be read gets
a refusal with the id null, a notification gets none, and whatever came, the next line is read. Knows neither MCP nor
where the bytes come from.

Sources: JSON-RPC 2.0 (https://www.jsonrpc.org/specification); MCP's stdio transport, where a message is one line of
UTF-8 and a batch is none since 2025-06-18.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from memory_server.core.nesting import DEEPEST, deeper

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of one line. The longest call that the tools take, 500 messages of many words, is far below."""
MOST_IN_BATCH = 100
"""Messages of a batch that are each refused by their id; a longer one is refused as a whole."""
_ENDS = 1024
"""Bytes looked at, at both ends of a line that cannot be read whole, for its id."""
_ID = rb'(-?\d{1,18}|"[^"\\]{0,200}")'
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*){0,2}"id"\s*:\s*' + _ID + rb"\s*[,}]")
_ID_LAST = re.compile(rb'(?<!\\)"id"\s*:\s*' + _ID + rb"\s*\}\s*\Z")
"""Right before the last brace, so it is of the outermost object."""
_JSON_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Request:
    """A call that waits for an answer. `size`: bytes of its line."""

    id: str | int
    method: str
    params: dict[str, Any] | None
    size: int


@dataclass(frozen=True, slots=True)
class Notification:
    """What wants no answer. `size`: bytes of its line."""

    method: str
    params: dict[str, Any] | None
    size: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The client's answer to a request of ours: `message` has `id` and either `result` or `error`. `size`: bytes of its
    line."""

    message: Mapping[str, Any]
    size: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """What came was no message; `line` is the answer to it."""

    line: bytes


Frame = Request | Notification | Reply | Refusal


class Frames:
    """The lines of one client, as they come in."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._rest = bytearray()
        """A line whose end has not come; only its ends, where it is too long."""
        self._size = 0
        """Bytes of it that came."""
        self._first = True

    def feed(self, data: bytes) -> list[Frame]:
        """What the lines say that end in `data`."""
        *ended, rest = data.split(b"\n")
        frames: list[Frame] = []
        for piece in ended:
            self._take(piece)
            frames += self._line()
        self._take(rest)
        return frames

    def end(self) -> list[Frame]:
        """What a last line without an end says."""
        return list(self._line())

    def _take(self, piece: bytes) -> None:
        self._rest += piece
        self._size += len(piece)
        if self._size > self._longest:
            # Both ends are kept, for the id: clients write it first or last. No more: this is done for each piece.
            del self._rest[_ENDS:-_ENDS]

    def _line(self) -> Iterator[Frame]:
        line, size = bytes(self._rest), self._size
        self._rest, self._size = bytearray(), 0
        if self._first:
            self._first, line = False, line.removeprefix(_BOM)
        if size > self._longest:
            yield _refused(
                INVALID_REQUEST,
                f"This line has {size:,} bytes; send at most {self._longest:,} in one message.",
                _id_at_an_end(line),
            )
        elif (frame := frame_of(line)) is not None:
            yield frame


def frame_of(line: bytes) -> Frame | None:
    """What one line says; None where nothing is to be done: an empty line, or a notification that no one can read."""
    line = line.strip(_JSON_SPACE)
    if not line:
        return None
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _unreadable(line, error)
    if deeper(value):
        return _refused(INVALID_REQUEST, _TOO_DEEP, _id_in(value))
    return _batch(value) if isinstance(value, list) else _message(value, len(line))


def encoded(message: Mapping[str, Any]) -> bytes:
    """A message as a line.

    Raises:
        TypeError: JSON or UTF-8 cannot carry it.
    """
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)


def error_line(code: int, sentence: str, id_: Any = None) -> bytes:
    """An error as a line. ASCII, so that an id that UTF-8 cannot carry is given back as it came."""
    return json.dumps(_error(code, sentence, id_)).encode() + b"\n"


def _message(value: Any, size: int) -> Frame | None:
    if not isinstance(value, dict):
        return _refused(INVALID_REQUEST, "A message is a JSON object; this is none.")
    if "method" not in value and ("result" in value or "error" in value):
        return Reply(value, size) if _is_id(value.get("id")) else None
    if (wrong := _wrong(value)) is not None:
        return _refused(INVALID_REQUEST, wrong, _id_in(value))
    params = value.get("params")
    usable = params is None or isinstance(params, dict)
    if "id" not in value:
        return Notification(value["method"], params, size) if usable else None
    if not usable:
        return _refused(INVALID_PARAMS, "`params` must be an object, with the parameters by name.", value["id"])
    return Request(value["id"], value["method"], params, size)


def _wrong(value: Mapping[str, Any]) -> str | None:
    """What keeps an object from being a request or a notification."""
    if value.get("jsonrpc") != "2.0":
        return '`jsonrpc` must be "2.0".'
    if not isinstance(value.get("method"), str):
        return "`method` must be text, the name of a method."
    if "id" in value and not _is_id(value["id"]):
        return "`id` must be text or a whole number."
    return None


def _batch(values: list[Any]) -> Refusal:
    """Every request in it is refused by its id, in an array as JSON-RPC has it, so that no one waits for an answer."""
    why = "Batches are not part of MCP; send one message per line."
    ids = [
        _id_in(value) for value in values if not (isinstance(value, dict) and "method" in value and "id" not in value)
    ]
    if not ids or len(ids) > MOST_IN_BATCH:
        return _refused(INVALID_REQUEST, why)
    return Refusal(json.dumps([_error(INVALID_REQUEST, why, id_) for id_ in ids]).encode() + b"\n")


def _unreadable(line: bytes, problem: orjson.JSONDecodeError) -> Refusal:
    """The refusal of a line that is no JSON, or JSON that cannot be served; that one by its id, where it has one."""
    try:
        value = json.loads(line.decode(), parse_constant=_no_json)
    except UnicodeDecodeError as error:
        id_ = _id_at_an_end(line)
        found = f"byte {line[error.start]:#04x} at {error.start + 1:,}"
        why = f"This line is not UTF-8 ({found}); send UTF-8, whatever the locale."
        return _refused(PARSE_ERROR if id_ is None else INVALID_REQUEST, why, id_)
    except RecursionError:
        return _refused(INVALID_REQUEST, _TOO_DEEP, _id_at_an_end(line))
    except ValueError:
        return _refused(PARSE_ERROR, f"This line is no JSON: {problem}.")
    if "depth" in str(problem):
        return _refused(INVALID_REQUEST, _TOO_DEEP, _id_in(value))
    half = _half_a_character(value)
    why = (
        f"This line cannot be used: {problem}."
        if half is None
        else f"A text holds half of a character ({half} without its other half); send whole characters."
    )
    return _refused(INVALID_PARAMS if _is_request(value) else INVALID_REQUEST, why, _id_in(value))


_TOO_DEEP = f"This message is nested too deeply; send at most {DEEPEST} levels."


def _half_a_character(value: Any) -> str | None:
    """The escape of the first lone surrogate in a value, which JSON can write and UTF-8 cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(str(error.object)[error.start]):04x}"
    except RecursionError:
        return None
    return None


def _no_json(constant: str) -> Any:
    raise ValueError(constant)


def _is_request(value: Any) -> bool:
    return isinstance(value, dict) and "id" in value and _wrong(value) is None


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _id_in(value: Any) -> Any:
    """The id to refuse a message by: what it has for one if JSON-RPC allows that, else None."""
    id_ = value.get("id") if isinstance(value, dict) else None
    return id_ if _is_id(id_) or isinstance(id_, float) else None


def _id_at_an_end(line: bytes) -> str | int | None:
    """The id of a line that cannot be read whole, where it stands before the parameters or at the very end."""
    found = _ID_FIRST.match(line[:_ENDS]) or _ID_LAST.search(line[-_ENDS:])
    try:
        return None if found is None else json.loads(found[1])
    except ValueError:
        return None


def _error(code: int, sentence: str, id_: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": sentence}}


def _refused(code: int, sentence: str, id_: Any = None) -> Refusal:
    return Refusal(error_line(code, sentence, id_))

"""Frames between the supervisor and a worker process, and checks of what a worker says in them. Pure: no I/O.

A frame is 12 bytes of header and a body: magic `TSBX`, version (1 byte), kind (1 byte, an ASCII letter), two zero
bytes, length of the body (4 bytes, big endian); the body is one JSON object in ASCII. Both sides refuse another
version, an unknown kind and a body over MOST_BODY_BYTES before they read the body.

A hostile trigger may have taken over the worker. The worker can then lie about triggers, but what it sends must be
short, must not move a cursor, and must have the type that the rest of the program expects, or it is a ProtocolError.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

from languages import ReceivedSentence, Sentence
from sandbox.errors import ProtocolError
from sandbox.values import JsonObject, frozen
from sandbox.verdicts import MOST_OPERANDS, Operand, Reading, TracedCopy

VERSION = 8
MAGIC = b"TSBX"
MOST_BODY_BYTES = 256 * 2**20
MOST_ANSWER_BYTES = 32 * 2**20
"""The supervisor refuses longer answers: 10,000 failures with long messages take 24 MB."""
_HEADER = struct.Struct(">4sBcHI")
HEADER_BYTES = _HEADER.size
READ_BYTES = 2**18
"""Bytes that both sides read at once; a pipe buffers 64 KiB on Linux."""
LATER = "later"
"""In place of a message: the trigger ran out of memory, but was not the first in its isolate."""
MOST_TEXT = 400
"""Characters of a message or a console line: realm/board.js writes at most 300, plus their prefix."""
_MOST_LEVELS, _MOST_VALUES = 4, 16
"""Sentences within each other, the outermost included; and values of a sentence."""
MOST_CONSOLE_LINES = 200
MOST_UNKNOWN = 20
"""Unknown names that are reported for one trigger; more of them are one mistake made many times."""
MOST_FINDINGS = 20
"""Lint findings that are reported for one trigger."""
MOST_MICROSECONDS = 10**12
MOST_WORDS = 50
"""Key words of a trigger that are told."""
_MOST_COPY_CHARS = 1_000_000
"""Characters of a traced copy: the longest trigger with a probe around each operand."""
_MOST_DEPTH = 2**10
"""The depth of an operand is less than this; the reader of triggers stops at 40 (javascript/tracing.py)."""
_MOST_POSITION = 2**31
"""Lines, columns and offsets are less than this."""
_PROBE = re.compile(r"probe_[0-9a-f]{16}")
Finding: TypeAlias = tuple[str, str | Sentence, int, int]
"""About a trigger that was read: rule (`reference` for an unknown name), message, line and column from 1."""
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class ReadQuestion(StrEnum):
    """What a frame READ asks about each of its sources: what is wrong with it, its key words, or what is
    traced."""

    FINDINGS = "findings"
    WORDS = "words"
    READING = "reading"


class Kind(StrEnum):
    """The kind of a frame. The first two go to the worker, the others come from it."""

    EVALUATE = "E"
    READ = "N"
    HELLO = "H"  # ready: layers, V8 version, names a trigger can see
    REFUSAL = "R"  # cannot start: message
    STEP = "S"  # this trigger has been running for a while
    PART = "P"  # verdicts so far; more follow
    DONE = "D"  # the last verdicts of this isolate
    READY = "Y"  # after DONE: a fresh isolate waits; whether all old ones are gone


@frozen
class Frame:
    kind: Kind
    body: JsonObject


def encode(frame: Frame) -> bytes:
    """Write a frame. Raises ProtocolError when the body is too long, ValueError when it cannot be JSON."""
    body = json.dumps(frame.body, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode(
        "ascii"
    )
    if len(body) > MOST_BODY_BYTES:
        raise ProtocolError(f"a frame of {len(body)} bytes is over the bound of {MOST_BODY_BYTES}")
    return _HEADER.pack(MAGIC, VERSION, frame.kind.value.encode("ascii"), 0, len(body)) + body


class Decoder:
    """Puts frames together from pieces of any size. `most`: bytes of the longest body it takes."""

    __slots__ = ("_buffer", "_most")

    def __init__(self, most: int = MOST_BODY_BYTES) -> None:
        self._buffer = bytearray()
        self._most = most

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now. Raises ProtocolError; the decoder is useless after that."""
        self._buffer += piece
        while len(self._buffer) >= HEADER_BYTES:
            # The other side may be a worker that a trigger has taken over, so every part is checked before it is
            # used.
            magic, version, letter, zero, length = _HEADER.unpack_from(self._buffer)
            if magic != MAGIC or zero != 0:
                raise ProtocolError("not a frame")
            if version != VERSION:
                raise ProtocolError(f"protocol version {version}, but this side has {VERSION}")
            if length > self._most:
                raise ProtocolError(f"a frame of {length} bytes is over the bound of {self._most}")

            try:
                kind = Kind(letter.decode("ascii"))
            except ValueError as error:
                raise ProtocolError(f"unknown kind of frame {letter!r}") from error

            end = HEADER_BYTES + length
            if len(self._buffer) < end:
                return

            try:
                body = json.loads(self._buffer[HEADER_BYTES:end].decode("ascii"))
            except (ValueError, RecursionError) as error:
                raise ProtocolError("the body is not JSON") from error

            if not isinstance(body, dict):
                raise ProtocolError("the body is not an object")

            del self._buffer[:end]
            yield Frame(kind, body)

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer)


def text(value: object, most: int = MOST_TEXT) -> str:
    """Return a text for people, cut after `most` characters, with a sign in place of each control, bidirectional and
    surrogate character. Raises ProtocolError if the value is not a text."""
    if not isinstance(value, str):
        raise ProtocolError("not a text")
    short = value if len(value) <= most else value[:most] + "…"
    return _UNSEEN.sub("\ufffd", short)


def packed(sentence: Sentence) -> list[Any]:
    """Pack a sentence for another process: its English, its template, and its values by the names of their places."""
    values = {name: _packed_value(value) for name, value in sentence.named_values.items()}
    return [sentence.english, sentence.template, values]


def _packed_value(value: object) -> Any:
    if isinstance(value, Sentence):
        return packed(value)
    if type(value) is int or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def message(value: object, levels: int = _MOST_LEVELS) -> str | Sentence:
    """Read a text, or a sentence in the form that `packed` gives. Every text in it comes back cut and cleaned by
    `text`, so it may be shown. `levels`: how many sentences may be within each other, this one included. Raises
    ProtocolError for any other value, also for a sentence with more levels or values than are allowed."""
    if not isinstance(value, list):
        return text(value)
    english, template, values = _row(value, 3)
    if not levels or not isinstance(values, dict) or len(values) > _MOST_VALUES:
        raise ProtocolError("not a message")
    if not all(map(str.isidentifier, values)):
        raise ProtocolError("not a message")
    checked_values: dict[str, object] = {}
    for name, inner in values.items():
        checked_values[name] = inner if type(inner) in (int, float) else message(inner, levels - 1)
    return ReceivedSentence(text(english), text(template), checked_values)


def whole(value: object, least: int, bound: int) -> int:
    """Check an integer, least <= value < bound; a bool is refused."""
    if type(value) is not int or not least <= value < bound:
        raise ProtocolError("not an integer, or out of bounds")
    return value


def elapsed(value: object) -> int:
    """Microseconds."""
    return whole(value, 0, MOST_MICROSECONDS)


def sequence(value: object, most: int) -> Sequence[Any]:
    """Return a list of at most `most` items. Raises ProtocolError if the value is another one."""
    if not isinstance(value, list) or len(value) > most:
        raise ProtocolError("not a list, or too long")
    return value


def _row(value: object, length: int) -> Sequence[Any]:
    """Return a list of exactly `length` items. Raises ProtocolError if the value is another one."""
    items = sequence(value, length)
    if len(items) != length:
        raise ProtocolError("too few items")
    return items


def findings(body: JsonObject, count: int) -> list[list[Finding]]:
    """Read the answer to Kind.READ about `count` sources: what was found in each."""
    most = MOST_UNKNOWN + MOST_FINDINGS
    sources = _of_each(body, ReadQuestion.FINDINGS, count)
    return [[_finding(row) for row in sequence(rows, most)] for rows in sources]


def words(body: JsonObject, count: int) -> list[tuple[str, ...]]:
    """Read the answer to Kind.READ about `count` sources: the key words of each."""
    return [
        tuple(map(text, sequence(source, MOST_WORDS)))
        for source in _of_each(body, ReadQuestion.WORDS, count)
    ]


def reading(body: JsonObject, original: str) -> Reading:
    """Read the answer to Kind.READ about the source `original`: its operands and its traced copy."""
    [answer] = _of_each(body, ReadQuestion.READING, 1)
    operand_rows, copy_row = _row(answer, 2)
    operands = tuple(map(_operand, sequence(operand_rows, MOST_OPERANDS)))
    if copy_row is None:
        return Reading(operands, None)
    return Reading(operands, _copy(original, copy_row))


def _of_each(body: JsonObject, wanted: ReadQuestion, count: int) -> Sequence[Any]:
    answers = sequence(body.get(wanted.value), count)
    if len(answers) != count:
        raise ProtocolError("fewer answers than questions")
    return answers


def _operand(row: object) -> Operand:
    """Read the operand of a row with its fields in their order."""
    number, depth, role, source, start, end, is_compared = _row(row, 7)
    return Operand(
        number=whole(number, 0, MOST_OPERANDS),
        depth=whole(depth, 0, _MOST_DEPTH),
        role=text(role),
        text=text(source),
        start=whole(start, 0, _MOST_POSITION),
        end=whole(end, 0, _MOST_POSITION),
        is_compared=is_compared is True,
    )


def _copy(original: str, row: object) -> TracedCopy:
    """Read the traced copy of a row with its source and the name of its probe. A copy goes back to
    a worker only, so its characters stay as they are. Raises ProtocolError if it is too long or has
    another form."""
    source, probe = _row(row, 2)
    if not isinstance(source, str) or len(source) > _MOST_COPY_CHARS:
        raise ProtocolError("not a copy, or too long")
    if not isinstance(probe, str) or not _PROBE.fullmatch(probe):
        raise ProtocolError("not the name of a probe")
    return TracedCopy(source, original, probe)


def _finding(row: object) -> Finding:
    """Read the finding of a row with its rule, message, line and column."""
    rule, sentence, line, column = _row(row, 4)
    return (
        text(rule),
        message(sentence),
        whole(line, 1, _MOST_POSITION),
        whole(column, 1, _MOST_POSITION),
    )

"""The line at which a JSON array cannot be read, for the sentence about a broken snapshot. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from languages import Sentence
from memory_server.conversations.model import Memory, excess
from memory_server.kernel.json_text import Json, NotARecord
from sandbox import WRONG_VALUES

_BETWEEN_RECORDS = re.compile(r"[\s,]*")
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def reason_with_line(
    data: bytes, error: ValueError, memory_of: Callable[[Json], Memory]
) -> Sentence:
    """Say why `data`, which was refused with `error`, cannot be read, with the number of the line, counted from 1.
    `memory_of` makes a memory of a record, or raises NotARecord or RecursionError."""
    if isinstance(error, json.JSONDecodeError):
        return Sentence("it is not JSON: {reason}", str(error))  # which names line and column
    if isinstance(error, UnicodeDecodeError):
        if data.startswith(_UTF_16_MARKS):
            return Sentence("it was saved as UTF-16; save it as UTF-8")
        return Sentence("it is not UTF-8 (line {line})", 1 + data.count(b"\n", 0, error.start))
    text = data.decode("utf-8-sig", "replace")
    for offset, value in _records(text):
        if not _can_be_stored(value, memory_of):
            return Sentence("{reason} (line {line})", error, 1 + text.count("\n", 0, offset))
    return error.sentence if isinstance(error, NotARecord) else Sentence(str(error))


def _can_be_stored(value: Any, memory_of: Callable[[Json], Memory]) -> bool:
    if not isinstance(value, dict):
        return False
    try:
        return excess(memory_of(value)) is None
    except WRONG_VALUES:
        return False


def _records(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the offset in characters and the value of each record of an array, or of the only value of a text without
    `[`. The last is the first record that is not JSON or too deep for the parser, with None for its value."""
    decoder = json.JSONDecoder()
    offset = len(text) - len(text.lstrip())
    if text.startswith("[", offset):
        offset = _next_offset(text, offset + 1)
    while offset < len(text) and text[offset] != "]":
        try:
            value, end = decoder.raw_decode(text, offset)
        except (ValueError, RecursionError):
            yield offset, None
            return
        yield offset, value
        offset = _next_offset(text, end)


def _next_offset(text: str, offset: int) -> int:
    between = _BETWEEN_RECORDS.match(text, offset)
    if between is None:
        return offset
    return between.end()

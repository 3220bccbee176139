"""Reads a broken JSON array record by record. Pure: bytes in, records and broken pieces out.

After a place that cannot be read, a record is sought at every `{`. So the layout of the file and the kind of damage do
not matter: a file cut off, a comma too many, a typing error, two files in one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memory_server.core.model import LongTermMemory, ShortTermMemory, excess
from memory_server.core.nesting import deeper
from memory_server.storage.json_store import codec
from memory_server.storage.json_store.codec import Json

_BETWEEN = re.compile(r"[\s,]*")
_OBJECT = re.compile(r"\{")
_IDEOGRAPHS = range(0x4E00, 0xA000)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that is not a record: its offset in characters, the text, and why it does not count."""

    offset: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Salvage:
    """`encoding`: how the file was read, where that was not UTF-8."""

    records: tuple[Json, ...]
    pieces: tuple[Piece, ...]
    encoding: str | None = None


def short_term_fault(record: Json) -> str | None:
    """Why an object is not a short-term memory; None if it is."""
    return _fault(record, lambda: codec.short_term(record, "any"))


def long_term_fault(record: Json) -> str | None:
    """Why an object is not a long-term memory; None if it is."""
    return _fault(record, lambda: codec.long_term(record))


def salvage(data: bytes, fault: Callable[[Json], str | None], mark: str) -> Salvage:
    """The records of a broken array.

    Args:
        fault: why an object is not a record of that kind; None if it is.
        mark: a field that every record has, and objects inside a record do not have: `text`, `trigger`.
    """
    text, encoding = decoded(data)
    decoder = json.JSONDecoder()
    records: list[Json] = []
    pieces: list[Piece] = []
    start = text.find("[") + 1 if text.lstrip().startswith("[") else 0
    place = _skipped(text, start)
    while place < len(text) and (text[place] != "]" or text[place + 1 :].strip()):
        value, end = _value(decoder, text, place)
        reason = fault(value) if isinstance(value, dict) else "it is not a record"
        if reason is None:
            records.append(value)
        else:
            if end is None:
                reason = "it is not JSON"
                end = _next_record(decoder, text, place + 1, fault, mark)
            pieces.append(Piece(place, text[place:end].rstrip(", \n"), reason))
        place = _skipped(text, end or len(text))
    return Salvage(tuple(records), tuple(pieces), encoding)


def decoded(data: bytes) -> tuple[str, str | None]:
    """Bytes as text, and the encoding if it is not UTF-8: that of the byte-order mark, or GB18030 where most of what is
    not ASCII is wrong as UTF-8 and Chinese as GB18030. Otherwise UTF-8, with U+FFFD for wrong bytes."""
    for marks, name in (((b"\xff\xfe", b"\xfe\xff"), "utf-16"), ((b"\xef\xbb\xbf",), "utf-8-sig")):
        if data.startswith(marks):
            return data.decode(name, "replace"), None if name == "utf-8-sig" else name
    usual = data.decode("utf-8", "replace")
    if usual.count("\ufffd") * 2 <= _beyond_ascii(usual):
        return usual, None
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        return usual, None
    ideographs = sum(ord(char) in _IDEOGRAPHS for char in text)
    return (text, "gb18030") if ideographs * 2 > _beyond_ascii(text) else (usual, None)


def _beyond_ascii(text: str) -> int:
    return sum(ord(char) > 127 for char in text)


def _fault(record: Json, read: Callable[[], ShortTermMemory | LongTermMemory]) -> str | None:
    if deeper(record):
        return codec.TOO_DEEP
    try:
        return excess(read())
    except codec.NotARecord as error:
        return str(error)


def _skipped(text: str, place: int) -> int:
    found = _BETWEEN.match(text, place)
    return found.end() if found else place


def _value(decoder: json.JSONDecoder, text: str, place: int) -> tuple[Any, int | None]:
    try:
        return decoder.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, None


def _next_record(
    decoder: json.JSONDecoder, text: str, place: int, fault: Callable[[Json], str | None], mark: str
) -> int:
    for found in _OBJECT.finditer(text, place):
        value, end = _value(decoder, text, found.start())
        if end is not None and isinstance(value, dict) and mark in value and fault(value) is None:
            return found.start()
    return len(text)

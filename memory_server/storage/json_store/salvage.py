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

Read = Callable[[Json], ShortTermMemory | LongTermMemory]
_BETWEEN = re.compile(r"[\s,]*")
_OBJECT = re.compile(r"\{")


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


def salvage(data: bytes, read: Read, mark: str) -> Salvage:
    """The records of a broken array. `read` makes a memory of a record, or raises NotARecord; `mark` is a field that
    every record has, and objects inside a record do not have: `text`, `trigger`."""
    # U+FFFD stands for wrong bytes.
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else None
    text = data.decode(encoding or "utf-8-sig", "replace")
    decoder = json.JSONDecoder()
    records: list[Json] = []
    pieces: list[Piece] = []
    start = text.find("[") + 1 if text.lstrip().startswith("[") else 0
    place = _skipped(text, start)
    while place < len(text) and (text[place] != "]" or text[place + 1 :].strip()):
        value, end = _value(decoder, text, place)
        reason = _fault(value, read) if isinstance(value, dict) else "it is not a record"
        if reason is None:
            records.append(value)
        else:
            if end is None:
                reason = "it is not JSON"
                end = _next_record(decoder, text, place + 1, read, mark)
            pieces.append(Piece(place, text[place:end].rstrip(", \n"), reason))
        place = _skipped(text, end or len(text))
    return Salvage(tuple(records), tuple(pieces), encoding)


def _fault(record: Json, read: Read) -> str | None:
    """Why an object is not a memory that may be stored; None if it is."""
    if deeper(record):
        return codec.TOO_DEEP
    try:
        return excess(read(record))
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


def _next_record(decoder: json.JSONDecoder, text: str, place: int, read: Read, mark: str) -> int:
    for found in _OBJECT.finditer(text, place):
        value, end = _value(decoder, text, found.start())
        if end is not None and isinstance(value, dict) and mark in value and _fault(value, read) is None:
            return found.start()
    return len(text)

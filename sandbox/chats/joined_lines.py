"""JSON lines of which two are joined, because the end of the line between them was not written: two programs wrote
into the same file, or a program was ended. Pure; it loads nothing else, because hooks read transcripts with it."""

from __future__ import annotations

import json
from typing import Any


def joined_values(line: str) -> tuple[list[Any], str]:
    """Return the JSON objects at the beginning of a line, one after the other, and what is behind the last."""
    decoder = json.JSONDecoder()
    rest = line.strip()
    values: list[Any] = []
    start = 0
    while rest.startswith("{", start):
        try:
            value, end = decoder.raw_decode(rest, start)
        except (ValueError, RecursionError):
            break
        values.append(value)
        start = end
        while rest[start : start + 1].isspace():
            start += 1
    return values, rest[start:]

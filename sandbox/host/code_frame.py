"""The source line with a caret under the column. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

WIDTH = 100
"""Characters of a line that are shown; a longer one is cut around the column."""
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_NO_WIDTH = ("Mn", "Me", "Cf")
_LINE_ENDS = re.compile("\r\n|[\n\r\u2028\u2029]")


def lines_of(source: str) -> list[str]:
    """As JavaScript counts lines."""
    return _LINE_ENDS.split(source)


def caret(source: str, line: int | None, column: int | None) -> str:
    """As `caret_in`, for one place."""
    return caret_in(lines_of(source), line, column) if line is not None else ""


def caret_in(lines: Sequence[str], line: int | None, column: int | None) -> str:
    """Two lines, ready to print in a terminal (wide characters count double); '' where the place is unknown.

    `line` from 1, `column` from 1 in UTF-16 units, as V8 counts.
    """
    if line is None or column is None or not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1]
    before = text.encode("utf-16-le", "surrogatepass")[: (column - 1) * 2].decode("utf-16-le", "replace")
    at = min(len(before), len(text))
    start = max(0, at - WIDTH // 2) if len(text) > WIDTH else 0
    shown = _printable(text[start : start + WIDTH])
    return f"{shown}\n{' ' * _cells(_printable(text[start:at]))}^"


def _printable(text: str) -> str:
    """Tabs as one blank; what moves the cursor, turns the direction of writing or cannot be encoded as U+FFFD."""
    return "".join(" " if char == "\t" else "\ufffd" if _unseen(char) else char for char in text)


def _unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs") or char in _TURNS


def _cells(text: str) -> int:
    """Terminal cells: two for wide characters, none for combining ones and for joiners and variation selectors."""
    return sum(
        0 if unicodedata.category(char) in _NO_WIDTH else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )

"""Lines and columns as V8 counts them, and a source line with a caret under the column. Pure.

A line starts at 1. A column starts at 1 too, in UTF-16 units.
"""

from __future__ import annotations

import re
from unicodedata import category

from languages.columns import cells

WIDTH = 100
"""Characters of a line that are shown; a longer line is cut around the column."""
_UNIT_BYTES = 2
"""Bytes of a UTF-16 unit."""
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_LINE_ENDS = re.compile("\r\n|[\n\r\u2028\u2029]")
_NOT_DEFINED = re.compile(r"ReferenceError: (?P<name>[\w$]+) is not defined")


def lines_of(source: str) -> list[str]:
    """Return the lines, without their ends."""
    return _LINE_ENDS.split(source)


def position(source: str, index: int) -> tuple[int, int]:
    """Return the line and the UTF-16 column, both from 1, of the character at an index."""
    lines = lines_of(source[:index])
    units_before = len(lines[-1].encode("utf-16-le", "surrogatepass")) // _UNIT_BYTES
    return len(lines), units_before + 1


def index_of(source: str, line: int, column: int) -> int | None:
    """Return the index of the character at a line and UTF-16 column, or None if the line does not exist."""
    line_starts = [0] + [line_end.end() for line_end in _LINE_ENDS.finditer(source)]
    if not 1 <= line <= len(line_starts):
        return None
    line_start = line_starts[line - 1]
    return line_start + len(_before(source[line_start:], column))


def _before(line: str, column: int) -> str:
    """Return the text before a column of the first line of `line`."""
    units = column - 1
    encoded = line[:units].encode("utf-16-le", "surrogatepass")  # a character has at least one unit
    return encoded[: units * _UNIT_BYTES].decode("utf-16-le", "replace")


def place_of_name(source: str, message: str, line: int, column: int) -> tuple[int, int]:
    """Return the first place of the undefined name of `message`, at the given place or after it; else the given
    place. A name inside a text or a comment may be found instead. The line is then right in most cases, and the given
    place would not show the name at all."""
    undefined = _NOT_DEFINED.match(message)
    start = index_of(source, line, column)
    if undefined is None or start is None:
        return line, column
    name = re.compile(rf"(?:(?<![\w$.])|(?<=\.\.\.)){re.escape(undefined['name'])}(?![\w$])")
    match = name.search(source, start)
    if match is None:
        return line, column
    return position(source, match.start())


def caret(source: str, line: int | None, column: int | None) -> str:
    """Return two lines for a terminal, in which wide characters count double: the line of the source, or a part of a long
    one, and `^` below the column. Return '' if the place is unknown."""
    lines = lines_of(source)
    if line is None or column is None or not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1]
    caret_index = min(len(_before(text, column)), len(text))
    start = 0
    if len(text) > WIDTH:
        start = max(0, caret_index - WIDTH // 2)
    shown_line = _printable(text[start : start + WIDTH])
    cells_before = cells(_printable(text[start:caret_index]))
    return f"{shown_line}\n{' ' * cells_before}^"


def _printable(text: str) -> str:
    """Return the text as a terminal can show it."""
    return "".join(map(_printable_character, text))


def _printable_character(char: str) -> str:
    """Return a blank for a tab; U+FFFD for what moves the cursor, turns the direction of writing or cannot be
    encoded."""
    if char == "\t":
        return " "
    if char in _TURNS or category(char) in ("Cc", "Cs"):
        return "\ufffd"
    return char

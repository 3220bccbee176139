"""Lines and columns as V8 counts them, and a source line with a caret under the column. Pure.

A line starts at 1. A column starts at 1 too, in UTF-16 units.
"""

from __future__ import annotations

import re
from unicodedata import category

from sandbox.language import cells

WIDTH = 100
"""Characters of a line that are shown; a longer one is cut around the column."""
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_LINE_ENDS = re.compile("\r\n|[\n\r\u2028\u2029]")
_NOT_DEFINED = re.compile(r"ReferenceError: (?P<name>[\w$]+) is not defined")


def lines_of(source: str) -> list[str]:
    """The lines, without their ends."""
    return _LINE_ENDS.split(source)


def position(source: str, index: int) -> tuple[int, int]:
    *above, line = lines_of(source[:index])
    return len(above) + 1, len(line.encode("utf-16-le", "surrogatepass")) // 2 + 1


def index_of(source: str, line: int, column: int) -> int | None:
    """The index of the character at a line and column; None where there is no such line."""
    starts = [0, *(end.end() for end in _LINE_ENDS.finditer(source))]
    if not 1 <= line <= len(starts):
        return None
    start = starts[line - 1]
    return start + len(_before(source[start:], column))


def _before(line: str, column: int) -> str:
    """The text before a column of the first line of `line`."""
    units = column - 1
    return line[:units].encode("utf-16-le", "surrogatepass")[: units * 2].decode("utf-16-le", "replace")


def place_of_name(source: str, message: str, line: int, column: int) -> tuple[int, int]:
    """The first place of the undefined name of `message`, at the given place or after it; else the given place. A name
    inside a text or a comment may be found instead. The line is then right in most cases, and the given place would not
    show the name at all."""
    undefined = _NOT_DEFINED.match(message)
    start = index_of(source, line, column)
    if undefined is None or start is None:
        return line, column
    name = re.compile(rf"(?:(?<![\w$.])|(?<=\.\.\.)){re.escape(undefined['name'])}(?![\w$])")
    found = name.search(source, start)
    return position(source, found.start()) if found else (line, column)


def caret(source: str, line: int | None, column: int | None) -> str:
    """Two lines, ready to print in a terminal (wide characters count double); '' where the place is unknown."""
    lines = lines_of(source)
    if line is None or column is None or not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1]
    at = min(len(_before(text, column)), len(text))
    start = max(0, at - WIDTH // 2) if len(text) > WIDTH else 0
    shown = _printable(text[start : start + WIDTH])
    return f"{shown}\n{' ' * cells(_printable(text[start:at]))}^"


def _printable(text: str) -> str:
    """Tabs as one blank; U+FFFD for what moves the cursor, turns the direction of writing or cannot be encoded."""
    seen = text.replace("\t", " ")
    return "".join("\ufffd" if char in _TURNS or category(char) in ("Cc", "Cs") else char for char in seen)

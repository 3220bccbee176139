"""Where a failure stands for which V8 gives no place, or only the start of the statement. Pure."""

from __future__ import annotations

import re

from sandbox.javascript.syntax import parser

_NOT_DEFINED = re.compile(r"ReferenceError: (?P<name>[\w$]+) is not defined")
_NO_STATEMENTS = frozenset(("comment", "html_comment", "empty_statement", "hash_bang_line"))
_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029]")


def place_of_verdict(source: str) -> tuple[int, int]:
    """Where a body that must return its verdict does not: its last statement. Line and UTF-16 column from 1."""
    content = source.encode("utf-8", "replace")
    statements = [one for one in parser().parse(content).root_node.named_children if one.type not in _NO_STATEMENTS]
    before = content[: statements[-1].start_byte if statements else 0].decode("utf-8", "replace")
    *above, line = _LINE_END.split(before)
    return len(above) + 1, len(line.encode("utf-16-le")) // 2 + 1


def place_of_name(source: str, message: str, line: int, column: int) -> tuple[int, int]:
    """The first place of the name in `message` at or after the given one; the given one when there is none.

    Lines and UTF-16 columns from 1. A name inside a text or a comment may be taken for it; the line is right then in
    most cases, and the given place would not have shown the name at all.
    """
    said = _NOT_DEFINED.match(message)
    if said is None:
        return line, column
    starts = [0, *(found.end() for found in _LINE_END.finditer(source))]
    if line > len(starts):
        return line, column
    start = starts[line - 1] + _points(source[starts[line - 1] :], column - 1)
    found = re.compile(rf"(?:(?<![\w$.])|(?<=\.\.\.)){re.escape(said['name'])}(?![\w$])").search(source, start)
    if found is None:
        return line, column
    row = sum(1 for one in starts if one <= found.start())
    before = source[starts[row - 1] : found.start()]
    return row, len(before.encode("utf-16-le", "surrogatepass")) // 2 + 1


def _points(text: str, units: int) -> int:
    """How many characters the first `units` UTF-16 units of a text are."""
    return len(text[:units].encode("utf-16-le", "surrogatepass")[: units * 2].decode("utf-16-le", "replace"))

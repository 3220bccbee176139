"""Checks the answer of a worker: each number and text is within its bounds, or it raises ProtocolError. Pure.

A hostile trigger may have taken over the worker. The worker can then lie about triggers, but what it sends must be
short, must not move a cursor, and must have the type that the rest of the program expects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sandbox.errors import ProtocolError

MOST_TEXT = 400
"""Characters of a message or a console line: those of realm/board.js have at most 300, plus their prefix."""
MOST_CONSOLE_LINES = 200
MOST_UNKNOWN = 20
"""Unknown names that are reported for one trigger; more of them are one mistake made many times."""
MOST_FINDINGS = 20
"""Lint findings that are reported for one trigger."""
MOST_MICROSECONDS = 10**12
Finding: TypeAlias = tuple[str, str, int, int]
"""About a trigger that was read: rule (`reference` for an unknown name), message, line and column from 1."""
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def text(value: object, most: int = MOST_TEXT) -> str:
    """A text for people: at most `most` characters, without control, bidirectional and surrogate characters."""
    if not isinstance(value, str):
        raise ProtocolError("not a text")
    short = value if len(value) <= most else value[:most] + "…"
    return _UNSEEN.sub("\ufffd", short)


def whole(value: object, least: int, bound: int) -> int:
    """An integer, least <= value < bound; a bool is refused."""
    if type(value) is not int or not least <= value < bound:
        raise ProtocolError("not an integer, or out of bounds")
    return value


def elapsed(value: object) -> int:
    """Microseconds."""
    return whole(value, 0, MOST_MICROSECONDS)


def sequence(value: object, most: int) -> Sequence[Any]:
    """A list of at most `most` items."""
    if not isinstance(value, list) or len(value) > most:
        raise ProtocolError("not a list, or too long")
    return value


def findings(body: Mapping[str, Any], count: int) -> list[list[Finding]]:
    """The answer to Kind.READ about `count` sources: what was found in each."""
    sources = sequence(body.get("findings"), count)
    if len(sources) != count:
        raise ProtocolError("fewer answers than questions")
    most = MOST_UNKNOWN + MOST_FINDINGS
    return [[_finding(*sequence(one, 4)) for one in sequence(found, most)] for found in sources]


def _finding(rule: object = None, message: object = None, line: object = None, column: object = None) -> Finding:
    return text(rule), text(message), whole(line, 1, 2**31), whole(column, 1, 2**31)

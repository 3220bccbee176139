"""Checks the answer of a worker: each number and text is within its bounds, or it raises ProtocolError. Pure.

A hostile trigger may have taken over the worker. The worker can then lie about triggers, but what it sends must be
short, must not move a cursor, and must have the type that the rest of the program expects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.errors import ProtocolError

MOST_TEXT = 400
"""Characters of a message or a console line: those of realm/board.js have at most 300, plus their prefix."""
MOST_CONSOLE_LINES = 200
MOST_UNKNOWN = 20
"""Unknown names that are reported for one trigger; more of them are one mistake made many times."""
MOST_FINDINGS = 20
"""Lint findings that are reported for one trigger."""
MOST_MICROSECONDS = 10**12
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


def readings(body: Mapping[str, Any], count: int) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """The answer to Kind.READ: for each of `count` sources its unknown names and findings, for check.py."""
    unknown, findings = sequence(body.get("unknown"), count), sequence(body.get("findings"), count)
    if not len(unknown) == len(findings) == count:
        raise ProtocolError("the number of answers differs from the number of questions")
    return [
        (
            [_placed(one, 100, "name", "nearest") for one in sequence(names, MOST_UNKNOWN)],
            [_placed(one, MOST_TEXT, "rule", "message") for one in sequence(found, MOST_FINDINGS)],
        )
        for names, found in zip(unknown, findings, strict=True)
    ]


def _placed(one: object, most: int, *texts: str) -> dict[str, Any]:
    """`texts`: the fields with text, of at most `most` characters; only `nearest` may be missing."""
    if not isinstance(one, dict):
        raise ProtocolError("an unknown name or a finding that is not an object")
    return {
        **{name: text(one.get(name), most) for name in texts if name != "nearest" or one.get(name) is not None},
        "line": whole(one.get("line"), 1, 2**31),
        "column": whole(one.get("column"), 1, 2**31),
    }

"""What the parent takes from an answer of a worker: each number and text in its bounds, or ProtocolError. Pure.

A worker may have been taken over. It can lie about a trigger, but nothing that it sends may be long, move a cursor, or
be of a type that the rest of the program does not expect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.errors import ProtocolError

MOST_TEXT = 400
"""Characters of a message or a console line: those of realm/board.js have at most 300, and what stands before them."""
MOST_CONSOLE_LINES = 200
MOST_UNKNOWN = 20
"""Unknown names of one trigger that are said: who has made more, has made one mistake many times."""
MOST_MICROSECONDS = 10**12
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def text(value: object, most: int = MOST_TEXT) -> str:
    """A text for people: at most so many characters, without control characters, turns of direction and surrogates."""
    if not isinstance(value, str):
        raise ProtocolError("a text that is none")
    short = value if len(value) <= most else value[:most] + "…"
    return _UNSEEN.sub("\ufffd", short)


def whole(value: object, least: int, bound: int) -> int:
    """An integer, least <= value < bound; True and False are none."""
    if type(value) is not int or not least <= value < bound:
        raise ProtocolError("a number that is none, or out of bounds")
    return value


def elapsed(value: object) -> int:
    """Microseconds."""
    return whole(value, 0, MOST_MICROSECONDS)


def sequence(value: object, most: int) -> Sequence[Any]:
    """A list of at most so many items."""
    if not isinstance(value, list) or len(value) > most:
        raise ProtocolError("a list that is none, or too long")
    return value


def unknown_names(body: Mapping[str, Any], count: int) -> list[list[dict[str, Any]]]:
    """The answer to Kind.NAMES about `count` sources: of each the unknown names as check.report takes them."""
    found = sequence(body.get("unknown"), count)
    if len(found) != count:
        raise ProtocolError("not as many answers as questions")
    return [[_unknown(one) for one in sequence(names, MOST_UNKNOWN)] for names in found]


def _unknown(one: object) -> dict[str, Any]:
    if not isinstance(one, dict):
        raise ProtocolError("an unknown name that is no object")
    nearest = one.get("nearest")
    return {
        "name": text(one.get("name"), 100),
        "line": whole(one.get("line"), 1, 2**31),
        "column": whole(one.get("column"), 1, 2**31),
        "nearest": None if nearest is None else text(nearest, 100),
    }

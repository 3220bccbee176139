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
MOST_FINDINGS = 20
"""Findings of lint rules about one trigger that are said."""
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


def readings(body: Mapping[str, Any], count: int) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """The answer to Kind.READ about `count` sources: of each unknown names and findings, as check.py takes them."""
    unknown, findings = sequence(body.get("unknown"), count), sequence(body.get("findings"), count)
    if not len(unknown) == len(findings) == count:
        raise ProtocolError("not as many answers as questions")
    return [
        (
            [_placed(one, 100, "name", "nearest") for one in sequence(names, MOST_UNKNOWN)],
            [_placed(one, MOST_TEXT, "rule", "message") for one in sequence(found, MOST_FINDINGS)],
        )
        for names, found in zip(unknown, findings, strict=True)
    ]


def _placed(one: object, most: int, *texts: str) -> dict[str, Any]:
    """`texts`: the fields that are texts, of at most so many characters; only `nearest` may be missing."""
    if not isinstance(one, dict):
        raise ProtocolError("an unknown name or a finding that is not an object")
    return {
        **{name: text(one.get(name), most) for name in texts if name != "nearest" or one.get(name) is not None},
        "line": whole(one.get("line"), 1, 2**31),
        "column": whole(one.get("column"), 1, 2**31),
    }

"""A trigger that does nothing but look for keys, as its keys: what a lorebook can say. Pure.

The inverse of `trigger-sandbox import worldinfo` (sandbox/workbench/carrying.py), for triggers that people write the
same way. What decides in any other way has no keys: it is a program, and a lorebook has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_STRING = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
_EXPRESSION = r"/(?![*/])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*"
_ITEM = re.compile(rf"\s*({_STRING}|{_EXPRESSION})\s*(,|(?=\]))")
_BEFORE = re.compile(r"(?:\s*//[^\n]*\n)*\s*(?:return\b\s*)?")
_CALL = re.compile(r"(?P<no>!\s*)?(?P<name>match_keys(?:_all)?)\s*\(\s*(?:context\.messages|args)\s*,\s*\[")
_REST = re.compile(r"\s*\]\s*(?:,\s*(?P<q>['\"])(?P<scope>\w+)(?P=q)\s*)?(?:,\s*(?P<depth>\d+)\s*)?\)")
_FOUND = re.compile(r"\s*(?:(?P<some>>\s*0|>=\s*1|!==?\s*0)|(?P<none>===?\s*0|<\s*1))(?![\w.])")
_TRUE = re.compile(r"true\b")
_DELAY = re.compile(r"context\.messages\.length\s*>=\s*(\d+)")
_CHANCE = re.compile(r"Math\.random\(\)\s*<\s*(0?\.\d+|1)(?![\w.])")
_AND = re.compile(r"\s*&&\s*")
_END = re.compile(r"\s*+;?\s*+\Z")

DEPTH = 4
"""Messages that match_keys looks at unless told (docs/reference/trigger-api.md)."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key: plain text, or with `flags` the body of an expression."""

    text: str
    flags: str | None = None


@dataclass(frozen=True, slots=True)
class Sought:
    """One call: whether one of `keys`, or `every` one, is in the last `depth` messages (0: in all); or is not."""

    keys: tuple[Key, ...]
    every: bool
    negated: bool
    scope: str
    depth: int


@dataclass(frozen=True, slots=True)
class Conditions:
    """All of them must hold. `messages`: how many there must be. `chance`: from 0 to 1."""

    sought: tuple[Sought, ...]
    messages: int = 0
    chance: float = 1.0


def conditions(trigger: str) -> Conditions | None:
    """What a trigger looks for; None where it does anything else."""
    start = _BEFORE.match(trigger)
    place = start.end() if start else 0
    sought: list[Sought] = []
    messages, chance = 0, 1.0
    while True:
        if found := _TRUE.match(trigger, place):
            place = found.end()
        elif found := _DELAY.match(trigger, place):
            messages, place = max(messages, int(found[1])), found.end()
        elif found := _CHANCE.match(trigger, place):
            chance, place = chance * float(found[1]), found.end()
        elif (called := _call(trigger, place)) is not None:
            sought.append(called[0])
            place = called[1]
        else:
            return None
        if _END.match(trigger, place):
            return Conditions(tuple(sought), messages, chance)
        if not (found := _AND.match(trigger, place)):
            return None
        place = found.end()


def _call(trigger: str, place: int) -> tuple[Sought, int] | None:
    found = _CALL.match(trigger, place)
    if not found:
        return None
    keys: list[Key] = []
    place = found.end()
    for item in _items(trigger, place):
        key = _key(item[1])
        if key is None:
            return None
        keys.append(key)
        place = item.end()
    rest = _REST.match(trigger, place)
    if not keys or not rest:
        return None
    place = rest.end()
    every, negated = found["name"] == "match_keys_all", found["no"] is not None
    if not every and (compared := _FOUND.match(trigger, place)):
        if negated:
            return None
        negated, place = compared["none"] is not None, compared.end()
    depth = DEPTH if rest["depth"] is None else int(rest["depth"])
    return Sought(tuple(keys), every, negated, rest["scope"] or "any", depth), place


def _items(trigger: str, place: int) -> Iterator[re.Match[str]]:
    while item := _ITEM.match(trigger, place):
        yield item
        place = item.end()


def _key(literal: str) -> Key | None:
    if literal.startswith("/"):
        body, _, flags = literal[1:].rpartition("/")
        return Key(body, flags)
    inner = literal[1:-1]
    if literal[0] == "'":
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    try:
        text = json.loads(f'"{inner}"')
    except ValueError:
        return None  # an escape that only JavaScript knows
    return Key(text) if text else None

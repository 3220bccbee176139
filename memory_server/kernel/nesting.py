"""JSON values that this program keeps but does not read: their depth and their size. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

DEEPEST = 200
"""The deepest nesting of lists and objects that is accepted, from clients and from files. orjson writes 254 levels, so
an accepted value can also be written, with the levels around it."""
MOST_VALUES = 10_000
"""Values of one request, names included: twice those of 500 messages with every field."""


def deeper(value: Any, levels: int = DEEPEST) -> bool:
    """Whether lists and objects stand within each other more than `levels` times."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        inner = (each for outer in level for each in (outer.values() if type(outer) is dict else outer))
        level = [each for each in inner if type(each) is dict or type(each) is list]
        if not level:
            return False
    return True


def crowded(json: bytes) -> bool:
    """Whether JSON has more than `MOST_VALUES` values, names included. It is not read for that: making the values is
    what takes long, 0.8 s for 4 MB of empty lists."""
    if len(json) <= MOST_VALUES or sum(map(json.count, (b",", b":", b"[", b"{"))) <= MOST_VALUES:
        return False
    plain = json.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * MOST_VALUES:
        return True
    outside = b"".join(plain.split(b'"')[::2])
    return sum(map(outside.count, (b",", b":", b"[", b"{"))) > MOST_VALUES


def size(value: Any) -> int:
    """Characters of all texts in a value, keys included; every other value counts as one."""
    return sum(len(each) if isinstance(each, str) else 1 for each in _values(value))


def _values(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, dict):
            yield from each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each

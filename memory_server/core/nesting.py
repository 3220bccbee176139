"""JSON values that nobody here reads, kept as they came: how deep they are, and how large. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

DEEPEST = 200
"""Levels of lists and objects within each other that are taken, from clients and from files. orjson writes 254, so what
came in can also be written, with the levels around it."""


def deeper(value: Any, levels: int = DEEPEST) -> bool:
    """Whether lists and objects stand within each other more than `levels` times."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        inner = (each for outer in level for each in (outer.values() if type(outer) is dict else outer))
        level = [each for each in inner if type(each) is dict or type(each) is list]
        if not level:
            return False
    return True


def size(value: Any) -> int:
    """Characters of the texts in a value, keys among them, and one for each other value."""
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

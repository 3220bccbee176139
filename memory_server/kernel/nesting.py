"""JSON values that this program keeps but does not read: their depth and their size. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

DEEPEST = 200
"""The deepest nesting of lists and objects that is accepted, from clients and from files. orjson writes 254 levels, so
an accepted value can also be written, with the levels around it."""
MOST_VALUES = 10_000
"""Values of one request, names included: twice those of 500 messages with every field."""


def deeper(value: Any, levels: int = DEEPEST) -> bool:
    """Whether lists and objects stand within each other more than `levels` times."""
    containers: list[Any] = []
    if isinstance(value, dict | list):
        containers.append(value)
    for _level in range(levels):
        containers = list(_inner_containers(containers))
        if not containers:
            return False
    return True


def _inner_containers(containers: Iterable[Any]) -> Iterator[Any]:
    """The lists and objects that stand directly in these ones."""
    for container in containers:
        values = container.values() if type(container) is dict else container
        for value in values:
            if type(value) is dict or type(value) is list:
                yield value


def crowded(json: bytes) -> bool:
    """Whether JSON has more than `MOST_VALUES` values, names included. It is not read for that: making the values is
    what takes long, 0.8 s for 4 MB of empty lists."""
    if len(json) <= MOST_VALUES or _count_separators(json) <= MOST_VALUES:
        return False
    plain = json.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * MOST_VALUES:
        return True
    outside_of_strings = b"".join(plain.split(b'"')[::2])
    return _count_separators(outside_of_strings) > MOST_VALUES


def _count_separators(json: bytes) -> int:
    """How often a character stands in JSON that a value can follow."""
    return sum(map(json.count, (b",", b":", b"[", b"{")))


def size(value: Any) -> int:
    """Characters of all texts in a value, keys included; every other value counts as one."""
    total = 0
    for part in _values(value):
        if isinstance(part, str):
            total += len(part)
        else:
            total += 1
    return total


def _values(value: Any) -> Iterator[Any]:
    """The value itself, and all values and keys in it."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict):
            yield from part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part

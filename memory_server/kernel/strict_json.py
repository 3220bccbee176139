"""Strict JSON text to values, without loss, and the depth and size of values that this program keeps but does not read.
Knows nothing of memories.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from languages import _

# Text to values

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
"""orjson reads an integer of more than 64 bits as the nearest float; such an integer has at least 19 digits. They are
sought in a copy with every digit 0: 10 ms for 15 MB; a regular expression takes longer than the parsing."""


def loads(data: bytes) -> Any:
    """Return the value of a JSON text in UTF-8, with integers of any size as they are. Raise ValueError if it is not
    JSON or not UTF-8, or holds NaN, lone surrogates or a number out of range."""
    value = orjson.loads(data)
    if may_hold_long_integers(data):
        return lenient(data)
    return value


def loads_of_long_object(data: bytes) -> Any:
    """Return the value of `loads` for a long object that orjson wrote. Each item of its lists is read by a call of its
    own, because no other thread runs within a call: 16 MB at once take 0.3 s. Raise ValueError as `loads`."""
    try:
        return _read_object(data.decode("utf-8"))
    except (ValueError, IndexError, RecursionError):
        return loads(data)


def _read_object(text: str) -> dict[str, Any]:
    """Read an object. Raise ValueError or IndexError if it is not an object as orjson writes it."""
    decoder = json.JSONDecoder()
    fields: dict[str, Any] = {}
    position = _after(text, 0, "{")
    while text[position] != "}":
        name, position = decoder.raw_decode(text, position)
        position = _after(text, position, ":")
        if text[position] == "[":
            fields[name], position = _read_list(decoder, text, position)
        else:
            fields[name], position = decoder.raw_decode(text, position)
        if text[position] == ",":
            position += 1
    if position != len(text) - 1:
        raise ValueError(text[position:])
    return fields


def _read_list(decoder: json.JSONDecoder, text: str, position: int) -> tuple[list[Any], int]:
    """Read the list that begins at `position`. Return it with the position after its end."""
    items: list[Any] = []
    position = _after(text, position, "[")
    while text[position] != "]":
        item, position = decoder.raw_decode(text, position)
        items.append(item)
        if text[position] == ",":
            position += 1
    return items, position + 1


def _after(text: str, position: int, mark: str) -> int:
    """Return the position after `mark`. Raise ValueError if another character is at `position`."""
    if text[position] != mark:
        raise ValueError(text[position : position + 1])
    return position + 1


def repeated_name(data: bytes) -> str | None:
    """Return a name that an object in a JSON text has twice, of which `loads` would take the last value, or None. Raise
    ValueError as `lenient`."""
    repeated_names: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(name for name, _value in pairs)
        repeated_names.extend(name for name, count in counts.items() if count > 1)

    lenient(data, collect)
    if not repeated_names:
        return None
    return repeated_names[0]


def may_hold_long_integers(data: bytes) -> bool:
    """Return whether orjson might change an integer in `data`. It reads all of `data`: call it once for a text of many
    values."""
    return _LONG_NUMBER in data.translate(_ZEROS)


def lenient(data: bytes, object_of: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return the value of a JSON text by the standard library, which is slower, but accepts the NaN and lone surrogates
    that others write. Raise ValueError if it is not JSON, not UTF-8, or nested too deeply. `object_of` makes an object
    of its pairs."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=object_of)
    except RecursionError as error:
        raise ValueError(_("it is nested too deeply")) from error


# Depth and size of values

DEEPEST = 200
"""The deepest nesting of lists and objects that is accepted, from clients and from files. orjson writes 254 levels, so
an accepted value can also be written, with the levels around it."""
MOST_VALUES = 10_000
"""Values of a request, names included: twice as many as 500 messages with every field have."""


def deeper(value: Any, levels: int = DEEPEST) -> bool:
    """Return whether lists and objects are nested more than `levels` times."""
    containers: list[Any] = []
    if isinstance(value, dict | list):
        containers.append(value)
    for _level in range(levels):
        containers = list(_inner_containers(containers))
        if not containers:
            return False
    return True


def _inner_containers(containers: Iterable[Any]) -> Iterator[Any]:
    """Yield the lists and objects that are directly in these containers."""
    for container in containers:
        values = container.values() if type(container) is dict else container
        for value in values:
            if type(value) is dict or type(value) is list:
                yield value


def crowded(json: bytes) -> bool:
    """Return whether JSON has more than `MOST_VALUES` values, names included. The JSON is not parsed for that: making
    the values is what takes long, 0.8 s for 4 MB of empty lists."""
    if len(json) <= MOST_VALUES or _count_separators(json) <= MOST_VALUES:
        return False
    plain = json.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * MOST_VALUES:
        return True
    outside_of_strings = b"".join(plain.split(b'"')[::2])
    return _count_separators(outside_of_strings) > MOST_VALUES


def _count_separators(json: bytes) -> int:
    """Count the characters in JSON that a value can follow."""
    return sum(map(json.count, (b",", b":", b"[", b"{")))


def size(value: Any) -> int:
    """Count the characters of all texts in a value, keys included; every other value counts as one."""
    total = 0
    for part in _values(value):
        if isinstance(part, str):
            total += len(part)
        else:
            total += 1
    return total


def _values(value: Any) -> Iterator[Any]:
    """Yield the value itself, and all values and keys in it."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict):
            yield from part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part

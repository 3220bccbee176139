"""Strict JSON text to values, without loss. Knows nothing of memories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
"""orjson reads an integer of more than 64 bits as the nearest float; such an integer has at least 19 digits. They are
sought in a copy with every digit 0: 10 ms for 15 MB; a regular expression takes longer than the parsing."""


def loads(data: bytes) -> Any:
    """The value of a JSON text in UTF-8, with integers of any size as they are. Raises ValueError if it is not JSON or
    not UTF-8, or holds NaN, lone surrogates or a number out of range."""
    value = orjson.loads(data)
    return lenient(data) if may_hold_long_integers(data) else value


def repeated_name(data: bytes) -> str | None:
    """A name that an object in a JSON text has twice, of which `loads` would take the last; None: there is none. Raises
    ValueError as `lenient`."""
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        repeated.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)

    lenient(data, collect)
    return repeated[0] if repeated else None


def may_hold_long_integers(data: bytes) -> bool:
    """Whether orjson might change an integer in `data`. Ask it once for a text of many values."""
    return _LONG_NUMBER in data.translate(_ZEROS)


def lenient(data: bytes, object_of: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """The same by the standard library: slower, but it accepts the NaN and lone surrogates that others write. Raises
    ValueError if it is not JSON, not UTF-8, or nested too deeply. `object_of` makes an object of its pairs."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=object_of)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error

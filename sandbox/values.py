"""Values: what marks them, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, dataclass_transform

T = TypeVar("T")
JsonObject: TypeAlias = Mapping[str, Any]
"""An object as JSON has it, which is not changed."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a dataclass that is frozen and has slots."""
    return dataclass(frozen=True, slots=True)(cls)


def by_name(names: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return for each name what it means, from the names of each."""
    meanings: dict[str, str] = {}
    for meaning, its_names in names.items():
        meanings |= dict.fromkeys(its_names, meaning)
    return meanings


# --- fields of files of other programs ------------------------------------------------------------

WRONG_VALUES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a reader raises where a value has a type or a size that no file of its program has. A reader looks at the values
that it needs; whoever goes through the records of a file catches these once, so that such a value costs its record."""


def mapping_in(row: Any, name: str) -> JsonObject:
    """Return the object in this field of a row, or an empty object."""
    value = row.get(name) if isinstance(row, Mapping) else None
    if not isinstance(value, Mapping):
        return {}
    return value


def list_in(row: JsonObject, name: str) -> list[Any]:
    """Return the list in this field of a row, or an empty list."""
    value = row.get(name)
    if not isinstance(value, list):
        return []
    return value


def text_in(row: JsonObject, name: str) -> str:
    """Return the text in this field of a row; '' if it is missing, or only blanks."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        return ""
    return value


def joined_values(line: str) -> tuple[list[Any], str]:
    """Return the JSON objects at the beginning of a line, one after the other, and what is behind the last."""
    import json  # `trigger-sandbox --help` does not wait for it

    decoder = json.JSONDecoder()
    rest = line.strip()
    values: list[Any] = []
    start = 0
    while rest.startswith("{", start):
        try:
            value, end = decoder.raw_decode(rest, start)
        except (ValueError, RecursionError):
            break
        values.append(value)
        start = end
        while rest[start : start + 1].isspace():
            start += 1
    return values, rest[start:]

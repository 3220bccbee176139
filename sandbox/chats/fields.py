"""Fields of JSON that another program wrote, where anything may be in the place of what is expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def mapping_in(row: Any, name: str) -> Mapping[str, Any]:
    """Return the object in this field of a row, or an empty object."""
    value = row.get(name) if isinstance(row, Mapping) else None
    if not isinstance(value, Mapping):
        return {}
    return value


def list_in(row: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list in this field of a row, or an empty list."""
    value = row.get(name)
    if not isinstance(value, list):
        return []
    return value


def text_in(row: Mapping[str, Any], name: str) -> str:
    """Return the text in this field of a row; '' if it is missing, or only blanks."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        return ""
    return value

"""Arguments as the caller meant them. Some clients send lists and objects as JSON text, numbers as text, and null for
an argument that is left out; a model cannot mend what its client does. One rule over the schema of each tool reads all
of these. It never touches `confirm`, ids, and tools that destroy something: those must be meant as they were sent.

Pure: it knows schemas and values, and no tool.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from memory_server.kernel.strict_json import crowded, deeper, loads, repeated_name

Schema = Mapping[str, Any]
_STRICT_NAME = re.compile(r"confirm|ids?|.*(_id|_ids|Id|Ids)")
"""Arguments that are taken exactly as they were sent."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,16}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MOST_INTEGER = 10**16
"""Whole numbers below it may have come as floats; `_INTEGER` reads as many digits."""
_TRUTH = {"true": True, "false": False}


def as_meant(schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call in the types that `schema`, a plain JSON Schema of an object, asks for. What
    cannot be read as such stays as it is, so that the check of the arguments names it as the caller sent it."""
    return _object(schema, arguments)


def _object(schema: Schema, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object in the types of its schema. A null means a field that was left out, unless the
    schema requires that field."""
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    meant = {}
    for name, member in value.items():
        if name not in properties or _STRICT_NAME.fullmatch(name):
            meant[name] = member
        elif member is not None:
            meant[name] = _value(properties[name], member)
        elif name in required:
            meant[name] = None
    return meant


def _value(schema: Schema, value: Any) -> Any:
    """Return the value in the type of its schema if it can be read as such; otherwise unchanged."""
    if "anyOf" in schema:
        return _value_of_any_type(schema["anyOf"], value)

    match schema.get("type"):
        case "object":
            parsed = _parsed(value, dict)
            if isinstance(parsed, dict) and "properties" in schema:
                return _object(schema, parsed)
            return parsed
        case "array":
            parsed = _parsed(value, list)
            if not isinstance(parsed, list):
                return parsed
            item_schema = schema.get("items", {})
            return [_value(item_schema, item) for item in parsed]
        case "integer":
            return _integer(value)
        case "number":
            return _number(value)
        case "boolean" if isinstance(value, str):
            return _TRUTH.get(value.strip().lower(), value)

    return value


def _value_of_any_type(types: list[Schema], value: Any) -> Any:
    """Return a value that may have one of several types (`anyOf`), such as a text or a list of messages. Only the lists
    among the types are tried, and a list counts only if all its items are objects with the required fields: a JSON text
    may be meant as the text that it is."""
    for list_type in types:
        if list_type.get("type") != "array":
            continue
        items = _value(list_type, value)
        required_fields = list_type.get("items", {}).get("required", ())
        if (
            isinstance(items, list)
            and items
            and all(_is_object_with(required_fields, item) for item in items)
        ):
            return items
    return value


def _is_object_with(required_fields: Sequence[str], value: Any) -> bool:
    return isinstance(value, dict) and all(name in value for name in required_fields)


def _parsed(value: Any, json_type: type) -> Any:
    """Return the list or object that a JSON text is; the text itself if it is neither, or has too much in it."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        text = value.encode()
        if crowded(text):
            return value
        parsed = loads(text)
        is_usable = (
            isinstance(parsed, json_type) and not deeper(parsed) and repeated_name(text) is None
        )
    except ValueError:
        return value
    if not is_usable:
        return value
    return parsed


def _integer(value: Any) -> Any:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _MOST_INTEGER:
        return int(value)
    return value


def _number(value: Any) -> Any:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        return value
    number = float(value)
    if not math.isfinite(number):
        return value
    return number

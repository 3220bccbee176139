"""Arguments as the caller meant them. Some clients send lists and objects as JSON text, numbers as text, and null for
an argument that is left out; a model cannot mend what its client does. One rule over the schema of each tool reads all
of these. It never touches `confirm`, ids, and tools that destroy something: those must be meant as they were sent.

Pure: it knows schemas and values, and no tool.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from memory_server.kernel.nesting import crowded, deeper
from memory_server.kernel.strict_json import loads, repeated_name

Schema = Mapping[str, Any]
_STRICT_NAME = re.compile(r"confirm|ids?|.*(_id|_ids|Id|Ids)")
"""Arguments that are taken exactly as they were sent."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,16}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_TRUTH = {"true": True, "false": False}


def as_meant(schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call in the types that `schema`, a plain JSON Schema of an object, asks for. What cannot be
    read as such stays as it is, so that the check of the arguments names it as the caller sent it."""
    return _object(schema, arguments)


def _object(schema: Schema, value: Mapping[str, Any]) -> dict[str, Any]:
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
    if "anyOf" in schema:
        return _one_of(schema["anyOf"], value)
    match schema.get("type"):
        case "object":
            parsed = _parsed(value, dict)
            return _object(schema, parsed) if isinstance(parsed, dict) and "properties" in schema else parsed
        case "array":
            parsed = _parsed(value, list)
            items = schema.get("items", {})
            return [_value(items, item) for item in parsed] if isinstance(parsed, list) else parsed
        case "integer":
            return _integer(value)
        case "number":
            return _number(value)
        case "boolean" if isinstance(value, str):
            return _TRUTH.get(value.strip().lower(), value)
    return value


def _one_of(options: list[Schema], value: Any) -> Any:
    """A value of a type that has a choice, such as a text or a list of messages. A JSON text counts as a list only if
    every item has what such a list must have, because it may also be a text as such."""
    for option in options:
        if option.get("type") != "array":
            continue
        meant = _value(option, value)
        required = option.get("items", {}).get("required", ())
        if isinstance(meant, list) and meant and all(_has(item, required) for item in meant):
            return meant
    return value


def _has(item: Any, required: list[str]) -> bool:
    return isinstance(item, dict) and all(name in item for name in required)


def _parsed(value: Any, wanted: type) -> Any:
    """The list or object that a JSON text is; the text itself if it is neither, or has too much in it."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        text = value.encode()
        parsed = None if crowded(text) else loads(text)
        usable = isinstance(parsed, wanted) and not deeper(parsed) and repeated_name(text) is None
    except ValueError:
        return value
    return parsed if usable else value


def _integer(value: Any) -> Any:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 10**16:
        return int(value)
    return value


def _number(value: Any) -> Any:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        return value
    number = float(value)
    return number if math.isfinite(number) else value

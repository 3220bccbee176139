"""JSON Schemas in their shortest form: without references, generated titles and "or null".

Every model pays for a schema in every conversation. "Or null" is not needed, because an argument can be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NULL = {"type": "null"}


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` in the short form, without the docstring of its class, which is for developers."""
    plain = _keywords({k: v for k, v in schema.items() if k != "description"}, schema.get("$defs", {}))
    plain.pop("$defs", None)
    return plain


def _value(value: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_value(item, definitions) for item in value]
    return _keywords(value, definitions) if isinstance(value, dict) else value


def _keywords(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of one schema object, those inside it included."""
    options = node.get("anyOf", ())
    if _NULL in options and len(options) == 2:
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return _keywords(next(option for option in options if option != _NULL) | rest, definitions)
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _keywords(definitions[node["$ref"].rsplit("/", 1)[1]] | rest, definitions)
    plain: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            # Here the keys are names of properties, and one may be called "title" or "default".
            plain[key] = {name: _value(inner, definitions) for name, inner in value.items()}
        elif key == "title" or (key == "default" and value is None):
            continue
        else:
            plain[key] = _value(value, definitions)
    return plain

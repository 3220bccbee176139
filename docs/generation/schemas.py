"""JSON Schemas as short phrases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def shape_name(name: str) -> str:
    return name.removesuffix("Argument")


def type_of(schema: Schema) -> str:
    """Return a JSON Schema as a short phrase, with links to the shapes it names."""
    if "$ref" in schema:
        name = shape_name(schema["$ref"].rsplit("/", 1)[1])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(
            type_of(option) for option in schema["anyOf"] if option.get("type") != "null"
        )
    if "enum" in schema or "const" in schema:
        return "/".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "array":
            items = type_of(schema["items"])
            return ("texts" if items == "text" else f"list of {items}") + bounds(schema)
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"object of {type_of(schema['additionalProperties'])}"
        case "string":
            kind = {"path": "path", "date-time": "ISO 8601 time"}.get(
                schema.get("format", ""), "text"
            )
            return kind + bounds(schema)
        case "integer":
            return "integer" + bounds(schema)
        case "boolean":
            return "boolean"
        case other:
            return (other or "anything") + bounds(schema)


def bounds(schema: Schema) -> str:
    if "exclusiveMinimum" in schema:
        most = f" and ≤ {schema['maximum']:,g}" if "maximum" in schema else ""
        return f", > {schema['exclusiveMinimum']:g}{most}"
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minItems", "maxItems", " items"),
        ("minLength", "maxLength", " characters"),
    ):
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            return f", {low:,g} to {high:,g}{unit}"
        if high is not None:
            return f", ≤ {high:,}{unit}"
        if low is not None:
            return f", ≥ {low:,g}{unit}"
    return ""

"""docs/reference/tools.md: every tool with its arguments and its result."""

from __future__ import annotations

from collections.abc import Iterator

from generation.markdown import table
from generation.meanings import ARGUMENT_MEANINGS, CHANCE_COUNT, MEANINGS, MESSAGE_NAME, OF_ONE
from generation.schemas import Schema, shape_name, type_of
from pydantic import BaseModel

from memory_server.tools import DEFAULT_TOOLS, PURPOSES, TOOLSETS
from memory_server.tools.base.tool import Tool

TOOLS_OPENING = """\
# Tools

The tools that `memory-server` offers over MCP, by toolset. `tools/list` gives the same as JSON Schema, and
`memory-server call TOOL JSON` calls any of them from a shell. [Each tool, called once](tool-examples.md) shows real
calls and answers. A client gets five of them by default, marked *default* here;
[Which tools](../how-to/connect-a-client.md#which-tools) says how it gets others.

- An argument that a tool does not know is an error, never ignored.
- A result comes twice: as `structuredContent`, described here, and as a text block for people.
- A result field marked `?` is left out where there is nothing to say.
- A call that fails has `isError: true` and one sentence that says what to do next. It changed nothing.
- `conversation_id` may be left out everywhere: then the setting [`conversation`](settings.md) is meant.
- Times in results are ISO 8601 text in UTC.
"""
INPUT_SHAPES = ("Message", "RoleWeights")


def tools_page() -> str:
    """Every tool with its arguments and its result, and the shapes they share."""
    shapes: dict[str, Schema] = {}
    rows = [
        (
            f"[`{tool.name}`](#{tool.name.lower()})",
            tool.title,
            _effect(tool),
            "default" if tool.name in DEFAULT_TOOLS else "",
        )
        for tool in _tools()
    ]
    parts = [TOOLS_OPENING, table(("tool", "title", "changes something?", "offered"), rows)]
    for name, tools in TOOLSETS.items():
        parts.append(f"## Toolset `{name}`\n\nFor {PURPOSES[name]}.\n")
        parts += [part for tool in tools for part in _tool_section(tool, shapes)]
    parts.append("## Shapes\n")
    for name, shape in sorted(shapes.items()):
        parts += [f"### {name}\n", _fields(shape, name, arguments=name in INPUT_SHAPES)]
    return "\n".join(parts)


def _tools() -> Iterator[Tool]:
    for tools in TOOLSETS.values():
        yield from tools


def _effect(tool: Tool) -> str:
    if tool.read_only:
        return "no"
    return "removes" if tool.destructive else "yes"


def _tool_section(tool: Tool, shapes: dict[str, Schema]) -> Iterator[str]:
    hints = {
        "readOnlyHint": tool.read_only,
        "destructiveHint": tool.destructive,
        "idempotentHint": tool.idempotent or tool.read_only,
    }
    yield f"### {tool.name}\n"
    yield f"**{tool.title}.** {tool.description}\n"
    yield "Hints: " + ", ".join(f"`{name}: {str(value).lower()}`" for name, value in hints.items()) + ".\n"
    arguments = _schema(tool.arguments, shapes)
    yield "Arguments:\n" if arguments["properties"] else "Arguments: none.\n"
    if arguments["properties"]:
        yield _fields(arguments, tool.name, arguments=True)
    yield "Result:\n"
    yield _fields(_schema(tool.result, shapes), tool.name)


def _schema(model: type[BaseModel], shapes: dict[str, Schema]) -> Schema:
    """The JSON Schema of `model`; the models it refers to join `shapes` under their displayed names."""
    schema = model.model_json_schema(by_alias=True, mode="serialization")
    for name, shape in schema.get("$defs", {}).items():
        known = shapes.setdefault(shape_name(name), shape)
        if known != shape:
            raise SystemExit(f"two different shapes are called {shape_name(name)}: rename a class in tools/")
    return schema


def _fields(schema: Schema, owner: str, *, arguments: bool = False) -> str:
    """A table of the properties of `schema`, which belongs to the tool or shape `owner`."""
    needed = set(schema.get("required", ()))
    rows = []
    for name, field in schema.get("properties", {}).items():
        always = arguments or name in needed or "default" not in field
        need = (("yes" if name in needed else "no"),) if arguments else ()
        meaning = field.get("description") or _meaning(owner, name, arguments=arguments)
        rows.append((f"`{name}`" if always else f"`{name}?`", type_of(field), *need, meaning))
    return table(("name", "type", *(("required",) if arguments else ()), "meaning"), rows)


def _meaning(owner: str, name: str, *, arguments: bool) -> str:
    if (owner, name) in OF_ONE:
        return OF_ONE[owner, name]
    match owner, name:
        case "Message", "name":
            return MESSAGE_NAME
        case "search_long_term_memories", "totalMemories":
            return CHANCE_COUNT
        case "get_frequent_conversation", "conversation_id":
            return "The one with the most short-term memories"
        case (("Message" | "RoleWeights"), _):
            return ARGUMENT_MEANINGS.get(name, "")
    return (ARGUMENT_MEANINGS if arguments else MEANINGS).get(name, "")

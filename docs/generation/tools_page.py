"""docs/reference/tools.md and docs/reference/tools/*.md: every tool with its arguments and its result.

A field that several tools of a page share stands once, at the top of the page. A shape that several pages use stands on
tools.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from generation.markdown import replaced, table
from generation.meanings import ARGUMENT_MEANINGS, CHANCE_COUNT, MEANINGS, MESSAGE_NAME, OF_ONE
from generation.schemas import Schema, shape_name, type_of
from pydantic import BaseModel

from memory_server.tools import DEFAULT_TOOLS, PURPOSES, TOOLSETS
from memory_server.tools.base.tool import Tool

TOOLS_OPENING = """\
# Tools

`memory-server` offers these tools over MCP, in toolsets. `tools/list` gives the same as JSON Schema.
`memory-server tools NAME` shows one tool, and `memory-server call TOOL JSON` calls it. A client gets the tools in
**bold** by default; [Which tools](../how-to/connect-a-client.md#which-tools) says how it gets others.
"""
TOOLS_RULES = """\
## Rules for all tools

- A tool refuses an argument that does not exist.
- An argument marked `?` is optional. A result field marked `?` is left out if it is empty.
- A result comes twice: as `structuredContent`, for [programs](#results-for-programs), and as a text block for people.
- A failed call has `isError: true` and one sentence that says what to do next. It changed nothing.
- Errors and notes of a tool are English, whatever `language` is: a model or a program reads them, and an error over
  HTTP also has a `kind`. What a result has for people, such as `reason`, is in the language of the memories.
- Times in results are ISO 8601 text in UTC.
- *Reads* stands for `readOnlyHint`, *removes* for `destructiveHint`, *repeatable* for `idempotentHint`: a second
  call with the same arguments changes nothing more.

## Results for programs

A program reads `structuredContent`, whose fields these pages describe; `memory-server call` and `POST /v1/TOOL` give the same
object. The words of the text block may change with any version.

A program of the Node original reads the text block. For it, `compat = "node"` makes the tools that the original has answer over
MCP as they do there:

- The text block is JSON and nothing else, and `structuredContent` is the same object. It has the fields of these pages and those
  of the original, such as `success`, `message`, `formattedText` and `formattedContext`; a figure of an empty conversation is 0 or
  null.
- A call that failed is a usual result with `success: false` and the sentence as `error` and `message`. Arguments that were
  refused still give `isError: true`.
- All these tools answer, listed or not; `--toolsets short-term,long-term,backup,insight,admin` lists them.
- [Decisions](../project/decisions.md#left-out-of-the-node-original-on-purpose) lists what differs.

## Fields of many tools

A tool without `conversation_id` uses the setting [`conversation`](settings.md).
"""
INPUT_SHAPES = ("Message", "RoleWeights")
SHARED_BY = 2
"""Tools of a page with the same field, from which on the field stands at the top of the page."""


EVERYWHERE_IN = 3
"""Toolsets with the same field, from which on the field stands on tools.md."""


@dataclass(frozen=True)
class Field:
    """A property of a schema as its line in a list: `name?` (type): meaning."""

    name: str
    type: str
    meaning: str

    def line(self) -> str:
        return f"- `{self.name}` ({self.type}): {self.meaning}"


@dataclass(frozen=True)
class Described:
    """A tool with the fields of its arguments and its result."""

    tool: Tool
    arguments: Sequence[Field]
    result: Sequence[Field]


def tools_page() -> str:
    """The opening page: the tools by toolset, the rules for all, and the shapes that several toolsets use."""
    rows = [
        (
            f"[`{name}`](tools/{name}.md)",
            f"{_sentence(PURPOSES[name])}",
            ", ".join(_shown(tool.name) for tool in tools),
        )
        for name, tools in TOOLSETS.items()
    ]
    parts = [
        TOOLS_OPENING,
        table(("toolset", "purpose", "tools"), rows),
        TOOLS_RULES,
        _list(_everywhere()),
    ]
    parts.append("## Shared shapes\n")
    shapes = _all_shapes()
    for name in sorted(_shared_shapes()):
        parts += [
            f"### {name}\n",
            _list(_fields(shapes[name], name, arguments=name in INPUT_SHAPES)),
        ]
    return "\n".join(parts)


def toolset_page(name: str, text: str) -> str:
    """The page of a toolset with its generated part as it should be; people write the examples below it."""
    return replaced(text, "tools", "\n".join(_toolset(name)))


def _toolset(name: str) -> Iterator[str]:
    shapes: dict[str, Schema] = {}
    described = [_described(tool, shapes) for tool in TOOLSETS[name]]
    yield f"{_sentence(PURPOSES[name])} [Rules and fields of many tools](../tools.md#rules-for-all-tools).\n"
    everywhere = _everywhere()
    common_arguments = _common([one.arguments for one in described], everywhere)
    common_results = _common([one.result for one in described], everywhere)
    known: dict[tuple[tuple[Field, ...], tuple[Field, ...]], str] = {}
    sections: list[str] = []
    for one in described:
        fields = tuple(one.arguments), tuple(one.result)
        sections.append(f"## {one.tool.name}\n")
        sections.append(
            f"**{one.tool.title.english}.** {one.tool.description} *{_effect(one.tool)}.*\n"
        )
        if fields in known and sum(map(len, fields)) > 1:
            sections.append(f"Fields as for [`{known[fields]}`](#{known[fields].lower()}).\n")
            continue
        known[fields] = one.tool.name
        sections += _field_lists("Arguments", one.arguments, [*common_arguments, *everywhere])
        sections += _field_lists("Result", one.result, [*common_results, *everywhere])
    if common_arguments or common_results:
        yield "## Common fields\n"
        yield from _common_list("Arguments of several tools", common_arguments)
        yield from _common_list("Results of several tools", common_results)
    links = _shared_shapes()
    own = [shape for shape in sorted(shapes) if shape not in links]
    if own:
        sections.append("## Shapes\n")
    for shape in own:
        sections += [
            f"### {shape}\n",
            _list(_fields(shapes[shape], shape, arguments=shape in INPUT_SHAPES)),
        ]
    for section in sections:
        yield _linked(section, links)


def _common_list(title: str, fields: Sequence[Field]) -> Iterator[str]:
    if fields:
        yield f"{title}:\n"
        yield _linked(_list(fields), _shared_shapes())


def _field_lists(title: str, fields: Sequence[Field], common: Sequence[Field]) -> Iterator[str]:
    """The own fields of a tool as a list, and the names of the common ones."""
    if not fields:
        yield f"{title}: none.\n"
        return
    names = ", ".join(f"`{field.name}`" for field in fields if field in common)
    own = [field for field in fields if field not in common]
    if not own:
        yield f"{title}: {names}.\n"
        return
    yield f"{title}{f': {names}, and' if names else ':'}\n"
    yield _list(own)


def _common(
    lists: Iterable[Sequence[Field]], elsewhere: Sequence[Field] = (), tools: int = SHARED_BY
) -> list[Field]:
    """The fields that several tools have in the same form, in the order of their first appearance."""
    count = Counter(field for fields in lists for field in fields)
    return [field for field, number in count.items() if number >= tools and field not in elsewhere]


@cache
def _everywhere() -> list[Field]:
    """The fields that tools of several toolsets have in the same form; they stand on tools.md. A name that has several
    such forms stands on each page."""
    of_toolsets = []
    for tools in TOOLSETS.values():
        described = [_described(tool, {}) for tool in tools]
        fields = {field for one in described for field in (*one.arguments, *one.result)}
        of_toolsets.append(sorted(fields, key=lambda field: field.name))
    fields = _common(of_toolsets, tools=EVERYWHERE_IN)
    forms = Counter(field.name.rstrip("?") for field in fields)
    return [field for field in fields if forms[field.name.rstrip("?")] == 1]


def _described(tool: Tool, shapes: dict[str, Schema]) -> Described:
    return Described(
        tool,
        _fields(_schema(tool.arguments, shapes), tool.name, arguments=True),
        _fields(_schema(tool.result, shapes), tool.name),
    )


def _shown(name: str) -> str:
    return f"**`{name}`**" if name in DEFAULT_TOOLS else f"`{name}`"


def _sentence(purpose: str) -> str:
    return f"{purpose[:1].upper()}{purpose[1:]}."


def _effect(tool: Tool) -> str:
    if tool.read_only:
        return "Reads"
    effect = "Removes" if tool.destructive else "Writes"
    return f"{effect}, repeatable" if tool.idempotent else effect


def _shapes_by_toolset() -> Mapping[str, dict[str, Schema]]:
    by_toolset: dict[str, dict[str, Schema]] = {}
    for name, tools in TOOLSETS.items():
        shapes = by_toolset.setdefault(name, {})
        for tool in tools:
            _schema(tool.arguments, shapes)
            _schema(tool.result, shapes)
    return by_toolset


def _all_shapes() -> dict[str, Schema]:
    """Every shape; two shapes of one name have one form."""
    known: dict[str, Schema] = {}
    for shapes in _shapes_by_toolset().values():
        for name, shape in shapes.items():
            if known.setdefault(name, shape) != shape:
                raise SystemExit(
                    f"two different shapes are called {name}: rename a class in tools/"
                )
    return known


def _shared_shapes() -> set[str]:
    count = Counter(name for shapes in _shapes_by_toolset().values() for name in shapes)
    return {name for name, toolsets in count.items() if toolsets > 1}


def _linked(text: str, shared: set[str]) -> str:
    """Links from the folder of the toolsets: to shared shapes on tools.md, and to other pages."""
    anchors = {name.lower() for name in shared}
    text = text.replace("](../explanation", "](../../explanation")
    return re.sub(
        r"\]\(#(\w+)\)", lambda m: f"](../tools.md#{m[1]})" if m[1] in anchors else m[0], text
    )


def _schema(model: type[BaseModel], shapes: dict[str, Schema]) -> Schema:
    """The JSON Schema of `model`; the models it refers to join `shapes` under their displayed names."""
    schema = model.model_json_schema(by_alias=True, mode="serialization")
    for name, shape in schema.get("$defs", {}).items():
        known = shapes.setdefault(shape_name(name), shape)
        if known != shape:
            raise SystemExit(
                f"two different shapes are called {shape_name(name)}: rename a class in tools/"
            )
    return schema


def _fields(schema: Schema, owner: str, *, arguments: bool = False) -> list[Field]:
    """The properties of `schema`, which belongs to the tool or shape `owner`."""
    needed = set(schema.get("required", ()))
    fields = []
    for name, field in schema.get("properties", {}).items():
        optional = name not in needed and (arguments or "default" in field)
        meaning = field.get("description") or _meaning(owner, name, arguments=arguments)
        fields.append(
            Field(f"{name}?" if optional else name, type_of(field), " ".join(meaning.split()))
        )
    return fields


def _list(fields: Sequence[Field]) -> str:
    return "\n".join(field.line() for field in fields) + "\n"


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

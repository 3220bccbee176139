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

from generation.markdown import replaced
from generation.meanings import (
    ARGUMENT_MEANINGS,
    CHANCE_COUNT,
    ELSEWHERE,
    MEANINGS,
    MESSAGE_NAME,
    OF_ONE,
    PLAIN,
    SAID_BY_THE_NAME,
)
from generation.schemas import Schema, shape_name, type_of
from pydantic import BaseModel

from memory_server.tools import DEFAULT_TOOLS, PURPOSES, TOOLSETS
from memory_server.tools.base.tool import Tool

TOOLS_OPENING = """\
# Tools

`memory-server` offers these tools over MCP, in toolsets; [Which tool](which-tool.md) has the wish that each fulfils.
`memory-server tools NAME` shows one tool, and `memory-server call TOOL JSON` calls it. A client gets the tools in
**bold** by default; [Which tools](../how-to/connect-a-client.md#which-tools) says how it gets others.
"""
TOOLS_RULES = """\
## Rules for all tools

- A tool refuses an argument that does not exist. Without `conversation_id` it uses the setting
  [`conversation`](settings.md#general).
- An argument marked `?` is optional. A result field marked `?` is left out if it is empty. A field without a type is a
  text; times in results are ISO 8601 in UTC.
- A field that a page only names is explained at its top or [below](#fields-of-many-tools), or is what its name says;
  `memory-server tools NAME --json` has its type and its limits.
  `changeId` names the change for `undo_change`; `truncated` says that [something was left off](settings.md#results);
  `next` is the `offset` or `before` of the next page; `note` and `reason?` say what was left out, and why; `otherWords`
  are [other words](../explanation/recall.md#other-words) by which something is found.
- A result comes twice: as `structuredContent`, for programs (`memory-server call` and `POST /v1/TOOL` give it), and as
  a text block for people, whose words may change with any version.
- A failed call has `isError: true` and one sentence that says what to do next. It changed nothing.
- Errors and notes are English, because a model or a program reads them. What a result has for people, such as `reason`,
  is in the language of the memories.
- *Reads* stands for `readOnlyHint`, *removes* for `destructiveHint`, *repeatable* for `idempotentHint`: a second equal
  call changes nothing more.

## Results for programs

A program of the Node original reads the text block. With `compat = "node"` the tools that the original has answer over
MCP as they do there:

- The text block is JSON and nothing else, and `structuredContent` is the same object. Both have the fields of these
  pages and of the original, such as `formattedText`; a figure of an empty conversation is 0 or null.
- A call that failed is a usual result with `success: false` and the sentence as `error` and `message`. Arguments that
  were refused still give `isError: true`.
- All these tools answer, listed or not; `--toolsets short-term,long-term,backup,insight,admin` lists them.
- [Decisions](../project/decisions.md#left-out-of-the-node-original-on-purpose) lists what differs.

## Fields of many tools
"""
INPUT_SHAPES = ("Message", "RoleWeights")
SHARED_BY = 2
"""Tools of a page with the same field, from which on the field stands at the top of the page."""


EVERYWHERE_IN = 2
"""Toolsets with the same field, from which on the field stands on tools.md."""


@dataclass(frozen=True)
class Field:
    """A property of a schema: its line in a list is `name?` (type): meaning."""

    name: str
    type: str
    meaning: str

    @property
    def is_plain(self) -> bool:
        """Whether it means what its name says."""
        name = self.name.rstrip("?")
        if not self.meaning or self.meaning in SAID_BY_THE_NAME:
            return True
        return name in PLAIN and self.meaning == MEANINGS[name]

    def named(self) -> str:
        """Return the name, with the type if it names values or a shape."""
        has_values = self.is_plain and ("`/`" in self.type or "](" in self.type)
        return f"`{self.name}` ({self.type})" if has_values else f"`{self.name}`"


@dataclass(frozen=True)
class Described:
    """A tool with the fields of its arguments and its result."""

    tool: Tool
    arguments: Sequence[Field]
    result: Sequence[Field]


def tools_page() -> str:
    """Return the opening page: the tools by toolset, the rules for all, and the shapes that several toolsets use."""
    rows = [
        f"- [`{name}`](tools/{name}.md): {', '.join(_shown(tool.name) for tool in tools)}"
        for name, tools in TOOLSETS.items()
    ]
    parts = [
        TOOLS_OPENING,
        "\n".join(rows) + "\n",
        TOOLS_RULES,
        _list(_everywhere()),
    ]
    parts.append("## Shared shapes\n")
    shapes = _all_shapes()
    for name in sorted(_shared_shapes()):
        parts.append(f"### {name}\n")
        fields = _fields(shapes[name], name, arguments=name in INPUT_SHAPES)
        parts += _field_lists("", fields, [] if name in INPUT_SHAPES else _everywhere())
    return "\n".join(parts)


def toolset_page(name: str, text: str) -> str:
    """Return the page of a toolset with its generated part as it should be; people write the examples below it."""
    return replaced(text, "tools", "\n".join(_toolset(name)))


def _toolset(name: str) -> Iterator[str]:
    shapes: dict[str, Schema] = {}
    described = [_described(tool, shapes) for tool in TOOLSETS[name]]
    yield f"{_sentence(PURPOSES[name])} [Rules and common fields](../tools.md#rules-for-all-tools).\n"
    links = _shared_shapes()
    own = {
        shape: _fields(shapes[shape], shape, arguments=shape in INPUT_SHAPES)
        for shape in sorted(shapes)
        if shape not in links
    }
    common_arguments = _common([one.arguments for one in described], _everywhere())
    common_results = _common([*(one.result for one in described), *own.values()], _everywhere())
    taken = {field.name for field in (*common_arguments, *common_results)}
    everywhere = [field for field in _everywhere() if field.name not in taken]
    of_all_arguments = _of_all([one.arguments for one in described])
    of_all_results = _of_all([one.result for one in described])
    known: dict[tuple[tuple[Field, ...], tuple[Field, ...]], str] = {}
    sections: list[str] = []
    for one in described:
        fields = tuple(one.arguments), tuple(one.result)
        sections.append(f"## {one.tool.name}\n")
        twin = known.get(fields, "")
        link = f"[`{twin}`](#{twin.lower()})"
        if twin and twin == one.tool.name.replace("global_", ""):
            sections.append(f"{link} for all projects.\n")
            continue
        sections.append(f"{one.tool.description} *{_effect(one.tool)}.*\n")
        if twin and sum(map(len, fields)) > 1:
            sections.append(f"Fields as for {link}.\n")
            continue
        known[fields] = one.tool.name
        arguments = [field for field in one.arguments if field not in of_all_arguments]
        results = [field for field in one.result if field not in of_all_results]
        if arguments or not of_all_arguments:
            sections += _field_lists("Arguments", arguments, [*common_arguments, *everywhere])
        if results or not of_all_results:
            sections += _field_lists("Result", results, [*common_results, *everywhere])
    if common_arguments or common_results:
        yield "## Common fields\n"
        yield from _of_all_tools("take", of_all_arguments)
        yield from _of_all_tools("give", of_all_results)
        yield from _common_list("Arguments of several tools", common_arguments)
        yield from _common_list("Results of several tools", common_results)
    if own:
        sections.append("## Shapes\n")
    for shape, own_fields in own.items():
        sections.append(f"### {shape}\n")
        sections += _field_lists("", own_fields, [*common_results, *everywhere])
    for section in sections:
        yield _linked(section, links)


def _of_all(lists: Sequence[Sequence[Field]]) -> list[Field]:
    """Return the fields that each of several tools has."""
    first, *rest = lists
    if len(rest) < SHARED_BY:
        return []
    return [field for field in first if all(field in fields for fields in rest)]


def _of_all_tools(verb: str, fields: Sequence[Field]) -> Iterator[str]:
    if fields:
        names = ", ".join(field.named() for field in fields)
        yield f"All tools {verb} {names}.\n"


def _common_list(title: str, fields: Sequence[Field]) -> Iterator[str]:
    if fields:
        yield f"{title}:\n"
        yield _linked(_list(fields), _shared_shapes())


def _field_lists(title: str, fields: Sequence[Field], common: Sequence[Field]) -> Iterator[str]:
    """Return the own fields of a tool or a shape as a list, and the names of the common ones."""
    if not fields:
        yield f"{title}: none.\n"
        return
    named = [field for field in fields if field in common or field.is_plain]
    names = ", ".join(field.named() for field in named)
    own = [field for field in fields if field not in named]
    before = f"{title}: " if title else ""
    if not own:
        yield f"{before}{names}.\n"
        return
    if names:
        yield f"{before}{names}, and\n"
    elif title:
        yield f"{title}:\n"
    yield _list(own)


def _common(
    lists: Iterable[Sequence[Field]], elsewhere: Sequence[Field] = (), tools: int = SHARED_BY
) -> list[Field]:
    """Return the fields that several tools have in the same form, in the order of their first appearance."""
    count = Counter(field for fields in lists for field in fields)
    return [
        field
        for field, number in count.items()
        if number >= tools and field not in elsewhere and not field.is_plain
    ]


@cache
def _everywhere() -> list[Field]:
    """Return the fields that several toolsets or shared shapes have in the same form; tools.md has them. Of two forms of a name
    it has the one that is there more often."""
    shapes = _all_shapes()
    places = [_fields_of(tools) for tools in TOOLSETS.values()]
    places += [_fields(shapes[name], name) for name in _shared_shapes() if name not in INPUT_SHAPES]
    counts = Counter(field for fields in places for field in fields)
    frequent: dict[str, Field] = {}
    for field, number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0].meaning)):
        if number >= EVERYWHERE_IN and not field.is_plain:
            frequent.setdefault(field.name, field)
    return sorted(frequent.values(), key=lambda field: field.name.lower())


def _fields_of(tools: Iterable[Tool]) -> list[Field]:
    """Each form of a field of these tools and of the shapes that only they use, once; in the order of the names."""
    shapes: dict[str, Schema] = {}
    fields: set[Field] = set()
    for tool in tools:
        described = _described(tool, shapes)
        fields.update((*described.arguments, *described.result))
    for name, shape in shapes.items():
        if name not in _shared_shapes():
            fields.update(_fields(shape, name))
    return sorted(fields, key=lambda field: (field.name, field.meaning))


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


@cache
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


@cache
def _shared_shapes() -> frozenset[str]:
    count = Counter(name for shapes in _shapes_by_toolset().values() for name in shapes)
    return frozenset(name for name, toolsets in count.items() if toolsets > 1)


def _linked(text: str, shared: frozenset[str]) -> str:
    """Links from the folder of the toolsets: to shared shapes on tools.md, and to other pages."""
    anchors = {name.lower() for name in shared}
    text = text.replace("](../explanation", "](../../explanation")
    return re.sub(
        r"\]\(#(\w+)\)", lambda m: f"](../tools.md#{m[1]})" if m[1] in anchors else m[0], text
    )


def _schema(model: type[BaseModel], shapes: dict[str, Schema]) -> Schema:
    """Return the JSON Schema of `model`; the models it refers to join `shapes` under their displayed names."""
    schema = model.model_json_schema(by_alias=True, mode="serialization")
    for name, shape in schema.get("$defs", {}).items():
        known = shapes.setdefault(shape_name(name), shape)
        if known != shape:
            raise SystemExit(
                f"two different shapes are called {shape_name(name)}: rename a class in tools/"
            )
    return schema


def _fields(schema: Schema, owner: str, *, arguments: bool = False) -> list[Field]:
    """Return the properties of `schema`, which belongs to the tool or shape `owner`."""
    needed = set(schema.get("required", ()))
    fields = []
    for name, field in schema.get("properties", {}).items():
        optional = name not in needed and (arguments or "default" in field)
        meaning = field.get("description") or _meaning(owner, name, arguments=arguments)
        meaning = ELSEWHERE.get(meaning, meaning)
        fields.append(
            Field(f"{name}?" if optional else name, type_of(field), " ".join(meaning.split()))
        )
    return fields


def _list(fields: Sequence[Field]) -> str:
    """Return a line for each field; fields of one type and meaning share a line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for field in fields:
        alike.setdefault((field.type, field.meaning), []).append(f"`{field.name}`")
    lines = (_line(names, kind, meaning) for (kind, meaning), names in alike.items())
    return "\n".join(lines) + "\n"


def _line(names: Sequence[str], kind: str, meaning: str) -> str:
    """Return the line of fields; the type of a text is not written."""
    shown = kind.removeprefix("text, ")
    type_shown = "" if shown == "text" else f" ({shown})"
    return f"- {', '.join(names)}{type_shown}: {meaning}"


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

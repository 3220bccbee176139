"""`memory.jsonl` of the official MCP memory server: entities with observations, and relations between them.

    {"type":"entity","name":"小明","entityType":"person","observations":["likes oolong"]}
    {"type":"relation","from":"小明","to":"Hangzhou","relationType":"lives in"}

What the tool `read_graph` answers is read too, `{"entities": […], "relations": […]}`, also within the answer of a tool
of MCP, as a client wrote it down. An entity becomes one pinned short-term memory, so that any of its words finds it and
the clean-up leaves it. It has no time: the memory is dated by the import. A relation becomes a line of the entity that
it starts from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from memory_server.conversations.contents import Contents
from memory_server.interchange.chats import memory_of
from memory_server.interchange.incoming import EMPTY_OR_PRIVATE, Incoming, NotThisFormat
from memory_server.kernel import json_text
from memory_server.kernel.messages import without_surrogates
from memory_server.kernel.private import without_private
from sandbox.locale import _

NOTES = (
    _("relations become lines of text: no tool follows them"),
    _("all memories are dated by the import: the file has no times"),
)


_MOST_WRAPPERS = 4
"""Wrappers around a graph: the answer of JSON-RPC, the answer of a tool, its list of texts, and one text in it."""


def graph_in(value: Any) -> Mapping[str, Any] | None:
    """The graph that this JSON value is or wraps; None: it does not hold one."""
    for _level in range(_MOST_WRAPPERS + 1):
        match value:
            case {"entities": list(), "relations": list()}:
                graph: Mapping[str, Any] = value
                return graph
            case {"result": dict(wrapped)} | {"structuredContent": dict(wrapped)}:
                value = wrapped
            case {"content": [{"type": "text", "text": str(text)}, *_]} | [{"type": "text", "text": str(text)}, *_]:
                try:
                    value = json_text.loads(text.encode(errors="replace"))
                except ValueError:
                    return None
            case _:
                return None
    return None


def _rows(incoming: Incoming, data: bytes) -> Iterator[tuple[str, Any]]:
    """The records of a file, each with its place and its `type`: lines of `memory.jsonl`, or the parts of a graph."""
    try:
        graph = graph_in(json_text.loads(data))
    except ValueError:
        graph = None
    if graph is None:
        yield from incoming.lines(data)
        return
    for number, entity in enumerate(graph["entities"], 1):
        place = _("entity {number}", number)
        yield place, {**entity, "type": "entity"} if isinstance(entity, dict) else entity
    for number, relation in enumerate(graph["relations"], 1):
        place = _("relation {number}", number)
        yield place, {**relation, "type": "relation"} if isinstance(relation, dict) else relation


def read(data: bytes, usual: str) -> Incoming:
    """The entities of a file, for the conversation `usual`. Raises NotThisFormat if it holds none."""
    found = Incoming()
    entities: dict[str, tuple[str, list[str]]] = {}
    relations: list[tuple[str, str, str, str]] = []
    for place, row in _rows(found, data):
        match row:
            case {"type": "entity", "name": str(name), "observations": list(observations)} if name.strip():
                kind = row.get("entityType")
                known = entities.setdefault(name, (kind if isinstance(kind, str) else "", []))[1]
                known[:] = dict.fromkeys([*known, *(text for one in observations if (text := str(one).strip()))])
            case {"type": "relation", "from": str(start), "to": str(goal), "relationType": str(kind)}:
                relations.append((place, start, kind, goal))
            case _:
                found.skipped.append((place, _("it is neither an entity nor a relation")))
    if not entities and not relations:
        raise NotThisFormat(
            "holds no entities; give the memory.jsonl of the official memory server, or what its read_graph answers."
        )
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for place, start, kind, goal in relations:
        if start in entities:
            lines[start].append(f"{start} {kind} {goal}")
        else:
            found.skipped.append(
                (place, _("the relation starts from {start}, which is not an entity of the file", start))
            )
    memories = []
    for name, (kind, observations) in entities.items():
        if not (observations or lines[name]):
            found.skipped.append((_("entity {name}", name), _("it has no observation and no relation")))
            continue
        title = f"{name} ({kind})" if kind else name
        # The same entity gets the same id each time, so that importing a newer file replaces it.
        memory = memory_of(usual, (), f"official memory server\n{usual}\n{name}", pinned=True)
        text = without_private("\n".join([title, *observations, *lines[name]]))
        if not text.strip():
            found.lost[EMPTY_OR_PRIVATE] += 1
            continue
        memory = replace(memory, text=without_surrogates(text))
        if found.fits(_("entity {name}", name), memory):
            memories.append(memory)
    found.conversations = [Contents(usual, tuple(memories))]
    found.notes += NOTES
    return found

"""`memory.jsonl` of the official MCP memory server: entities with observations, and relations between them.

    {"type":"entity","name":"小明","entityType":"person","observations":["likes oolong"]}
    {"type":"relation","from":"小明","to":"Hangzhou","relationType":"lives in"}

What the tool `read_graph` answers is read too, `{"entities": […], "relations": […]}`, also within the answer of a tool
of MCP, as a client wrote it down. An entity becomes one pinned short-term memory, so that any of its words finds it and
the clean-up leaves it. It has no time: the memory is dated by the import. A relation becomes a line of the entity that
it starts from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from languages import N_, _
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import ShortTermMemory
from memory_server.interchange.chats import memory_of
from memory_server.interchange.incoming import EMPTY_OR_PRIVATE, Incoming, NotThisFormat
from memory_server.kernel import json_text
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.private import without_private
from memory_server.kernel.values import dataclass, frozen

NOTES = (
    N_("relations become lines of text: no tool follows them"),
    N_("all memories are dated by the import: the file has no times"),
)


_MOST_WRAPPERS = 4
"""Wrappers around a graph: the answer of JSON-RPC, the answer of a tool, its list of texts, and one text in it."""


def graph_in(value: Any) -> Mapping[str, Any] | None:
    """Return the graph that this JSON value is, or that a result of a tool wraps in it. Return None
    if none exists."""
    for _level in range(_MOST_WRAPPERS + 1):
        match value:
            case {"entities": list(), "relations": list()}:
                graph: Mapping[str, Any] = value
                return graph
            case {"result": dict(wrapped)} | {"structuredContent": dict(wrapped)}:
                value = wrapped
            case {"content": [{"type": "text", "text": str(text)}, *_]} | [
                {"type": "text", "text": str(text)},
                *_,
            ]:
                try:
                    value = json_text.loads(text.encode(errors="replace"))
                except ValueError:
                    return None
            case _:
                return None

    return None


def _rows(incoming: Incoming, data: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the records of a file, each with its place and its `type`: lines of `memory.jsonl`, or the parts of a
    graph."""
    try:
        graph = graph_in(json_text.loads(data))
    except ValueError:
        graph = None
    if graph is None:
        yield from incoming.lines(data)
        return
    for number, entity in enumerate(graph["entities"], 1):
        location = _("entity {number}", number)
        yield location, {**entity, "type": "entity"} if isinstance(entity, dict) else entity
    for number, relation in enumerate(graph["relations"], 1):
        location = _("relation {number}", number)
        yield location, {**relation, "type": "relation"} if isinstance(relation, dict) else relation


@dataclass(slots=True)
class _Entity:
    """An entity of the file. `relations`: a line for each relation that starts from it."""

    kind: str
    observations: dict[str, None] = field(default_factory=dict)  # as an ordered set
    relations: list[str] = field(default_factory=list)


@frozen
class _Relation:
    """A relation of the file, with its place there."""

    location: str
    start: str
    kind: str
    goal: str


def read(data: bytes, usual: str) -> Incoming:
    """Read the entities of a file, for the conversation `usual`; what is neither an entity nor a relation of one is
    skipped. Raises NotThisFormat if the file has neither entities nor relations."""
    incoming = Incoming()
    entities: dict[str, _Entity] = {}
    relations: list[_Relation] = []
    for location, row in _rows(incoming, data):
        match row:
            case {"type": "entity", "name": str(name), "observations": list(observations)} if (
                name.strip()
            ):
                kind = row.get("entityType")
                entity = entities.setdefault(name, _Entity(kind if isinstance(kind, str) else ""))
                texts = [str(observation).strip() for observation in observations]
                entity.observations |= dict.fromkeys(filter(None, texts))
            case {
                "type": "relation",
                "from": str(start),
                "to": str(goal),
                "relationType": str(kind),
            }:
                relations.append(_Relation(location, start, kind=kind, goal=goal))
            case _:
                incoming.skipped.append((location, _("it is neither an entity nor a relation")))

    if not entities and not relations:
        raise NotThisFormat(
            "holds no entities; import the memory.jsonl of the official memory server, or the answer of its read_graph."
        )

    # Only now: a relation may come before its entity.
    for relation in relations:
        start = relation.start
        if start in entities:
            entities[start].relations.append(f"{start} {relation.kind} {relation.goal}")
        else:
            reason = _(
                "the relation starts from {start}, which is not an entity of the file", start
            )
            incoming.skipped.append((relation.location, reason))

    # A relation is stored with the entity from which it starts.
    memories: list[ShortTermMemory] = []
    for name, entity in entities.items():
        memory = _memory_of(incoming, name, entity, usual)
        if memory is not None and incoming.fits(_("entity {name}", name), memory):
            memories.append(memory)

    incoming.conversations = [Contents(usual, tuple(memories))]
    incoming.notes += map(_, NOTES)
    return incoming


def _memory_of(
    incoming: Incoming, name: str, entity: _Entity, usual: str
) -> ShortTermMemory | None:
    """Return the memory of an entity. If it says nothing, or all of it is private, return None and note that in
    `incoming`."""
    if not entity.observations and not entity.relations:
        incoming.skipped.append(
            (_("entity {name}", name), _("it has no observation and no relation"))
        )
        return None
    title = f"{name} ({entity.kind})" if entity.kind else name
    text = without_private("\n".join([title, *entity.observations, *entity.relations]))
    if not text.strip():
        incoming.lost[EMPTY_OR_PRIVATE] += 1
        return None
    # The same entity gets the same id each time, so that importing a newer file replaces it.
    memory = memory_of(usual, (), f"official memory server\n{usual}\n{name}", pinned=True)
    return replace(memory, text=without_surrogates(text))

"""`memory.jsonl` of the official MCP memory server: entities with observations, and relations between them.

    {"type":"entity","name":"小明","entityType":"person","observations":["likes oolong"]}
    {"type":"relation","from":"小明","to":"Hangzhou","relationType":"lives in"}

An entity becomes one pinned short-term memory, so that any of its words finds it and the clean-up leaves it. It has no
time: the memory is dated by the import. A relation becomes a line of the entity that it starts from.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from memory_server.conversations.contents import Contents
from memory_server.interchange.chats import memory_of
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.kernel.messages import without_surrogates
from sandbox.locale import _

NOTES = (
    _("relations become lines of text: no tool follows them"),
    _("all memories are dated by the import: the file has no times"),
)


def read(data: bytes, usual: str) -> Incoming:
    """The entities of a file, for the conversation `usual`. Raises NotThisFormat if it holds none."""
    found = Incoming()
    entities: dict[str, tuple[str, list[str]]] = {}
    relations: list[tuple[str, str, str, str]] = []
    for place, row in found.lines(data):
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
        raise NotThisFormat("holds no entities; give the memory.jsonl of the official memory server.")
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
        memory = replace(memory, text=without_surrogates("\n".join([title, *observations, *lines[name]])))
        if found.fits(_("entity {name}", name), memory):
            memories.append(memory)
    found.conversations = [Contents(usual, tuple(memories))]
    found.notes += NOTES
    return found

"""`memory.jsonl` of the official MCP memory server: entities with observations, and relations between them.

    {"type":"entity","name":"小明","entityType":"person","observations":["likes oolong"]}
    {"type":"relation","from":"小明","to":"Hangzhou","relationType":"lives in"}

An entity becomes one pinned short-term memory, so that any of its words finds it and the clean-up leaves it. It has no
times: the memory is dated by the import. A relation becomes a line of the entity it starts from.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import Any

from memory_server.contents import Contents
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.model import ShortTermMemory, without_surrogates
from memory_server.storage import codec

NOTES = (
    "the graph itself: relations become lines of text, and no tool follows them",
    "times: the file has none, so that all memories are dated by the import",
)


def read(data: bytes, usual: str, now_ms: int) -> Incoming:
    """The entities of a file, for the conversation `usual`. Raises NotThisFormat where it holds none."""
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
                found.skipped.append((place, "it is neither an entity nor a relation"))
    if not entities and not relations:
        raise NotThisFormat("holds no entity; give the memory.jsonl of the official memory server.")
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for place, start, kind, goal in relations:
        if start in entities:
            lines[start].append(f"{start} {kind} {goal}")
        else:
            found.skipped.append((place, f"the relation starts from {start}, which is no entity of the file"))
    memories = []
    for name, (kind, observations) in entities.items():
        if observations or lines[name]:
            memories.append(_memory(name, kind, observations + lines[name], usual, now_ms))
        else:
            found.skipped.append((f"entity {name}", "it has no observation and no relation"))
    found.conversations = [Contents(usual, tuple(memories))]
    found.notes += NOTES
    return found


def _rows(found: Incoming, data: bytes) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        if line.strip():
            try:
                rows.append((f"line {number}", codec.loads(line)))
            except ValueError as error:
                found.skipped.append((f"line {number}", f"it is no JSON: {error}"))
    return rows


def _memory(name: str, kind: str, lines: list[str], usual: str, now_ms: int) -> ShortTermMemory:
    title = f"{name} ({kind})" if kind else name
    return ShortTermMemory(
        # The same entity gets the same id each time, so that importing a newer file replaces it.
        id=hashlib.sha256(f"official memory server\n{usual}\n{name}".encode("utf-8", "replace")).hexdigest()[:16],
        time_ms=now_ms,
        text=without_surrogates("\n".join([title, *lines])),
        words=(),
        weights=(),
        score=0.0,
        conversation_id=usual,
        pinned=True,
    )

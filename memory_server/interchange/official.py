"""`memory.jsonl` of the official MCP memory server: entities with observations, and relations between them.

    {"type":"entity","name":"小明","entityType":"person","observations":["likes oolong"]}
    {"type":"relation","from":"小明","to":"Hangzhou","relationType":"lives in"}

An entity becomes one pinned short-term memory, so that any of its words finds it and the clean-up leaves it. It has no
time: the memory is dated by the import. A relation becomes a line of the entity that it starts from. An export makes
the memory an entity again; the other memories of a conversation are the observations of an entity of its name.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable

from memory_server.core import times
from memory_server.core.contents import Contents
from memory_server.core.model import ShortTermMemory, without_surrogates
from memory_server.interchange.incoming import Incoming, NotThisFormat, free_name
from memory_server.storage.json_store import codec

NOTES = (
    "relations become lines of text: no tool follows them",
    "all memories are dated by the import: the file has no times",
)
LOST = (
    "keywords, scores and pins of short-term memories",
    "triggers of long-term memories",
    "relations of imported entities, which become observations",
)
CONVERSATION, LONG_TERM = "conversation", "long-term memory"
_TITLE = re.compile(r"(?P<name>.*?)(?: \((?P<kind>[^()]*)\))?", re.DOTALL)


def write(conversations: Iterable[Contents]) -> bytes:
    """All memories as entities; a name that two of them have is numbered."""
    rows: list[codec.Json] = []
    taken: set[str] = set()

    def add(name: str, kind: str, said: list[str]) -> None:
        rows.append({"type": "entity", "name": free_name(name, taken), "entityType": kind, "observations": said})

    for contents in conversations:
        said: list[str] = []
        for memory in contents.short_term:
            if (title := _title_of(memory)) is None:
                said.append(f"{times.iso(memory.time_ms)[:10]} {memory.text}")
            else:
                add(*title, memory.text.split("\n")[1:])
        for kept in contents.long_term:
            add(kept.name, LONG_TERM, [kept.prompt])
        if said:
            add(contents.conversation_id, CONVERSATION, said)
    return b"".join(codec.dumps(row) + b"\n" for row in rows)


def _title_of(memory: ShortTermMemory) -> tuple[str, str] | None:
    """Name and type of the entity that a memory was imported from; None for another memory."""
    line = memory.text.partition("\n")[0]
    found = _TITLE.fullmatch(line)
    titles = [(found["name"], found["kind"] or "")] if found else []
    return next((one for one in (*titles, (line, "")) if _id(one[0], memory.conversation_id) == memory.id), None)


def read(data: bytes, usual: str, now_ms: int) -> Incoming:
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
                found.skipped.append((place, "it is neither an entity nor a relation"))
    if not entities and not relations:
        raise NotThisFormat("holds no entities; give the memory.jsonl of the official memory server.")
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for place, start, kind, goal in relations:
        if start in entities:
            lines[start].append(f"{start} {kind} {goal}")
        else:
            found.skipped.append((place, f"the relation starts from {start}, which is not an entity of the file"))
    memories = []
    for name, (kind, observations) in entities.items():
        if not (observations or lines[name]):
            found.skipped.append((f"entity {name}", "it has no observation and no relation"))
            continue
        title = f"{name} ({kind})" if kind else name
        memory = ShortTermMemory(
            # The same entity gets the same id each time, so that importing a newer file replaces it.
            id=_id(name, usual),
            time_ms=now_ms,
            text=without_surrogates("\n".join([title, *observations, *lines[name]])),
            words=(),
            weights=(),
            score=0.0,
            conversation_id=usual,
            pinned=True,
        )
        if found.fits(f"entity {name}", memory):
            memories.append(memory)
    found.conversations = [Contents(usual, tuple(memories))]
    found.notes += NOTES
    return found


def _id(name: str, conversation_id: str) -> str:
    text = f"official memory server\n{conversation_id}\n{name}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]

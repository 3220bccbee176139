"""`memory.jsonl` of the official MCP memory server: entities with observations, and relations between them.

    {"type":"entity","name":"小明","entityType":"person","observations":["likes oolong"]}
    {"type":"relation","from":"小明","to":"Hangzhou","relationType":"lives in"}

An entity becomes one pinned short-term memory, so that any of its words finds it and the clean-up leaves it. It has no
times: the memory is dated by the import. A relation becomes a line of the entity it starts from. On the way out such a
memory becomes its entity again; what else a conversation holds becomes the observations of an entity of its name.
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
    "the graph itself: relations become lines of text, and no tool follows them",
    "times: the file has none, so that all memories are dated by the import",
)

LOST = (
    "keywords, scores and pins of short-term memories",
    "triggers of long-term memories",
)
CONVERSATION, LONG_TERM = "conversation", "long-term memory"
_TITLE = re.compile(r"(?P<name>.*?)(?: \((?P<kind>[^()]*)\))?", re.DOTALL)


def write(conversations: Iterable[Contents]) -> bytes:
    """All memories as entities and relations; a name that two of them have is numbered."""
    held = list(conversations)
    graph = [(name, kind, lines) for one in held for name, kind, lines in _entities(one)]
    taken: set[str] = set()
    rows: list[codec.Json] = []
    relations: list[codec.Json] = []
    known = {name for name, _, _ in graph}
    for name, kind, lines in graph:
        goals = [_goal(name, line, known) for line in lines]
        said = [line for line, goal in zip(lines, goals, strict=True) if goal is None]
        rows.append(entity := _entity(taken, name, kind, said))
        for line, goal in zip(lines, goals, strict=True):
            if goal is not None:
                between = line[len(name) + 1 : -len(goal) - 1]
                relations.append({"type": "relation", "from": entity["name"], "to": goal, "relationType": between})
    for one in held:
        rows += [_entity(taken, memory.name, LONG_TERM, [memory.prompt]) for memory in one.long_term]
        spoken = [memory for memory in one.short_term if _own_name(memory) is None]
        if spoken:
            told = [f"{times.iso(memory.time_ms)[:10]} {memory.text}" for memory in spoken]
            rows.append(_entity(taken, one.conversation_id, CONVERSATION, told))
    return b"".join(codec.dumps(row) + b"\n" for row in rows + relations)


def _entities(contents: Contents) -> Iterable[tuple[str, str, list[str]]]:
    for memory in contents.short_term:
        if (title := _own_name(memory)) is not None:
            yield title[0], title[1], memory.text.split("\n")[1:]


def _own_name(memory: ShortTermMemory) -> tuple[str, str] | None:
    """Name and type of the entity that a memory was imported from; None for another memory."""
    line = memory.text.partition("\n")[0]
    found = _TITLE.fullmatch(line)
    for name, kind in [(found["name"], found["kind"] or "")] if found else []:
        if _id(name, memory.conversation_id) == memory.id:
            return name, kind
    return (line, "") if _id(line, memory.conversation_id) == memory.id else None


def _goal(name: str, line: str, known: set[str]) -> str | None:
    """The entity to which `line` relates the entity `name`: the longest that it ends with."""
    if not line.startswith(f"{name} "):
        return None
    goals = (goal for goal in known if line.endswith(f" {goal}") and len(line) > len(name) + len(goal) + 2)
    return max(goals, key=len, default=None)


def _entity(taken: set[str], name: str, kind: str, observations: list[str]) -> codec.Json:
    return {"type": "entity", "name": free_name(name, taken), "entityType": kind, "observations": observations}


def read(data: bytes, usual: str, now_ms: int) -> Incoming:
    """The entities of a file, for the conversation `usual`. Raises NotThisFormat where it holds none."""
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
        memory = _memory(name, kind, observations + lines[name], usual, now_ms)
        memories += [memory] if found.fits(f"entity {name}", memory) else []
    found.conversations = [Contents(usual, tuple(memories))]
    found.notes += NOTES
    return found


def _memory(name: str, kind: str, lines: list[str], usual: str, now_ms: int) -> ShortTermMemory:
    title = f"{name} ({kind})" if kind else name
    return ShortTermMemory(
        # The same entity gets the same id each time, so that importing a newer file replaces it.
        id=_id(name, usual),
        time_ms=now_ms,
        text=without_surrogates("\n".join([title, *lines])),
        words=(),
        weights=(),
        score=0.0,
        conversation_id=usual,
        pinned=True,
    )


def _id(name: str, conversation_id: str) -> str:
    text = f"official memory server\n{conversation_id}\n{name}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]

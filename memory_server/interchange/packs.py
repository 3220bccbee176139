"""Trigger packs: JSON arrays of `{name, prompt, trigger, createdContext?}`, as `trigger-sandbox pack` uses them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory_server.core.contents import Contents
from memory_server.core.model import LongTermMemory
from memory_server.interchange.incoming import Incoming, NotThisFormat, array
from memory_server.storage.json_store import codec
from sandbox.workbench.carrying import Carried
from sandbox.workbench.sources.packs import Memory, memories, pack_text


def write(conversations: Iterable[Contents]) -> bytes:
    """The long-term memories as one pack; a name that two conversations have is numbered."""
    taken: set[str] = set()
    rows: list[Memory] = []
    for contents in conversations:
        for memory in contents.long_term:
            record = codec.long_term_json(memory)
            name, number = memory.name, 2
            while name in taken:
                name, number = f"{memory.name} ({number})", number + 1
            taken.add(name)
            extra = {key: value for key, value in record.items() if key not in ("name", "prompt", "trigger")}
            context = str(extra.pop("createdContext"))
            rows.append(Memory(name, memory.prompt, memory.trigger, context, extra))
    return pack_text(rows).encode()


def read(data: bytes, usual: str) -> Incoming:
    """The memories of a pack, for the conversation `usual`. Raises NotThisFormat."""
    found = Incoming()
    try:
        pack = memories(array(data))
    except NotThisFormat:
        raise
    except ValueError as error:
        raise NotThisFormat(f"cannot be used: {error}.") from error
    found.conversations = [Contents(usual, (), from_pack(found, pack))]
    return found


def take_carried(found: Incoming, carried: Sequence[Carried]) -> list[Memory]:
    """What the workbench carried over; what it left out is skipped, and its losses become notes."""
    taken: list[Memory] = []
    for one in carried:
        if one.memory is None:
            found.skipped.append((one.title, "; ".join(line.removeprefix("left out: ") for line in one.lost)))
        else:
            taken.append(one.memory)
            found.notes += [f"{one.title}: {line}" for line in one.lost]
    return taken


def from_pack(found: Incoming, pack: Iterable[Memory]) -> tuple[LongTermMemory, ...]:
    """Memories of a pack as records; one whose other fields cannot be read is skipped."""
    return found.long_terms(
        (
            memory.name,
            {
                **memory.extra,
                "name": memory.name,
                "prompt": memory.prompt,
                "trigger": memory.trigger,
                "createdContext": memory.created_context,
            },
        )
        for memory in pack
    )

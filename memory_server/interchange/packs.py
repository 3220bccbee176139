"""Trigger packs: JSON arrays of `{name, prompt, trigger, createdContext?}`, as `trigger-sandbox pack` uses them."""

from __future__ import annotations

from collections.abc import Iterable

from memory_server.core.contents import Contents
from memory_server.interchange.incoming import Incoming, NotThisFormat, array, free_name
from memory_server.storage.json_store import codec
from sandbox.workbench.files import Memory, pack_text, usable


def write(conversations: Iterable[Contents]) -> bytes:
    """The long-term memories as one pack; a name that two conversations have is numbered."""
    taken: set[str] = set()
    rows: list[Memory] = []
    for contents in conversations:
        for memory in contents.long_term:
            record = codec.long_term_json(memory)
            name = free_name(memory.name, taken)
            extra = {key: value for key, value in record.items() if key not in ("name", "prompt", "trigger")}
            context = str(extra.pop("createdContext"))
            if not memory.created_ms:
                del extra["createdAt"]  # it has no date
            rows.append(Memory(name, memory.prompt, memory.trigger, context, extra))
    return pack_text(rows).encode()


def read(data: bytes, usual: str) -> Incoming:
    """The memories of a pack, for the conversation `usual`. Raises NotThisFormat."""
    found = Incoming()
    try:
        pack, wrong = usable(array(data))
    except NotThisFormat:
        raise
    except ValueError as error:
        raise NotThisFormat(f"cannot be used: {error}.") from error
    if wrong:
        raise NotThisFormat(f"cannot be used: {wrong[0]}.")
    rows = ((memory.name, _record(memory)) for memory in pack)
    found.conversations = [Contents(usual, (), found.long_terms(rows))]
    return found


def _record(memory: Memory) -> codec.Json:
    texts = {"name": memory.name, "prompt": memory.prompt, "trigger": memory.trigger}
    return {**memory.extra, **texts, "createdContext": memory.created_context}

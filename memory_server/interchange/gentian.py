"""GentianAphrodite's memory folder: one global list of short-term memories with `chat_name`; one of long-term.

The short-term list is split by chat name, because here each conversation has memories of its own. Its long-term
memories are read by the trigger authors' workbench, which knows what of their triggers does not work here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memory_server.core.contents import Contents
from memory_server.interchange.incoming import Incoming, NotThisFormat, array, numbered
from memory_server.interchange.packs import from_pack, take_carried
from memory_server.storage.json_store import codec
from sandbox.workbench import gentian

SHORT_TERM, LONG_TERM = "short-term-memory.json", "long-term-memory.json"
CHAT = "chat_name"


def write(conversations: Iterable[Contents]) -> dict[str, bytes]:
    """Both lists, by file name."""
    short: list[codec.Json] = []
    long: list[codec.Json] = []
    for contents in conversations:
        for memory in contents.short_term:
            record = codec.short_term_json(memory)
            del record["timestamp"]
            record["time_stamp"] = memory.time_ms
            record[CHAT] = contents.conversation_id
            short.append(record)
        long += map(codec.long_term_json, contents.long_term)
    return {SHORT_TERM: codec.dump_array(short), LONG_TERM: codec.dump_array(long)}


def read(files: Mapping[str, bytes], usual: str) -> Incoming:
    """The memories of its folder; long-term memories, which name no chat, go to `usual`. Raises NotThisFormat."""
    found = Incoming()
    if not {SHORT_TERM, LONG_TERM} & set(files):
        raise NotThisFormat(f"holds neither {SHORT_TERM} nor {LONG_TERM}; give the character's memory folder.")
    groups: dict[str, list[tuple[str, Any]]] = {}
    if SHORT_TERM in files:
        for place, row in numbered(array(files[SHORT_TERM]), "short-term memory"):
            chat = row.get(CHAT) if isinstance(row, dict) else None
            if (name := found.conversation_of(chat, usual, place)) is not None:
                groups.setdefault(name, []).append((place, row))
    held = {name: Contents(name, found.short_terms(rows, name)) for name, rows in groups.items()}
    if LONG_TERM in files:
        try:
            carried = gentian.carry(array(files[LONG_TERM]), LONG_TERM)
        except gentian.MemoriesError as error:
            raise NotThisFormat(f"{error}.") from error
        long = from_pack(found, take_carried(found, carried))
        known = held.get(usual, Contents(usual))
        held[usual] = Contents(usual, known.short_term, long)
    found.conversations = list(held.values())
    return found

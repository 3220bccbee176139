"""Snapshots that people edited: what an edit changed, and the copy with which it is compared.

The copy is the snapshot as it was last written. It shows whether an edit removed a memory, or whether the memory came
after the editor was opened. The copy is compressed to a quarter of the snapshot.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from memory_server.core.changes import Added, Change, Edited, Forgotten, TriggerRemoved, TriggerSet
from memory_server.core.model import ConversationState, LongTermMemory, ShortTermMemory
from memory_server.core.undo import merged
from memory_server.storage.json_store.codec import Json
from memory_server.storage.json_store.salvage import Piece
from memory_server.storage.partition import folders

_LEVEL = 1
"""Of zlib: the fastest; the next ones save little of digits that are chance."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A snapshot that cannot be used: its bytes (None: it is missing), the reason, and what can be read of it."""

    data: bytes | None
    reason: str
    records: tuple[Json, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class HandEdit:
    """An edit that is not committed yet: its changes, the hashes of the edited snapshots, and the broken snapshots."""

    changes: tuple[Change, ...]
    hashes: Mapping[str, str | None]
    broken: Mapping[str, Broken]


class Copies:
    """Copies in `folder` of the snapshots as they were last written or read after an edit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, data: bytes) -> None:
        """Keep a copy of the snapshot `name`."""
        folders.replace_file(self._path(name), zlib.compress(data, _LEVEL))

    def read(self, name: str) -> bytes | None:
        """The copy of the snapshot `name`; None if it is missing or cannot be read."""
        unpacking = zlib.decompressobj()
        try:
            data = unpacking.decompress(folders.read_file(self._path(name)), folders.MAX_FILE_BYTES)
        except (FileNotFoundError, folders.FileRefused, zlib.error):
            return None
        # Without `eof` it is cut off, or larger than a snapshot may be.
        return data if unpacking.eof else None

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.zlib"


def short_term_edits(
    base: Iterable[ShortTermMemory], edited: Iterable[ShortTermMemory], now: ConversationState
) -> list[Change]:
    """The changes that an edit of `base` to `edited` means for the conversation as it is now.

    A field that the edit did not change keeps its present value. A memory that the edit removed is forgotten; one that
    came after `base` stays. A score is never lowered: the lower score is that of an editor that was open while memories
    were recalled.
    """
    known, found = {m.id: m for m in base}, {m.id: m for m in edited}
    changes: list[Change] = []
    for memory_id, memory in found.items():
        before, current = known.get(memory_id), now.short_term.get(memory_id)
        if memory == before:
            continue
        if current is None:
            changes.append(Added(memory))
            continue
        wanted = memory if before is None else merged(before, memory, current)
        wanted = replace(wanted, score=max(wanted.score, current.score))
        if wanted != current:
            changes.append(Edited(wanted, current))
    gone = (now.short_term[memory_id] for memory_id in known if memory_id not in found and memory_id in now.short_term)
    return [*changes, *(Forgotten(memory, "hand") for memory in gone)]


def long_term_edits(
    base: Iterable[LongTermMemory], edited: Iterable[LongTermMemory], now: ConversationState
) -> list[Change]:
    """The same for long-term memories, by name; one that the edit changed becomes as the edit has it."""
    known, found = {m.name: m for m in base}, {m.name: m for m in edited}
    changes: list[Change] = [
        TriggerSet(memory, now.long_term.get(name))
        for name, memory in found.items()
        if memory != known.get(name) and memory != now.long_term.get(name)
    ]
    gone = (now.long_term[name] for name in known if name not in found and name in now.long_term)
    return [*changes, *(TriggerRemoved(memory, "hand") for memory in gone)]

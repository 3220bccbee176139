"""Snapshots that people edited: what an edit changed, and the copy with which it is compared.

The copy is the snapshot as it was last written. It shows whether an edit removed a memory, or whether the memory came
after the editor was opened. The copy is compressed to a quarter of the snapshot.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from memory_server.core.changes import Change, putting, removing
from memory_server.core.model import Memory, ShortTermMemory
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


def edits(
    base: Iterable[Memory], edited: Iterable[Memory], now: Mapping[str, Memory], *, removes: bool
) -> list[Change]:
    """The changes that an edit of `base` to `edited` means for the memories of that kind as they are now, by key.

    A memory that came after `base` stays; one that the edit left out is forgotten, if the edit `removes`. A long-term
    memory that the edit changed becomes as the edit has it. Of a short-term memory, a field that the edit did not
    change keeps its present value, and a score is never lowered: the lower score is that of an editor that was open
    while memories were recalled.
    """
    known, found = {memory.key: memory for memory in base}, {memory.key: memory for memory in edited}
    changes: list[Change] = []
    for key, memory in found.items():
        before, current = known.get(key), now.get(key)
        if memory == before:
            continue
        if isinstance(memory, ShortTermMemory) and isinstance(current, ShortTermMemory):
            wanted = merged(before, memory, current) if isinstance(before, ShortTermMemory) else memory
            memory = replace(wanted, score=max(wanted.score, current.score))
        if memory != current:
            changes.append(putting(memory, current))
    if removes:
        changes += (removing(now[key], "hand") for key in known if key not in found and key in now)
    return changes

"""One file of a Markdown folder: its name, why it is not read, and what was read of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count

from memory_server.kernel.folder_names import hashed_name
from memory_server.knowledge.entry import Entry
from memory_server.storage.projects import foreign
from sandbox.locale import _

ARCHIVE, ENDING = "archive/", ".md"
MAX_FILE_BYTES = 1024 * 1024
"""Bytes of a file that is read: an entry has 100,000 characters at most."""


@dataclass(frozen=True, slots=True)
class EntryFile:
    """A file as it was read. `entry` None: it is not an entry, or with a `trouble` cannot be read."""

    seen: tuple[int, int, int]
    settled: bool
    entry: Entry | None = None
    trouble: str | None = None


def unusable(found: os.stat_result, owners: Collection[int] | None) -> str | None:
    """Why a file is not read; None: it is."""
    if (reason := foreign(found, owners)) is not None:
        return _("it {reason}", reason)
    return _("it has more than {file:,} bytes", MAX_FILE_BYTES) if found.st_size > MAX_FILE_BYTES else None


def numbered(key: str, first: int) -> Iterator[str]:
    return (hashed_name(f"{key} {number}") for number in count(first))


def name_of(entry: Entry, stem: str) -> str:
    return f"{'' if entry.archived_ms is None else ARCHIVE}{stem}{ENDING}"

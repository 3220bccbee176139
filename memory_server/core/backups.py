"""Backups as the rest of the program sees them: their names, their facts, and the shelf that keeps them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from memory_server.core.contents import Contents
from memory_server.core.errors import InvalidInput, StorageError

MAX_NAME_BYTES = 120
"""UTF-8 bytes of a backup's name: file systems take 255 for a file, with our ending and room to spare."""

_NAME = re.compile(r"\w(?:[\w.-]*\w)?")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Device names that Windows does not let a file have, whatever follows their first dot."""


class BackupNotFound(InvalidInput):
    """There is no backup of that name."""


class BackupBroken(StorageError):
    """A backup is damaged, cut off or of a newer format; nothing of it was used."""


@dataclass(frozen=True, slots=True)
class Backup:
    """The facts of one backup. `problem`: why it cannot be used, None where its first line can be read."""

    name: str
    created_ms: int
    size_bytes: int
    conversations: int = 0
    short_term: int = 0
    long_term: int = 0
    problem: str | None = None


class BackupWriter(Protocol):
    """A backup that is being written; it cannot be seen before `finish`. Blocking calls."""

    def add(self, contents: Contents) -> None:
        """Write what one conversation holds."""

    def finish(self) -> Backup:
        """Make the backup durable and visible. Raises InvalidInput: another backup took the name meanwhile."""

    def discard(self) -> None:
        """Delete what was written; does nothing after `finish`."""


class BackupShelf(Protocol):
    """Where backups are kept: one place, no paths. Blocking calls; each may raise `StorageError`."""

    def begin(self, name: str, created_ms: int) -> BackupWriter:
        """Begin the backup called `name`. Raises InvalidInput: a backup has that name already."""

    def open(self, name: str) -> AbstractContextManager[tuple[Backup, Iterator[Contents]]]:
        """The facts of a backup and its conversations, one after the other. The whole backup is checked first.

        Raises:
            BackupNotFound: no backup has that name.
            BackupBroken: it is damaged, cut off or of a newer format.
        """

    def knowledge_of(self, name: str) -> Path:
        """Where the knowledge of that backup is, or would be: a file beside it."""

    def listed(self) -> list[Backup]:
        """All backups, newest first; one that cannot be read has a `problem`."""

    def delete(self, name: str) -> None:
        """Delete a backup. Raises BackupNotFound: no backup has that name."""


def backup_name(text: str) -> str:
    """`text` as the name of a backup, in NFC; never a path. Raises InvalidInput: it holds more than letters, digits,
    `_`, `-` and single dots between them, or is too long."""
    name = unicodedata.normalize("NFC", text)
    if not _NAME.fullmatch(name) or ".." in name or _RESERVED.fullmatch(name):
        raise InvalidInput(
            f"`{text}` cannot be the name of a backup; use letters, digits, `_`, `-` and dots between them, such as "
            "`before-move`, and not a path."
        )
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidInput(f"The name of the backup is too long; use at most {MAX_NAME_BYTES} bytes.")
    return name

"""Backups: their facts, their names, and where they are kept."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from languages import Sentence
from memory_server.kernel.errors import InvalidInput, LockTimeout, StorageError
from memory_server.kernel.values import frozen

Mode = Literal["merge", "overwrite"]
"""`merge` adds and replaces older ones; `overwrite` makes the conversation exactly what is brought."""


@frozen
class MergeCounts:
    """How many memories were added, replaced, removed, there already, or kept because the stored memory is newer; and
    how many of the added memories had been forgotten."""

    added: int = 0
    replaced: int = 0
    removed: int = 0
    unchanged: int = 0
    kept_newer: int = 0
    forgotten: int = 0


WAIT_SECONDS = 10.0
"""How long a process waits for another process that finishes, deletes or restores a backup."""
_PAUSE_SECONDS = 0.05
"""The pause between two tries to get the lock on a backup."""
MAX_NAME_BYTES = 120
"""UTF-8 bytes of a backup's name: file systems take 255 for a file, with our ending and room to spare."""


_NAME = re.compile(r"\w(?:[\w.-]*\w)?")


_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Device names that Windows does not let a file have, whatever follows their first dot."""


class BackupNotFound(InvalidInput):
    """No backup has that name."""


class BackupBroken(StorageError):
    """A backup is damaged, cut off or of a newer format; nothing of it was used."""


@frozen
class Backup:
    """The facts about a backup. `problem` says why it cannot be used; it is None where its first line can be read."""

    name: str
    created_ms: int
    size_bytes: int
    conversations: int = 0
    short_term: int = 0
    long_term: int = 0
    problem: str | None = None


def backup_name(text: str) -> str:
    """Return `text` as the name of a backup, in NFC; never a path. Raise InvalidInput if it holds
    more than letters, digits, `_`, `-` and single dots between them, or is too long."""
    name = unicodedata.normalize("NFC", text)
    is_well_formed = _NAME.fullmatch(name) is not None and ".." not in name
    if not is_well_formed or _RESERVED.fullmatch(name):
        raise InvalidInput(
            "`{text}` cannot be the name of a backup; use letters, digits, `_`, `-` and dots between them, "
            "such as `before-move`, and not a path.",
            text,
        )
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidInput(
            "The name of the backup is too long; use at most {name} bytes.", MAX_NAME_BYTES
        )
    return name


def pauses() -> Iterator[float]:
    """Yield the seconds to sleep after each try to get a lock that another process holds. Raise LockTimeout when
    `WAIT_SECONDS` have passed."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        yield _PAUSE_SECONDS
    raise LockTimeout(
        Sentence(
            "Another process finishes, deletes or restores a backup; nothing was changed, try again."
        )
    )


class BackupWriter(Protocol):
    """A backup that is being written; it is not visible before `finish`. Blocking; may raise `StorageError`."""

    def add(self, contents: Any) -> None:
        """Add a conversation."""

    def finish(self) -> Backup:
        """Make the backup durable and visible. Raises InvalidInput: another backup took the name meanwhile."""

    def beside(self) -> Path:
        """Return a path for a copy of the knowledge, which is part of the backup after `finish`."""

    def discard(self) -> None:
        """Remove what was written; does nothing after `finish`."""


class BackupStore(Protocol):
    """Where backups are kept, each under its name. Blocking; every method may raise `StorageError`."""

    def begin(self, name: str, created_ms: int, *, numbered: bool = False) -> BackupWriter:
        """Begin the backup called `name`; `numbered` adds a number if another backup has that name. Raise InvalidInput
        if a backup already has that name."""

    def open(self, name: str) -> AbstractContextManager[tuple[Backup, Iterator[Any]]]:
        """Return the facts of a backup and its conversations. The whole backup is checked first. Raise BackupNotFound,
        or BackupBroken if it is damaged, cut off or of a newer format."""

    def rewrite(self, name: str, change: Callable[[Any], Any]) -> None:
        """Replace each conversation by what `change` makes of it. After a crash the backup is the old one or the new
        one. Raise as `open` does."""

    def try_hold(self, name: str) -> Callable[[], None] | None:
        """Keep other processes from deleting or restoring the backup called `name` until the returned function is
        called. Return None if another process does that now. Does not wait."""

    def knowledge_of(self, name: str) -> Path:
        """Return the path of the knowledge of that backup, which need not exist."""

    def listed(self) -> list[Backup]:
        """Return all backups, newest first. An unreadable backup has a `problem`."""

    def delete(self, name: str) -> None:
        """Delete a backup. Raise BackupNotFound if no backup has that name, and LockTimeout if it is being restored."""

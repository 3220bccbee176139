"""Everything this package raises on purpose.

    MemoryServerError
    ├── InvalidInput              the caller's words are off; nothing was changed
    │   ├── InvalidPattern          a delete pattern that is no expression, or runs too long
    │   ├── NothingToKeep           all that was said is private
    │   └── TriggerRejected         a trigger that cannot work; carries the problems
    ├── MemoryNotFound            no memory of that name or id in that conversation
    ├── ResourceNotFound          no document of that URI; carries the URI
    ├── MemoryPaused              nothing is kept now, because the user said so
    ├── MemoryClosed              used before it was opened or after it was closed
    ├── TriggersUnavailable       no worker can run triggers now
    └── StorageError              the data folder did not do what was asked; carries the path
        ├── LockTimeout             another process held the conversation for too long
        ├── StorageUnwritable       read-only folder, full disk, newer format
        └── SnapshotBroken          a file that cannot be read and may be being saved just now

Each message is one sentence that says what to do next; `tools/` shows it to the model as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox import Problem


class MemoryServerError(Exception):
    """The root of the tree above."""


class InvalidInput(MemoryServerError):
    """An argument, setting or file of the caller's cannot be used; nothing was changed."""


class InvalidPattern(InvalidInput):
    """A pattern to delete by is not a usable expression."""


class NothingToKeep(InvalidInput):
    """All that was said is private, so there is nothing to remember."""


class TriggerRejected(InvalidInput):
    """A trigger that can never work was refused. `problems` hold kind, line, column and caret."""

    def __init__(self, message: str, problems: Sequence[Problem]) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class MemoryNotFound(MemoryServerError):
    """The conversation holds no such memory."""


class ResourceNotFound(MemoryServerError):
    """There is no document at `uri`."""

    def __init__(self, message: str, uri: str) -> None:
        super().__init__(message)
        self.uri = uri


class MemoryPaused(MemoryServerError):
    """The user has paused this memory, so nothing was stored."""


class MemoryClosed(MemoryServerError):
    """An `App` is used outside of its `async with`."""


class TriggersUnavailable(MemoryServerError):
    """The worker that runs triggers could not be started, is busy beyond measure, or was closed."""


class StorageError(MemoryServerError):
    """The data folder did not do what was asked of it."""

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class LockTimeout(StorageError):
    """Another process kept the conversation locked for longer than a writer waits."""


class StorageUnwritable(StorageError):
    """Nothing can be written there now: read-only, full, or of a newer format."""


class SnapshotBroken(StorageError):
    """A snapshot cannot be read, may be being saved, and nothing tells what it held; it was left as it is."""

"""Everything this package raises on purpose.

    MemoryServerError
    ├── InvalidInput: InvalidPattern, NothingToKeep, ReadOnly, TriggerRejected
    ├── MemoryNotFound, ResourceNotFound, MemoryPaused, QuotaReached, MemoryClosed, TriggersUnavailable,
    │   ModelsFailed: TextRefused, RemoteError: NotReached
    └── StorageError: LockTimeout, StorageUnwritable, SnapshotBroken, OutcomeUnknown

Each message is one sentence that says what to do next; `tools/` shows it to the model as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from languages import MessageError, Sentence

if TYPE_CHECKING:
    from sandbox import Problem


class MemoryServerError(MessageError):
    """The root of the tree above."""


class InvalidInput(MemoryServerError):
    """An argument, a setting or a file of the caller cannot be used; nothing was changed."""


class InvalidPattern(InvalidInput):
    """A pattern to delete by is not a usable expression."""


class NothingToKeep(InvalidInput):
    """All messages are private, so there is nothing to remember."""


class ReadOnly(InvalidInput):
    """The setting `read_only`, or a token that only reads, forbids this change."""


class TriggerRejected(InvalidInput):
    """A trigger was refused because it can never work. `problems` hold kind, line, column and caret."""

    def __init__(self, message: str | Sentence, problems: Sequence[Problem]) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class MemoryNotFound(MemoryServerError):
    """The conversation holds no such memory."""


class ResourceNotFound(MemoryServerError):
    """No document exists at `uri`."""

    def __init__(self, message: str, uri: str) -> None:
        super().__init__(message)
        self.uri = uri


class MemoryPaused(MemoryServerError):
    """The user has paused this memory, so nothing was stored."""


class QuotaReached(MemoryServerError):
    """The memories take more room than this tenant may have, so nothing was stored."""


class MemoryClosed(MemoryServerError):
    """An `App` is used outside of its `async with`."""


class TriggersUnavailable(MemoryServerError):
    """The worker that runs triggers could not be started, has too much to do, or was closed."""


class ModelsFailed(MemoryServerError):
    """No language model gave an answer that can be used; the message has the reason of each. `received`: a model got
    the texts all the same."""

    received = False


class TextRefused(ModelsFailed):
    """A model does not take this text; it may take others."""


class RemoteError(MemoryServerError):
    """The linked server refused something; nothing was changed there. `status` is the HTTP status, `kind` the server's."""

    def __init__(self, message: str | Sentence, status: int = 0, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class NotReached(RemoteError):
    """The linked server did not answer, or something else did; the request may or may not have been carried out."""


class StorageError(MemoryServerError):
    """Reading or writing the data folder failed."""

    def __init__(self, message: str | Sentence, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class LockTimeout(StorageError):
    """Another process kept the conversation locked for longer than a writer waits."""


class StorageUnwritable(StorageError):
    """Nothing can be written there now: read-only, full, or of a newer format."""


class OutcomeUnknown(StorageError):
    """The database was lost while it stored a change, and did not come back in time: the change may or may not have
    happened. After every other error of a store, nothing has changed."""


class SnapshotBroken(StorageError):
    """A snapshot cannot be read and no other file has its content. Another program may be saving it: it was not
    touched."""

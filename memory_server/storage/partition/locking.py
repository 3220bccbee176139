"""A lock across processes, on a file of its own. The system releases it when the process that holds it ends.

A waiter tries again after a pause. Knows nothing of memories.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import portalocker

from memory_server.storage.partition.folders import open_descriptor

_NOW = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING


class FileLock:
    """A held lock; `release` gives it back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give the lock back; idempotent, in any thread. Closing the file is enough; unlocking first is faster on some
        systems."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            portalocker.unlock(descriptor)
            os.close(descriptor)


def try_lock(path: Path) -> FileLock | None:
    """The lock on `path` if it is free now, else None; also None if the file was removed meanwhile, as with its folder:
    a lock on a removed file keeps nobody out. Raises OSError if the lock file cannot be opened for writing, or the disk
    does not support locks."""
    descriptor = open_descriptor(path, os.O_RDWR | os.O_CREAT)
    try:
        portalocker.lock(descriptor, _NOW)
    except portalocker.exceptions.AlreadyLocked:
        os.close(descriptor)
        return None
    except portalocker.exceptions.LockException as error:
        os.close(descriptor)
        raise locks_fail(path) from error
    lock = FileLock(descriptor)
    if not _is_at(descriptor, path):
        lock.release()
        return None
    return lock


def locks_fail(path: Path) -> OSError:
    """The error for a disk whose locks fail or keep nobody out."""
    return OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(path))


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether `path` still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False

"""A lock across processes, on a file of its own. The system releases it when its holder dies, so none goes stale.

Waiting is done by the system, not by polling: a waiter that sleeps between tries stalls for hundreds of
milliseconds under load. Knows nothing of memories.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from io import BufferedRandom
from pathlib import Path

import portalocker


class FileLock:
    """A held lock; `release` gives it back."""

    def __init__(self, file: BufferedRandom) -> None:
        self._file = file

    def release(self) -> None:
        """Give the lock back. Closing the file would do; unlocking first is prompt on every system."""
        portalocker.unlock(self._file)
        self._file.close()


def try_lock(path: Path) -> FileLock | None:
    """The lock on `path` if it is free now, else None: also where the file was removed while it was being locked, as
    by somebody who deletes the folder. Such a lock would keep out nobody.

    Raises:
        OSError: the lock file cannot be opened for writing.
    """
    file = _open(path)
    try:
        portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
    except portalocker.exceptions.LockException:
        file.close()
        return None
    lock = FileLock(file)
    if not _is_at(file, path):
        lock.release()
        return None
    return lock


class LockAttempt:
    """One blocking lock call in a thread of its own, which its caller may give up on.

    `on_done` is called in that thread when the call has ended, unless it was given up on.
    """

    def __init__(self, path: Path, on_done: Callable[[], object]) -> None:
        self._path = path
        self._file = _open(path)
        self._on_done = on_done
        self._guard = threading.Lock()
        self._lock: FileLock | None = None
        self._given_up = self._ended = False
        # A daemon, because a blocked lock call cannot be interrupted and must not keep the process alive.
        threading.Thread(target=self._run, name="wait-for-lock", daemon=True).start()

    def take(self) -> FileLock | None:
        """The lock, or None when it has not come; then the attempt is over and a late lock is given back."""
        with self._guard:
            self._given_up = self._lock is None
            return self._lock

    def resume(self, on_done: Callable[[], object]) -> bool:
        """Want the lock after all, in the place this attempt has in the queue; False where it is over already.

        Who gives up and tries again must use this: each further attempt would leave a thread and an open file
        behind for as long as the lock is held.
        """
        with self._guard:
            if not self._ended:
                self._given_up, self._on_done = False, on_done
            return not self._ended

    def _run(self) -> None:
        try:
            portalocker.lock(self._file, portalocker.LockFlags.EXCLUSIVE)
            lock: FileLock | None = FileLock(self._file)
            while not _is_at(self._file, self._path):
                # Removed while we waited: another process may hold the lock on the file that is there now.
                FileLock(self._file).release()
                self._file = _open(self._path)
                portalocker.lock(self._file, portalocker.LockFlags.EXCLUSIVE)
                lock = FileLock(self._file)
        except (portalocker.exceptions.LockException, OSError):
            self._file.close()
            lock = None
        with self._guard:
            self._ended = True
            if not self._given_up:
                self._lock = lock
                self._on_done()
            elif lock is not None:
                lock.release()


def _is_at(file: BufferedRandom, path: Path) -> bool:
    """Whether `path` still names the open `file`."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _open(path: Path) -> BufferedRandom:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    return os.fdopen(descriptor, "r+b")

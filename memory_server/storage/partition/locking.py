"""A lock across processes, on a file of its own. The system releases it when its holder dies, so none goes stale.

Waiting is done by the system, not by polling: a waiter that sleeps between tries stalls for hundreds of
milliseconds under load. Knows nothing of memories.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue

import portalocker

from memory_server.storage.partition.folders import open_descriptor

_NOW = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING
QUEUE = "queue"
"""The name of the file, beside that of the lock, on which those who wait for the lock stand in line."""
_WAITING = portalocker.LockFlags.EXCLUSIVE


class FileLock:
    """A held lock; `release` gives it back. Whoever waited for it holds the queue too, until `call_next`."""

    def __init__(self, descriptor: int, queue: FileLock | None = None) -> None:
        self._descriptor: int | None = descriptor
        self._queue = queue

    def call_next(self) -> None:
        """Let the next one prepare, in any thread; again is harmless. Not before this one has nothing left to compute:
        on a machine with few processors the one who is woken takes the time of the one all wait for."""
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.release()

    def release(self) -> None:
        """Give the lock back, in any thread; again is harmless. Closing the file would do; unlocking first is prompt
        on every system."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            portalocker.unlock(descriptor)
            os.close(descriptor)
        self.call_next()


def try_lock(path: Path) -> FileLock | None:
    """The lock on `path` if it is free now, else None: also where the file was removed while it was being locked, as
    by somebody who deletes the folder. Such a lock would keep out nobody.

    Raises:
        OSError: the lock file cannot be opened for writing, or this disk knows no locks.
    """
    descriptor = _open(path)
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
    """The error for a disk on which files cannot be locked, or a lock keeps nobody out."""
    return OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(path))


class WaitingThreads:
    """Threads for calls that nothing can interrupt. One that is done stays a while for the next call: starting one
    takes as long as a commit."""

    def __init__(self, idle_seconds: float = 10.0) -> None:
        self._idle_seconds = idle_seconds
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._guard = threading.Lock()
        self.idle = 0
        """Threads that have no call."""

    def run(self, call: Callable[[], object]) -> None:
        """Run `call`, which raises nothing, at once: beside others that have not returned."""
        with self._guard:
            if self.idle:
                self.idle -= 1
                self._calls.put(call)
                return
        # A daemon, because a blocked lock call must not keep the process alive.
        threading.Thread(target=self._work, args=(call,), name="wait-for-lock", daemon=True).start()

    def let_go(self) -> None:
        """End the threads that have no call, which they would do by themselves later."""
        with self._guard:
            while self.idle:
                self.idle -= 1
                self._calls.put(None)

    def _work(self, call: Callable[[], object]) -> None:
        following: Callable[[], object] | None = call
        while following is not None:
            following()
            with self._guard:
                self.idle += 1
            try:
                following = self._calls.get(timeout=self._idle_seconds)
            except Empty:
                with self._guard:
                    if self._calls.empty():
                        self.idle -= 1
                        return
                following = self._calls.get()


class LockAttempt:
    """One blocking lock call in a thread of `threads`, which its caller may give up on.

    Who waits stands in a queue, which has a lock of its own on a file beside: the one who holds that is the next.
    `on_next` is called then, to do what can be done before the lock comes; it raises nothing.

    `on_done` is called when the call has ended, unless it was given up on. Both are called in the thread.
    """

    def __init__(
        self, path: Path, threads: WaitingThreads, on_done: Callable[[], object], on_next: Callable[[], object]
    ) -> None:
        self._path = path
        self._descriptor = _open(path)
        self._on_done, self._on_next = on_done, on_next
        self._guard = threading.Lock()
        self._lock: FileLock | None = None
        self._given_up = self._ended = False
        threads.run(self._run)

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
        lock = self._wait_in_queue()
        with self._guard:
            self._ended = True
            if not self._given_up:
                self._lock = lock
                self._on_done()
            elif lock is not None:
                lock.release()

    def _wait_in_queue(self) -> FileLock | None:
        queue = None
        try:
            descriptor = _open(self._path.with_name(QUEUE))
            portalocker.lock(descriptor, _WAITING)
            queue = FileLock(descriptor)
            self._on_next()
        except (portalocker.exceptions.LockException, OSError):
            pass  # then without
        lock = self._wait(queue)
        if lock is None and queue is not None:
            queue.release()
        return lock

    def _wait(self, queue: FileLock | None) -> FileLock | None:
        try:
            while True:
                portalocker.lock(self._descriptor, _WAITING)
                if _is_at(self._descriptor, self._path):
                    return FileLock(self._descriptor, queue)
                # Removed while we waited: another process may hold the lock on the file that is there now.
                FileLock(self._descriptor).release()
                self._descriptor = _open(self._path)
        except portalocker.exceptions.LockException:
            os.close(self._descriptor)
        except OSError:
            pass
        return None


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether `path` still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _open(path: Path) -> int:
    return open_descriptor(path, os.O_RDWR | os.O_CREAT)

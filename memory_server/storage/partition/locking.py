"""A lock across processes, on a file of its own. The system releases it when the process that holds it ends.

The system also does the waiting: polling with pauses would stall for hundreds of milliseconds under load. Knows nothing
of memories.
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
"""The file beside the lock file, which waiters lock to form a queue."""
_WAITING = portalocker.LockFlags.EXCLUSIVE


class FileLock:
    """A held lock; `release` gives it back. A lock that was waited for holds the queue lock too, until `call_next`."""

    def __init__(self, descriptor: int, queue: FileLock | None = None) -> None:
        self._descriptor: int | None = descriptor
        self._queue = queue

    def call_next(self) -> None:
        """Release the queue lock; idempotent, in any thread. Call it when nothing is left to compute: on a machine with
        few processors the next waiter competes for the processor while all others wait for this lock."""
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.release()

    def release(self) -> None:
        """Give the lock back; idempotent, in any thread. Closing the file is enough; unlocking first is faster on some
        systems."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            portalocker.unlock(descriptor)
            os.close(descriptor)
        self.call_next()


def try_lock(path: Path) -> FileLock | None:
    """The lock on `path` if it is free now, else None; also None if the file was removed meanwhile, as with its folder:
    a lock on a removed file keeps nobody out.

    Raises:
        OSError: the lock file cannot be opened for writing, or the disk does not support locks.
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
    """The error for a disk whose locks fail or keep nobody out."""
    return OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(path))


class WaitingThreads:
    """Threads for calls that cannot be interrupted. An idle thread stays a while for the next call: to start a thread
    takes as long as a commit."""

    def __init__(self, idle_seconds: float = 10.0) -> None:
        self._idle_seconds = idle_seconds
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._guard = threading.Lock()
        self.idle = 0
        """Threads without a call."""

    def run(self, call: Callable[[], object]) -> None:
        """Run `call`, which must not raise, at once in another thread."""
        with self._guard:
            if self.idle:
                self.idle -= 1
                self._calls.put(call)
                return
        # A daemon, because a blocked lock call must not keep the process alive.
        threading.Thread(target=self._work, args=(call,), name="wait-for-lock", daemon=True).start()

    def let_go(self) -> None:
        """End the idle threads now."""
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
    """One blocking lock call in a thread of `threads`; its caller may give up.

    Waiters form a queue by a second lock, on a file beside: the holder of the queue lock gets the lock next. Then
    `on_next` is called, to prepare what can be prepared before the lock comes; it must not raise.

    `on_done` is called when the lock call has ended, unless the caller gave up. Both are called in the thread.
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
        """The lock, or None if it has not come; then the attempt is given up, and a late lock is released."""
        with self._guard:
            self._given_up = self._lock is None
            return self._lock

    def resume(self, on_done: Callable[[], object]) -> bool:
        """Take up an attempt that was given up, with its place in the queue; False if its lock call has ended.

        A caller that tries again must use this: a new attempt would occupy a thread and an open file for as long as the
        lock is held.
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
            pass  # then without the queue
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

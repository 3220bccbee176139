"""One open conversation of the JSON store: its state, how far its files are read, and its two locks.

Only the event loop touches states; disk work that may take long runs in threads. Within this process a conversation has
two locks: `writers`, held during a whole update, also while it waits for other processes; and `reading`, held while the
state and the files must agree. While this process holds the lock across processes and has caught up, its state is the
latest, and a reader does not wait.

Others wait while the lock is held, so the thread that made the commit durable gives the lock back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from languages import N_, Sentence, _, in_this_language
from memory_server.conversations.archive import Horizon
from memory_server.conversations.changes import Commit, change_id, replay
from memory_server.conversations.model import ConversationState
from memory_server.conversations.ports import Decide, Result
from memory_server.kernel import files as folders
from memory_server.kernel.errors import LockTimeout, StorageError
from memory_server.kernel.files import FileLock, try_lock
from memory_server.kernel.meter import Meter
from memory_server.kernel.values import dataclass
from memory_server.storage.json_store.conversation_files import ConversationFiles, Position
from memory_server.storage.options import StoreParameters

log = logging.getLogger(__name__)
T = TypeVar("T")
_READ_AT_ONCE = 32_768
"""The bytes of a journal that are read without a thread: reading them (about 1 ms) is faster than handing them over."""
_TRY_AGAIN_SECONDS = 0.001
"""The time that a waiter sleeps before it tries the lock again: about as long as a commit holds it."""


@dataclass(frozen=True, slots=True)
class LockedState:
    """The latest state and its position, under the lock across processes. `release` gives the lock back early, in any
    thread: then others write, and the state is not the latest."""

    state: ConversationState
    position: Position
    release: Callable[[], None]


BEHIND = N_(
    "Every acknowledged write is safe in the journal; only the JSON files for people are not up to date yet."
)


@dataclass(eq=False)
class OpenConversation:
    """The conversation kept in `files`. `background` runs work without a waiting caller."""

    _files: ConversationFiles
    _clock: Callable[[], int]
    _parameters: StoreParameters
    _background: Callable[[Coroutine[Any, Any, None]], object]
    _meter: Meter
    _writers: asyncio.Lock = field(default_factory=asyncio.Lock)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _state: ConversationState | None = None
    _position: Position | None = None
    _latest: bool = False
    _absorbing: bool = False
    has_written: bool = False
    """Whether this process committed something to it."""
    _idle: asyncio.TimerHandle | None = None
    used: float = 0.0
    """The time when it was last asked for, by the monotonic clock."""

    @property
    def folder(self) -> Path:
        return self._files.folder

    @property
    def busy(self) -> bool:
        """Whether it is in use, or will soon be compacted."""
        return (
            self._writers.locked()
            or self._reading.locked()
            or self._absorbing
            or self._idle is not None
        )

    @property
    def small_and_dirty(self) -> bool:
        """Whether its snapshots lack what its journal has, also of another process, and can be written in a moment."""
        position = self._position
        state = self._state
        if position is None or position.header is None or state is None:
            return False
        if self._parameters.read_only or state.version == position.header.base:
            return False
        return (
            self._files.snapshot_size(position) + position.journal_size
            <= self._parameters.small_bytes
        )

    async def read(self) -> ConversationState:
        if self._latest and self._state is not None:
            return self._state
        if not translated(self.folder, self._files.exists):
            return ConversationState(self._files.conversation_id)
        async with self._reading:
            state, position = await self._catch_up()
        if position.pending and not self._absorbing and not self._parameters.read_only:
            self._absorbing = True
            self._background(self._absorb_quietly())
        return state

    async def update(
        self, decide: Decide[Result], *, by: str, at_ms: int, wait_seconds: float
    ) -> tuple[Result, str | None]:
        if not translated(self.folder, self._files.exists):
            # Reading a conversation does not make anything on disk.
            changes, result = decide(ConversationState(self._files.conversation_id))
            if not changes:
                return result, None
        async with self._exclusively(wait_seconds) as locked:
            changes, result = decide(locked.state)
            if not changes:
                return result, None
            commit = Commit(locked.state.version + 1, at_ms, by=by, changes=tuple(changes))
            position = await self._blocking(partial(self._append, locked, commit))
            self._follow(locked.state, [commit], position)
            self.has_written = True
            self._meter.count("storage", "commits")
            self._plan_compaction()
            return result, change_id(self._files.conversation_id, commit.version)

    def _append(self, locked: LockedState, commit: Commit) -> Position:
        """Make a commit durable, and give the lock back; the position after it."""
        try:
            return self._files.append(locked.state, locked.position, commit)
        finally:
            locked.release()

    async def look(self, read: Callable[[ConversationFiles], T]) -> T:
        """Return the result of `read`, which does not change the files."""
        return await self._blocking(lambda: read(self._files))

    async def compact(
        self,
        wait_seconds: float,
        horizon: Horizon | None = None,
        is_needed: Callable[[Position], bool] | None = None,
        erased: Callable[[Any], bool] | None = None,
    ) -> None:
        """Fold the journal, and remove what is beyond `horizon`, and of the past what is `erased`. `is_needed` is
        asked under the lock, because several processes may begin at once."""
        if not translated(self.folder, self._files.exists):
            return

        async with self._exclusively(wait_seconds) as locked:
            if is_needed is not None and not is_needed(locked.position):
                return
            # The state does not change meanwhile: changing it needs the lock that is held here.
            compact = partial(self._files.compact, locked.state, locked.position)
            if erased is not None:
                compact = partial(compact, mend=True)
            self._position = await self._blocking(compact)
            self._meter.count("storage", "compactions")
            if horizon is not None:
                await self._blocking(partial(self._files.past.expire, horizon))
            if erased is not None:
                await self._blocking(partial(self._files.past.erase, erased))
                unusable = locked.state.unusable
                locked.state.unusable = [row for row in unusable if not erased(row.record)]

    def cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    @contextlib.asynccontextmanager
    async def _exclusively(self, wait_seconds: float) -> AsyncIterator[LockedState]:
        """Give the latest state with the right to change it, here and across processes."""
        deadline = time.monotonic() + wait_seconds
        try:
            async with asyncio.timeout(wait_seconds):
                await self._writers.acquire()
        except TimeoutError as error:
            raise self._too_long(wait_seconds) from error

        # The lock of the file follows the lock of this process: one waiter per process tries for it.
        try:
            if not self._files.lock_path.parent.exists():
                # Only this step comes before the lock.
                await self._blocking(lambda: folders.make_folder(self._files.lock_path.parent))

            lock = await self._lock(deadline, wait_seconds)
            release = partial(self._release, lock)
            try:
                async with self._reading:
                    state, position = await self._catch_up()
                    # Another program may have edited a snapshot. The edit is committed first, so the change builds on
                    # it.
                    if position.pending:
                        position = await self._absorb(state, position)
                    self._latest = True
                    yield LockedState(state, position, release)
            finally:
                release()
        finally:
            self._writers.release()

    def _release(self, lock: FileLock) -> None:
        # First: from now on a reader looks at the files, after the readers that use the state have finished.
        self._latest = False
        lock.release()

    async def _absorb(self, state: ConversationState, position: Position) -> Position:
        """Commit what people edited in the snapshots, and mend what is damaged; the position after it."""
        self._state = None  # if a step fails, the next call reads everything again
        absorb = partial(self._files.absorb, state, position, at_ms=self._clock())
        commit, position = await self._blocking(absorb)
        commits = [] if commit is None else [commit]
        self._follow(state, commits, position)
        self.has_written = True
        self._plan_compaction()
        return position

    async def _lock(self, deadline: float, wait_seconds: float) -> FileLock:
        """Take the lock across processes. A waiter tries again and again: a call that blocks would need a thread that
        cannot be ended, and could give the lock to a process whose event loop is busy."""
        path = self._files.lock_path
        lock = translated(self.folder, lambda: try_lock(path))
        if lock is not None:
            return lock
        self._meter.count("storage", "lock_waits")
        while time.monotonic() < deadline:
            await asyncio.sleep(_TRY_AGAIN_SECONDS)
            lock = translated(self.folder, lambda: try_lock(path))
            if lock is not None:
                return lock
        raise self._too_long(wait_seconds)

    async def _absorb_quietly(self) -> None:
        try:
            async with self._exclusively(wait_seconds=1.0):
                pass
        except StorageError as error:
            # The edit is read all the same, and the next writer commits it.
            log.debug("an edit by hand is not committed yet: %s", error)
        finally:
            self._absorbing = False

    async def _catch_up(self) -> tuple[ConversationState, Position]:
        """Bring the state up to the files."""
        if self._state is not None and self._position is not None:
            state = self._state
            position = self._position
            unread_bytes = translated(self.folder, lambda: self._files.unread(position))
            read = partial(self._files.read_since, position)
            # A short read takes less time than a change of threads.
            if unread_bytes < _READ_AT_ONCE:
                news = translated(self.folder, read)
            else:
                news = await self._blocking(read)
            if news is not None:
                commits, new_position = news
                if commits or new_position is not position:
                    self._follow(state, commits, new_position)
                return state, new_position

        # Nothing is known yet, or the files were replaced: read all.
        state, position = await self._blocking(self._files.load)
        self._state = state
        self._position = position
        return state, position

    def _follow(
        self, state: ConversationState, commits: Iterable[Commit], position: Position
    ) -> None:
        """Apply the commits to `state`, which then agrees with the files at `position`."""
        # None meanwhile: if a step fails, the next call reads everything again.
        self._state = None
        replay(state, commits)
        self._state = state
        self._position = position

    def _plan_compaction(self) -> None:
        self.cancel_idle()
        position = self._position
        if position is None:
            return
        if self._outgrown(position):
            self._background(self._compact_quietly(self._outgrown))
        elif self.small_and_dirty:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self._parameters.idle_seconds, self._fell_idle)

    def _fell_idle(self) -> None:
        self._idle = None
        self._background(self._compact_quietly())

    def _outgrown(self, position: Position) -> bool:
        return position.journal_size > max(
            self._files.snapshot_size(position), self._parameters.small_bytes
        )

    async def _compact_quietly(self, is_needed: Callable[[Position], bool] | None = None) -> None:
        try:
            await self.compact(wait_seconds=1.0, is_needed=is_needed)
        except LockTimeout:
            log.debug("compaction put off, another process is writing: %s", self.folder)
        except StorageError as error:
            log.warning("%s %s", error, _(BEHIND))

    async def _blocking(self, call: Callable[[], T]) -> T:
        work = asyncio.get_running_loop().run_in_executor(
            None, in_this_language(translated), self.folder, call
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The thread goes on, and must keep the lock until it ends.
            await asyncio.wait([work])
            raise

    def _too_long(self, wait_seconds: float) -> LockTimeout:
        self._meter.count("storage", "lock_timeouts")
        return LockTimeout(
            Sentence(
                "Another process has been writing the conversation {conversation} for more than {wait_seconds:g} "
                "s; try again, nothing was changed.",
                self._files.conversation_id,
                wait_seconds,
            ),
            self.folder,
        )


def translated(path: Path, call: Callable[[], T]) -> T:
    """`call()`; an error of the system about the disk becomes a sentence for people, which names the file."""
    with folders.unwritable(path):
        return call()

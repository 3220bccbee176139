"""The default `ConversationStore`: a folder of JSON files that several processes may use at once.

All states are touched only on the event loop; the disk is, where it may take long, touched in threads. Within
this process a conversation has two locks: `writers`, held during a whole update, also while waiting for other
processes; and `reading`, held only while the state and the files must stay in step. While this process holds
the lock across processes and has caught up, its state is the latest there is, and a reader need not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from memory_server.archive import KEEP_MS, Archived
from memory_server.changes import Commit, apply
from memory_server.errors import LockTimeout, StorageError, StorageUnwritable
from memory_server.model import ConversationState
from memory_server.ports import HISTORY_PAGE, Decide, Result
from memory_server.storage import folders
from memory_server.storage.conversation_files import ConversationFiles, Position, conversation_id_in
from memory_server.storage.locking import FileLock, LockAttempt, try_lock

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParameters:
    """Numbers of the store, each with its unit; docs/reference/data-folder.md."""

    wait_seconds: float = 10.0
    """How long a writer waits for other writers before it says so and gives up."""
    idle_seconds: float = 3.0
    """Quiet time after which a small conversation is compacted, so that the JSON a person opens is current."""
    small_bytes: int = 1_000_000
    """Snapshots up to this size are compacted when idle; larger ones when the journal outgrows them."""
    keep_ms: int = KEEP_MS
    """Milliseconds for which history and archive are kept."""
    exit_seconds: float = 0.3
    """Time that compaction may take when the store is closed."""


class JsonFileStore:
    """Conversations as JSON files under `data_dir`. See `ports.ConversationStore`.

    Touches the disk first when a conversation is used. `clock` gives milliseconds since 1970 for the commits.
    """

    def __init__(self, data_dir: Path, clock: Callable[[], int], parameters: StoreParameters | None = None) -> None:
        self.data_dir = data_dir
        self._clock = clock
        self._parameters = parameters or StoreParameters()
        self._open: dict[str, _Conversation] = {}
        self._running: set[asyncio.Task[Any]] = set()

    async def update(
        self, conversation_id: str, decide: Decide[Result], *, by: str, wait_seconds: float | None = None
    ) -> Result:
        conversation = self._conversation(conversation_id)
        patience = self._parameters.wait_seconds if wait_seconds is None else wait_seconds
        # In a task of its own: a caller who is cancelled must not leave a commit half-way.
        return await self._finish(conversation.update(decide, by=by, at_ms=self._clock(), patience=patience))

    async def read(self, conversation_id: str) -> ConversationState:
        return await self._conversation(conversation_id).read()

    async def conversations(self) -> list[str]:
        def kept_in(folder: Path) -> str | None:
            try:
                name = conversation_id_in(folder)
            except OSError as error:
                # One folder that may not be read, such as lost+found, must not hide the others.
                log.warning("folder passed over: %s", error)
                return None
            # A copy of a folder, or one beside it, is not where the conversation of that id is kept.
            return name if name is not None and folders.find_folder(self.data_dir, name) == folder else None

        def listed() -> list[str]:
            found = map(kept_in, folders.subfolders(self.data_dir))
            return sorted(name for name in found if name is not None)

        return await asyncio.to_thread(_translated, self.data_dir, listed)

    async def changes_since(self, conversation_id: str, version: int) -> tuple[Commit, ...]:
        return await self._conversation(conversation_id).look(lambda files: files.changes_since(version))

    async def history(
        self, conversation_id: str, *, before: int | None = None, limit: int = HISTORY_PAGE
    ) -> tuple[Commit, ...]:
        return await self._conversation(conversation_id).look(lambda files: files.history(before, limit))

    async def archive(self, conversation_id: str) -> tuple[Archived, ...]:
        return await self._conversation(conversation_id).look(ConversationFiles.archived)

    async def compact(self, conversation_id: str) -> None:
        expired_ms = self._clock() - self._parameters.keep_ms
        conversation = self._conversation(conversation_id)
        await self._finish(conversation.compact(self._parameters.wait_seconds, expired_ms=expired_ms))

    async def aclose(self) -> None:
        while self._running:
            await asyncio.wait(self._running)
        deadline = time.monotonic() + self._parameters.exit_seconds
        conversations = tuple(self._open.values())
        # All of them first: a timer that runs out during the compactions below would start one of its own.
        for conversation in conversations:
            conversation.cancel_idle()
        for conversation in conversations:
            if conversation.small_and_dirty and time.monotonic() < deadline:
                try:
                    await conversation.compact(patience=0.0)
                except StorageError as error:
                    log.warning("not compacted at exit: %s", error)
        self._open.clear()

    def folder(self, conversation_id: str) -> Path:
        """Where a conversation is kept, or would be."""
        return self._conversation(conversation_id).folder

    def _conversation(self, conversation_id: str) -> _Conversation:
        conversation = self._open.get(conversation_id)
        if conversation is None:
            folder = _translated(self.data_dir, lambda: folders.find_folder(self.data_dir, conversation_id))
            files = ConversationFiles(folder, conversation_id)
            conversation = _Conversation(files, self._clock, self._parameters, self._background)
            self._open[conversation_id] = conversation
        return conversation

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.shield(self._task(work))

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        self._task(work)

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("storage work failed: %s", error)


class _Conversation:
    """One open conversation: its state, how far the files are read, and its two locks."""

    def __init__(
        self,
        files: ConversationFiles,
        clock: Callable[[], int],
        parameters: StoreParameters,
        background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._files = files
        self._clock = clock
        self._parameters = parameters
        self._background = background
        self._writers = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._state: ConversationState | None = None
        self._position: Position | None = None
        self._latest = False
        self._absorbing = False
        self._attempt: LockAttempt | None = None
        self._commits_since_compaction = 0
        self._idle: asyncio.TimerHandle | None = None

    @property
    def folder(self) -> Path:
        return self._files.folder

    @property
    def small_and_dirty(self) -> bool:
        position = self._position
        return (
            position is not None
            and self._commits_since_compaction > 0
            and self._files.snapshot_size(position) + position.offset <= self._parameters.small_bytes
        )

    async def read(self) -> ConversationState:
        if self._latest and self._state is not None:
            return self._state
        if not self._exists():
            return ConversationState(self._files.conversation_id)
        async with self._reading:
            state, position = await self._catch_up()
        if position.edit is not None and not self._absorbing:
            self._absorbing = True
            self._background(self._absorb_quietly())
        return state

    async def update(self, decide: Decide[Result], *, by: str, at_ms: int, patience: float) -> Result:
        if not self._exists():
            # Nothing is made on disk for a conversation that is only looked at.
            changes, result = decide(ConversationState(self._files.conversation_id))
            if not changes:
                return result
        if not self._files.lock_path.parent.exists():
            await self._blocking(self._files.make_folder)
        async with self._exclusively(patience) as (state, position):
            changes, result = decide(state)
            if changes:
                reached = await self._blocking(lambda: self._files.append(state, position, changes, at_ms=at_ms, by=by))
                self._follow(state, [Commit(state.version + 1, at_ms, by, tuple(changes))], reached)
                self._commits_since_compaction += 1
                self._plan_compaction(reached)
            return result

    async def look(self, read: Callable[[ConversationFiles], T]) -> T:
        """What `read` finds in the files, which it does not change."""
        return await self._blocking(lambda: read(self._files))

    async def compact(self, patience: float, expired_ms: int | None = None) -> None:
        """Fold the journal, and let go of what happened before `expired_ms`."""
        if not self._exists():
            return
        async with self._exclusively(patience) as (state, position):
            # The state does not change meanwhile: changing it needs the lock that is held here.
            self._position = await self._blocking(lambda: self._files.compact(state, position))
            self._commits_since_compaction = 0
            if expired_ms is not None:
                await self._blocking(lambda: self._files.expire(expired_ms))

    def cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    @contextlib.asynccontextmanager
    async def _exclusively(self, patience: float) -> AsyncIterator[tuple[ConversationState, Position]]:
        """The latest state with the right to change it, here and across processes."""
        deadline = time.monotonic() + patience
        try:
            async with asyncio.timeout(patience):
                await self._writers.acquire()
        except TimeoutError as error:
            raise self._too_long(patience) from error
        try:
            lock = await self._lock(max(0.0, deadline - time.monotonic()), patience)
            try:
                async with self._reading:
                    state, position = await self._catch_up()
                    if position.edit is not None:
                        position = await self._absorb(state, position)
                    self._latest = True
                    yield state, position
            finally:
                self._latest = False
                lock.release()
        finally:
            self._writers.release()

    async def _lock(self, seconds: float, patience: float) -> FileLock:
        path = self._files.lock_path
        lock = _translated(path, lambda: try_lock(path))
        if lock is None and seconds > 0:
            loop, came = asyncio.get_running_loop(), asyncio.Event()

            def done() -> None:
                loop.call_soon_threadsafe(came.set)

            attempt = self._attempt
            if attempt is None or not attempt.resume(done):
                attempt = self._attempt = LockAttempt(path, done)
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await came.wait()
            except BaseException:
                # Cancelled: a lock that came for nobody would be held until the process ends.
                if (late := attempt.take()) is not None:
                    late.release()
                raise
            lock = attempt.take()
        if lock is None:
            raise self._too_long(patience)
        return lock

    async def _absorb(self, state: ConversationState, position: Position) -> Position:
        """Commit what people edited in the snapshots."""
        at_ms = self._clock()
        commit, reached = await self._blocking(lambda: self._files.absorb(state, position, at_ms=at_ms))
        self._follow(state, [] if commit is None else [commit], reached)
        self._commits_since_compaction += 1
        self._plan_compaction(reached)
        return reached

    async def _absorb_quietly(self) -> None:
        try:
            async with self._exclusively(patience=1.0):
                pass
        except StorageError as error:
            # What was edited is read all the same, and told by the next writer.
            log.debug("an edit by hand is not committed yet: %s", error)
        finally:
            self._absorbing = False

    async def _catch_up(self) -> tuple[ConversationState, Position]:
        if self._state is not None and self._position is not None:
            state, position = self._state, self._position
            if _translated(self.folder, lambda: self._files.unchanged(position)):
                return state, position
            news = await self._blocking(lambda: self._files.read_since(position))
            if news is not None:
                commits, reached = news
                self._follow(state, commits, reached)
                return state, reached
        state, position = await self._blocking(self._files.load)
        self._state, self._position = state, position
        return state, position

    def _follow(self, state: ConversationState, commits: Iterable[Commit], reached: Position) -> None:
        """Make what is on disk happen to `state`, which is then where the files are at `reached`."""
        # Forgotten meanwhile: should anything fail in between, the next one reads it all anew.
        self._state = None
        for commit in commits:
            apply(state, commit.changes)
            state.version = commit.version
        self._state, self._position = state, reached

    def _plan_compaction(self, position: Position) -> None:
        self.cancel_idle()
        outgrown = position.offset > max(self._files.snapshot_size(position), self._parameters.small_bytes)
        if outgrown:
            self._background(self._compact_quietly())
        elif self.small_and_dirty:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(
                self._parameters.idle_seconds, lambda: self._background(self._compact_quietly())
            )

    async def _compact_quietly(self) -> None:
        try:
            await self.compact(patience=1.0)
        except StorageError as error:
            log.warning("compaction put off: %s", error)

    def _exists(self) -> bool:
        return _translated(self.folder, self._files.exists)

    async def _blocking(self, call: Callable[[], T]) -> T:
        work = asyncio.get_running_loop().run_in_executor(None, _translated, self.folder, call)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The thread goes on, and the lock must not be given back under it.
            await asyncio.wait([work])
            raise

    def _too_long(self, patience: float) -> LockTimeout:
        return LockTimeout(
            f"Another process has been writing the conversation {self._files.conversation_id} "
            f"for more than {patience:g} s; try again, nothing was changed.",
            self.folder,
        )


def _translated(path: Path, call: Callable[[], T]) -> T:
    """`call()`, with what the system says about the disk turned into a sentence for people."""
    try:
        return call()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "the disk is full; make room and try again"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = "it cannot be written; check its owner and permissions or choose another --data-dir"
        else:
            advice = error.strerror or str(error)
        raise StorageUnwritable(f"Nothing was changed in {path}: {advice}.", path) from error

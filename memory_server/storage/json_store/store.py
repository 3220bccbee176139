"""The default `ConversationStore`: a folder of JSON files that several processes may use at once.

A conversation is opened when it is used, and leaves memory when it is idle or too many are open (`OpenConversation`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import field
from errno import EEXIST, ENOTEMPTY
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from languages import N_, Sentence, _, in_this_language
from memory_server.conversations.archive import ArchivedMemory, Horizon
from memory_server.conversations.changes import Commit, change_id, replay
from memory_server.conversations.model import ConversationState
from memory_server.conversations.ports import Decide, Result
from memory_server.kernel import files as folders
from memory_server.kernel.errors import LockTimeout, StorageError
from memory_server.kernel.files import FileLock, FolderNames, find_folder, subfolders, try_lock
from memory_server.kernel.lifecycle import HISTORY_PAGE
from memory_server.kernel.meter import Meter
from memory_server.kernel.values import dataclass, frozen
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.conversation_files import (
    ConversationFiles,
    Position,
    conversation_id_in,
)
from memory_server.storage.open_ones import OpenOnes
from memory_server.storage.options import StoreParameters

T = TypeVar("T")
# --- an open conversation ----------------------------------------------------------------------------------------

# One open conversation of the JSON store: its state, how far its files are read, and its two locks.
#
# Only the event loop touches states; disk work that may take long runs in threads. Within this process a conversation
# has two locks: `writers`, held during a whole update, also while it waits for other processes; and `reading`, held
# while the state and the files must agree. While this process holds the lock across processes and has caught up, its
# state is the latest, and a reader does not wait.
#
# Others wait while the lock is held, so the thread that made the commit durable gives the lock back.

_READ_AT_ONCE = 32_768
"""The bytes of a journal that are read without a thread: reading them (about 1 ms) is faster than handing them over."""
_GRAMS_SECONDS = 3.0
"""The time after which the pairs of characters of a conversation are stored: the first calls come before."""
_TRY_AGAIN_SECONDS = 0.001
"""The time that a waiter sleeps before it tries the lock again: about as long as a commit holds it."""


@frozen
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
    _storing: asyncio.TimerHandle | None = None
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
            or self._storing is not None
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
        """Return the state by the files. What people edited there counts, and is committed later, in the background.
        Raises StorageError."""
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
        """Decide under the lock, append the commit, and return the result with the id of the change
        (None without changes). For a conversation without files `decide` is first called without
        the lock. Raises LockTimeout after `wait_seconds`, StorageUnwritable if the commit cannot be
        written."""
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
            position = await self._in_thread(partial(self._append, locked, commit))
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
        return await self._in_thread(partial(read, self._files))

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
            self._position = await self._in_thread(compact)
            self._meter.count("storage", "compactions")
            if horizon is not None:
                await self._in_thread(partial(self._files.past.expire, horizon))
            if erased is not None:
                await self._in_thread(partial(self._files.past.erase, erased))
                unusable = locked.state.unusable
                locked.state.unusable = [row for row in unusable if not erased(row.record)]

    def cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def cancel_storing(self) -> None:
        if self._storing is not None:
            self._storing.cancel()
            self._storing = None

    def read_grams(self) -> bytes | None:
        """Read the file of pairs of characters; blocking. Return None if it is missing or cannot be read."""
        try:
            return folders.read_if_there(self._files.grams_path)
        except OSError:
            return None

    def write_grams_later(
        self, content_of: Callable[[ConversationState], Callable[[], bytes] | None]
    ) -> None:
        """Write the file of pairs of characters when the first calls are over. `content_of` returns None if the file
        stays as it is; it is asked again under the lock, because a memory may be removed meanwhile."""

        async def write() -> None:
            try:
                content = content_of(await self.read())
                if content is None:
                    return
                data = await self._in_thread(content)
                path = self._files.grams_path
                async with self._exclusively(wait_seconds=1.0) as locked:
                    if content_of(locked.state) is not None:
                        await self._in_thread(lambda: folders.replace_file(path, data))
            except StorageError as error:
                log.debug("the pairs of characters are not stored: %s", error)

        def begin() -> None:
            self._storing = None
            # Only reading a conversation does not make anything on disk.
            if self._files.lock_path.exists():
                self._background(write())

        if not self._parameters.read_only:
            self.cancel_storing()
            self._storing = asyncio.get_running_loop().call_later(_GRAMS_SECONDS, begin)

    @contextlib.asynccontextmanager
    async def _exclusively(self, wait_seconds: float) -> AsyncIterator[LockedState]:
        """Yield the latest state with the right to change it, in this process and across processes.
        Raises LockTimeout after `wait_seconds`, StorageError if the files cannot be read or
        written."""
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
                await self._in_thread(lambda: folders.make_folder(self._files.lock_path.parent))

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
        """Commit what people edited in the snapshots, mend what is damaged, and return the position after it."""
        self._state = None  # if a step fails, the next call reads everything again
        absorb = partial(self._files.absorb, state, position, at_ms=self._clock())
        commit, position = await self._in_thread(absorb)
        commits = [] if commit is None else [commit]
        self._follow(state, commits, position)
        self.has_written = True
        self._plan_compaction()
        return position

    async def _lock(self, deadline: float, wait_seconds: float) -> FileLock:
        """Take the lock across processes, and try again until `deadline`: a call that blocks would
        need a thread that cannot be ended, and could give the lock to a process whose event loop is
        busy. Raises LockTimeout at the deadline."""
        path = self._files.lock_path
        lock = translated(self.folder, partial(try_lock, path))
        if lock is not None:
            return lock
        self._meter.count("storage", "lock_waits")
        while time.monotonic() < deadline:
            await asyncio.sleep(_TRY_AGAIN_SECONDS)
            lock = translated(self.folder, partial(try_lock, path))
            if lock is not None:
                return lock
        raise self._too_long(wait_seconds)

    async def _absorb_quietly(self) -> None:
        """Commit what people edited, which taking the lock does; if that fails, leave it to the next writer."""
        try:
            async with self._exclusively(wait_seconds=1.0):
                pass
        except StorageError as error:
            # The edit is read all the same, and the next writer commits it.
            log.debug("an edit by hand is not committed yet: %s", error)
        finally:
            self._absorbing = False

    async def _catch_up(self) -> tuple[ConversationState, Position]:
        """Bring the state up to the files, and return it with the position: read only what is new,
        or all if nothing is known or the files were replaced. Raises StorageError."""
        if self._state is not None and self._position is not None:
            state = self._state
            position = self._position
            unread_bytes = translated(self.folder, partial(self._files.unread, position))
            read = partial(self._files.read_since, position)
            # A short read takes less time than a change of threads.
            if unread_bytes < _READ_AT_ONCE:
                news = translated(self.folder, read)
            else:
                news = await self._in_thread(read)
            if news is not None:
                commits, new_position = news
                if commits or new_position is not position:
                    self._follow(state, commits, new_position)
                return state, new_position

        # Nothing is known yet, or the files were replaced: read all.
        state, position = await self._in_thread(self._files.load)
        state.grams_file = self
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
        """Compact now, in the background, if the journal has outgrown the snapshots; after some idle seconds if the
        conversation is small and has changed."""
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
        """Tell whether the journal is larger than the snapshots, and not small."""
        return position.journal_size > max(
            self._files.snapshot_size(position), self._parameters.small_bytes
        )

    async def _compact_quietly(self, is_needed: Callable[[Position], bool] | None = None) -> None:
        """Fold the journal if that is needed; log an error, and leave it for later if another process writes."""
        try:
            await self.compact(wait_seconds=1.0, is_needed=is_needed)
        except LockTimeout:
            log.debug("compaction put off, another process is writing: %s", self.folder)
        except StorageError as error:
            log.warning("%s %s", error, _(BEHIND))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """Return the result of `call`, which runs in a thread. A caller that is cancelled waits for its end all the same.
        Raises StorageError in place of OSError."""
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
        """Count a lock that was not free in time, and return the error that says so."""
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
    """Return the result of `call`. Raises StorageError, which names the file, in place of an
    OSError."""
    with folders.unwritable(path):
        return call()


log = logging.getLogger(__name__)


# --- the store ---------------------------------------------------------------------------------------------------


class JsonFileStore:
    """Conversations as JSON files under `data_dir`. See `ports.ConversationStore`. Touches the disk first when a
    conversation is used. `clock` gives milliseconds since 1970 for the commits."""

    def __init__(
        self,
        data_dir: Path,
        clock: Callable[[], int],
        parameters: StoreParameters | None = None,
        meter: Meter | None = None,
    ) -> None:
        """Keep what is given, and begin the figures of the meter. Nothing on disk is read or
        written."""
        self.data_dir = data_dir
        self._clock = clock
        self._parameters = parameters or StoreParameters()
        self._meter = meter or Meter()
        self._meter.expect("storage", "commits", "compactions", "lock_waits", "lock_timeouts")
        self._meter.expect("storage", "failed_reads", "failed_writes")
        self._meter.gauge("storage", "open_conversations", lambda: len(self._open))
        self._open = OpenOnes(self._opened, self._parameters)

    async def update(
        self,
        conversation_id: str,
        decide: Decide[Result],
        *,
        by: str,
        wait_seconds: float | None = None,
    ) -> tuple[Result, str | None]:
        """Decide and commit under the lock of the conversation. Raises LockTimeout after
        `wait_seconds` (by default of the parameters), StorageUnwritable if it cannot be written or
        the store is read-only."""
        conversation = self._open.use(conversation_id)
        wait = self._parameters.wait_seconds if wait_seconds is None else wait_seconds

        def commit(decide: Decide[Result]) -> Coroutine[Any, Any, tuple[Result, str | None]]:
            return conversation.update(decide, by=by, at_ms=self._clock(), wait_seconds=wait)

        return await self._open.decided(decide, conversation.read, commit)

    async def read(self, conversation_id: str) -> ConversationState:
        return await self._open.use(conversation_id).read()

    async def conversations(self) -> list[str]:
        return await asyncio.to_thread(translated, self.data_dir, self._conversation_ids)

    def _conversation_ids(self) -> list[str]:
        """Return the ids of all conversations, sorted. Folders that cannot be read, and copies of
        folders, are left out. Raises OSError if the data folder cannot be read."""
        conversation_folders = subfolders(self.data_dir)
        names = FolderNames(folder.name for folder in conversation_folders)
        conversation_ids = []
        for folder in conversation_folders:
            try:
                conversation_id = conversation_id_in(folder)
            except OSError as error:
                # One folder without permission to read, such as lost+found, must not hide the others.
                log.warning("folder passed over: %s", error)
                continue
            # A copy of a folder is not where the conversation is kept.
            if conversation_id is not None and names.of(conversation_id) == folder.name:
                conversation_ids.append(conversation_id)
        return sorted(conversation_ids)

    async def history(
        self,
        conversation_id: str,
        *,
        before: int | None = None,
        limit: int = HISTORY_PAGE,
        most_changes: int | None = None,
    ) -> tuple[Commit, ...]:
        return await self._open.use(conversation_id).look(
            lambda files: files.past.history(before, limit, most_changes)
        )

    async def archive(
        self, conversation_id: str, *, newest: int | None = None
    ) -> tuple[ArchivedMemory, ...]:
        return await self._open.use(conversation_id).look(lambda files: files.past.archived(newest))

    async def damaged(self, conversation_id: str) -> int:
        """Count the lines of `set-aside.jsonl`: unreadable pieces that were set aside, without unfinished writes.
        Damage that no write has met yet does not count. Raises StorageError."""
        conversation = self._open.use(conversation_id)
        set_aside = conversation.folder / folders.PRIVATE / past.SET_ASIDE
        if not translated(
            set_aside, set_aside.exists
        ):  # as almost always: then no thread is needed
            return 0
        return await conversation.look(ConversationFiles.damaged)

    async def compact(
        self,
        conversation_id: str,
        *,
        now_ms: int | None = None,
        erased: Callable[[Any], bool] | None = None,
    ) -> None:
        """Fold the journal of a conversation into its snapshots, and delete what is no longer kept
        at `now_ms` (by default now) or is `erased`. Do nothing if the store is read-only. Raises
        LockTimeout, StorageUnwritable."""
        if self._parameters.read_only:
            return
        if now_ms is None:
            now_ms = self._clock()
        horizon = Horizon(now_ms - self._parameters.keep_ms, now_ms)
        conversation = self._open.use(conversation_id)
        compaction = conversation.compact(self._parameters.wait_seconds, horizon, erased=erased)
        await asyncio.shield(self._open.begin(compaction))

    async def larger(self, than: int) -> list[str]:
        return await self.conversations()  # each file has to be opened to know

    async def expire(self, now_ms: int) -> None:
        """Do nothing: only compacting each conversation would delete more."""

    async def adopt(
        self, conversation_id: str, state: ConversationState, commits: Sequence[Commit]
    ) -> bool:
        """Write a conversation of another store in a new folder, all at once. Return False, and
        write nothing, if the folder exists. Raises StorageError if it cannot be written."""
        folder = self.folder(conversation_id)

        def adopt() -> bool:
            """Write the files beside the folder, and rename them into it. Return False if it
            exists."""
            private = self.data_dir / folders.PRIVATE
            folders.make_folder(private)
            with tempfile.TemporaryDirectory(dir=private) as aside:
                files = ConversationFiles(Path(aside) / "adopted", conversation_id)
                files.adopt(state, commits, self._clock())
                try:
                    files.folder.rename(folder)  # all at once
                except OSError as error:
                    if error.errno in (ENOTEMPTY, EEXIST) or folder.exists():
                        return False
                    raise
                folders.sync_folder(self.data_dir)
            return True

        return await asyncio.to_thread(translated, self.data_dir, adopt)

    async def aclose(self) -> None:
        """Finish what runs in the background, and compact small conversations, for `exit_seconds` at most."""
        await self._open.finish()
        deadline = time.monotonic() + self._parameters.exit_seconds
        conversations = tuple(self._open.values())
        # All timers first: a timer that ends during the compactions below would start another compaction.
        for conversation in conversations:
            conversation.cancel_idle()
            conversation.cancel_storing()
        for conversation in conversations:
            if conversation.small_and_dirty and time.monotonic() < deadline:
                await self._compact_at_exit(conversation)
        self._open.clear()

    async def _compact_at_exit(self, conversation: OpenConversation) -> None:
        """Fold its journal into its snapshots, also where another process was killed before it could."""
        try:
            await conversation.compact(wait_seconds=0.0)
        except LockTimeout:
            # Another client's server is writing it, and will compact it.
            log.debug("left for another process to compact: %s", conversation.folder)
        except StorageError as error:
            # Who only read need not be told that nothing can be written here.
            level = logging.WARNING if conversation.has_written else logging.DEBUG
            log.log(level, "%s %s", error, _(BEHIND))

    def folder(self, conversation_id: str) -> Path:
        """Return the folder in which a conversation is kept, or would be."""
        return translated(self.data_dir, lambda: find_folder(self.data_dir, conversation_id))

    def _opened(self, conversation_id: str) -> OpenConversation:
        """Make an open conversation, of which nothing is read yet."""
        files = ConversationFiles(self.folder(conversation_id), conversation_id)
        return OpenConversation(
            files,
            self._clock,
            _parameters=self._parameters,
            _background=self._background,
            _meter=self._meter,
        )

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        self._open.begin(work)

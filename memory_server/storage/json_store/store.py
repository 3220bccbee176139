"""The default `ConversationStore`: a folder of JSON files that several processes may use at once.

A conversation is opened when it is used, and leaves memory when it is idle or too many are open (open_conversation.py).
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from errno import EEXIST, ENOTEMPTY
from pathlib import Path
from typing import Any

from languages import _
from memory_server.conversations.archive import Archived, Horizon
from memory_server.conversations.changes import Commit
from memory_server.conversations.model import ConversationState
from memory_server.conversations.ports import Decide, Result
from memory_server.kernel import files as folders
from memory_server.kernel.errors import LockTimeout, StorageError
from memory_server.kernel.folder_names import FolderNames, find_folder, subfolders
from memory_server.kernel.lifecycle import HISTORY_PAGE
from memory_server.kernel.meter import Meter
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.conversation_files import (
    ConversationFiles,
    conversation_id_in,
)
from memory_server.storage.json_store.open_conversation import BEHIND, OpenConversation, translated
from memory_server.storage.open_ones import OpenOnes
from memory_server.storage.options import StoreParameters

__all__ = ["JsonFileStore", "StoreParameters"]

log = logging.getLogger(__name__)


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
    ) -> tuple[Archived, ...]:
        return await self._open.use(conversation_id).look(lambda files: files.past.archived(newest))

    async def damaged(self, conversation_id: str) -> int:
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
        folder = self.folder(conversation_id)

        def adopt() -> bool:
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
        await self._open.finish()
        deadline = time.monotonic() + self._parameters.exit_seconds
        conversations = tuple(self._open.values())
        # All timers first: a timer that ends during the compactions below would start another compaction.
        for conversation in conversations:
            conversation.cancel_idle()
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

"""Back up both engines while others write, and restore backups as ordinary changes.

Each conversation is copied at one moment, one after the other, and then the knowledge. A restore goes through the
stores, so it is in the history, and so is what it replaces or removes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from languages import _
from memory_server.conversations.model import conversation_id_of, texts_of
from memory_server.kernel import times
from memory_server.kernel.backups import Backup, BackupStore, Mode, backup_name, pauses
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.lifecycle import Lifecycle, RestoredPlace
from memory_server.kernel.values import frozen


@frozen
class BackupResult:
    """A new backup. `left_out` has a sentence for each conversation, or for the knowledge, that cannot be read."""

    backup: Backup
    left_out: tuple[str, ...]
    entries: int = 0
    """Notes and other entries of knowledge."""


class Backups:
    """Makes backups of what `engines` keep, and stores them in `store`. `clock` gives milliseconds since 1970."""

    def __init__(
        self, engines: Sequence[Lifecycle], clock: Callable[[], int], store: BackupStore
    ) -> None:
        self._engines = engines
        self._clock = clock
        self._store = store

    async def make(
        self,
        name: str | None = None,
        *,
        only: str | None = None,
        advance: Callable[[], None] = lambda: None,
    ) -> BackupResult:
        """Back up everything, or `only` one conversation, and call `advance` after each place. Without a name, the
        backup is named after the time: `20260503-120000`. Raises InvalidInput if the name cannot be used or is in
        use, or if there is nothing to back up; StorageError if the backup could not be written: then no part of it
        was kept."""
        if only is None:
            engines = self._engines
            conversation_id = None
        else:
            # Knowledge does not belong to a conversation.
            engines = [engine for engine in self._engines if engine.keeps == "conversations"]
            conversation_id = conversation_id_of(only)

        now_ms = self._clock()
        chosen_name = f"{times.moment_of(now_ms):%Y%m%d-%H%M%S}"
        if name is not None:
            chosen_name = backup_name(name)

        if not await _holds_something(engines, conversation_id):
            where = "" if only is None else _(" in the conversation {only}", only)
            raise InvalidInput("There is nothing to back up: nothing is stored{where} yet.", where)
        # Two backups may begin in the same second: then the second name gets a number.
        begin = partial(self._store.begin, chosen_name, now_ms, numbered=name is None)
        writer = await asyncio.to_thread(begin)

        try:
            entry_count = 0
            left_out: list[str] = []
            for engine in engines:
                copied = await engine.copy_to(writer, conversation_id, advance)
                entry_count += copied.entries
                left_out += copied.left_out
            backup = await asyncio.to_thread(writer.finish)
        finally:
            await asyncio.to_thread(writer.discard)  # does nothing after `finish`
        return BackupResult(backup, tuple(left_out), entry_count)

    async def restore(
        self,
        name: str,
        mode: Mode = "merge",
        *,
        dry_run: bool = False,
        only: str | None = None,
        by: str = "restore",
        advance: Callable[[], None] = lambda: None,
    ) -> list[RestoredPlace]:
        """Bring back what a backup holds, or `only` one conversation of it, and call `advance` after each
        conversation; with `dry_run` only say what would change. What is not in the backup stays as it is. The backup
        is checked before anything changes. Raises BackupNotFound, BackupBroken; InvalidInput if it does not hold the
        conversation `only`; LockTimeout if another process restores or deletes it; StorageError if a conversation
        could not be written: the message says how many were restored before it."""
        restored_places: list[RestoredPlace] = []

        # A dry run only reads, so it need not wait for another process.
        release = None if dry_run else await self._hold(name)
        try:
            for engine in self._engines[
                1:
            ]:  # the first one checks its part before it changes anything
                await engine.check_backup(self._store, name, only)

            for engine in self._engines:
                async for restored in engine.restore(
                    self._store, name, mode, dry_run=dry_run, only=only, by=by
                ):
                    restored_places.append(restored)
                    if restored.keeps == "conversations":
                        advance()
        finally:
            if release is not None:
                release()
        return restored_places

    async def _hold(self, name: str) -> Callable[[], None]:
        """Lock a backup and return the call that releases it. The lock is tried repeatedly, without a thread: a
        thread that waits would get the lock even after a cancellation, and it would never be released. Raises
        LockTimeout if another process keeps it too long."""
        waiting_seconds = pauses()
        while True:
            release = self._store.try_hold(name)
            if release is not None:
                return release
            await asyncio.sleep(next(waiting_seconds))

    async def listed(self) -> list[Backup]:
        """List all backups, newest first."""
        return await asyncio.to_thread(self._store.listed)

    async def texts(self, name: str) -> set[str]:
        """Return the texts of all memories in the backup called `name`. Raises BackupNotFound; BackupBroken."""

        def read() -> set[str]:
            texts: set[str] = set()
            with self._store.open(name) as (_backup, conversations):
                for contents in conversations:
                    for memory in (*contents.short_term, *contents.long_term):
                        texts.update(texts_of(memory))
            return texts

        return await asyncio.to_thread(read)

    async def erase(self, name: str, erasure: Erasure) -> None:
        """Remove what is erased for good from the backup called `name`. Raises BackupNotFound; StorageError if a part
        of it is damaged: then nothing was changed."""
        release = await self._hold(name)
        try:
            for engine in self._engines:
                await engine.check_backup(self._store, name, None)
            for engine in self._engines:
                await engine.erase_in(self._store, name, erasure)
        finally:
            release()

    async def delete(self, name: str) -> None:
        """Delete the backup called `name`. Raises BackupNotFound."""
        await asyncio.to_thread(self._store.delete, name)


async def _holds_something(engines: Sequence[Lifecycle], conversation_id: str | None) -> bool:
    """Return whether the engines have any place, or the named conversation."""
    for engine in engines:
        try:
            places = await engine.places()
        except (
            StorageError
        ):  # an engine that cannot be read holds something, which `copy_to` then names
            places = [engine.keeps]
        if places and conversation_id in (None, *places):
            return True
    return False

"""Backups of conversations: made while others write, and restored as ordinary changes.

Each conversation is copied at one moment, one conversation after the other. A restore goes through the store, so it is
in the journal, and what it replaces or removes stays in the history.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_server.core import times
from memory_server.core.archive import archived_ids
from memory_server.core.changes import Change
from memory_server.core.contents import Backup, Contents, MergeCounts, Mode, backup_name, contents_of, restore_changes
from memory_server.core.errors import InvalidInput, StorageError, StorageUnwritable
from memory_server.core.model import ConversationState, conversation_id_of
from memory_server.core.ports import BackupStore
from memory_server.managers.services import Done, Services

if TYPE_CHECKING:
    from memory_server.knowledge.family import Knowledge

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackupMade:
    """A backup was made. `left_out`: a sentence for each conversation that could not be read."""

    backup: Backup
    left_out: tuple[str, ...]
    entries: int = 0
    """Notes and other entries of knowledge."""


@dataclass(frozen=True, slots=True)
class RestoredConversation(Done):
    """What a restore changed in one conversation, or would change. `left_out` names each memory that is too large to be
    stored, and why."""

    conversation_id: str
    counts: MergeCounts
    left_out: tuple[str, ...] = ()


class Backups:
    """Makes backups of what `around.store` holds and keeps them on `shelf`."""

    def __init__(self, around: Services, shelf: BackupStore, knowledge: Knowledge | None = None) -> None:
        self._services, self._shelf, self._knowledge = around, shelf, knowledge

    async def make(
        self, name: str | None = None, *, only: str | None = None, advance: Callable[[], None] = lambda: None
    ) -> BackupMade:
        """Back up every conversation, or `only` one, and call `advance` after each. Without a name, its name is the
        time: `20260503-120000`. Raises InvalidInput: the name cannot be used or is taken, or there is nothing to back
        up; StorageError: it could not be written; no part of it was kept."""
        now_ms = self._services.clock()
        chosen = await asyncio.to_thread(self._free_name, now_ms) if name is None else backup_name(name)
        ids = await self._services.store.conversations()
        if only is not None:
            ids = [known for known in ids if known == conversation_id_of(only)]
        kept = {} if only is not None or self._knowledge is None else await self._knowledge.overview()
        entries = sum(figures.count + figures.archived for figures in kept.values())
        if not ids and not entries:
            where = "" if only is None else f" in the conversation {only}"
            raise InvalidInput(f"There is nothing to back up: nothing is stored{where} yet.")
        left_out: list[str] = []
        writer = await asyncio.to_thread(self._shelf.begin, chosen, now_ms)
        try:
            for conversation_id in ids:
                try:
                    contents = contents_of(await self._services.store.read(conversation_id))
                except StorageError as error:
                    # A broken conversation must not prevent a backup of the others, and the user must hear of it.
                    log.warning("left out of the backup: %s", error)
                    left_out.append(str(error))
                else:
                    await asyncio.to_thread(writer.add, contents)
                advance()
            beside = self._shelf.knowledge_of(chosen)
            if entries and self._knowledge is not None:
                await asyncio.to_thread(beside.unlink, missing_ok=True)  # of a backup that was never finished
                await self._knowledge.store.copy_to(beside)
            return BackupMade(await asyncio.to_thread(writer.finish), tuple(left_out), entries)
        finally:
            await asyncio.to_thread(writer.discard)

    async def restore(
        self,
        name: str,
        mode: Mode = "merge",
        *,
        dry_run: bool = False,
        only: str | None = None,
        by: str = "restore",
        advance: Callable[[], None] = lambda: None,
    ) -> list[RestoredConversation]:
        """Bring back the conversations of a backup, or `only` one; with `dry_run` only say what that would change.
        Conversations that are not in the backup stay as they are. The backup is checked before anything changes. Raises
        BackupNotFound, BackupBroken; InvalidInput: it does not hold the conversation `only`; StorageError: one could
        not be written; the message says how many were restored before it."""
        wanted = None if only is None else conversation_id_of(only)
        opened = self._shelf.open(name)
        _, conversations = await asyncio.to_thread(opened.__enter__)
        done: list[RestoredConversation] = []
        try:
            while (contents := await asyncio.to_thread(next, conversations, None)) is not None:
                if wanted in (None, contents.conversation_id):
                    done.append(await self._restore_one(contents, mode, dry_run, by, done))
                advance()
        finally:
            await asyncio.to_thread(opened.__exit__, None, None, None)
        if wanted is not None and not done:
            raise InvalidInput(
                f"The backup {name} does not hold the conversation {wanted}; leave conversation_id out to see all."
            )
        return done

    async def restore_knowledge(
        self, name: str, mode: Mode = "merge", *, dry_run: bool = False, by: str = "restore"
    ) -> int | None:
        """Bring back the knowledge of a backup; how many entries came, or would. None: it holds none. Raises
        StorageError: it cannot be used; nothing was changed."""
        beside = self._shelf.knowledge_of(name)
        if self._knowledge is None or not await asyncio.to_thread(beside.exists):
            return None
        return await self._knowledge.restore(beside, overwrite=mode == "overwrite", dry_run=dry_run, by=by)

    async def listed(self) -> list[Backup]:
        """All backups, newest first."""
        return await asyncio.to_thread(self._shelf.listed)

    async def delete(self, name: str) -> None:
        """Delete the backup called `name`. Raises BackupNotFound."""
        await asyncio.to_thread(self._shelf.delete, name)

    def _free_name(self, now_ms: int) -> str:
        name = f"{times.moment_of(now_ms):%Y%m%d-%H%M%S}"
        taken = {backup.name for backup in self._shelf.listed()}
        others = (f"{name}-{number}" for number in range(2, len(taken) + 3))
        return next(free for free in (name, *others) if free not in taken)

    async def _restore_one(
        self, contents: Contents, mode: Mode, dry_run: bool, by: str, done: Sized
    ) -> RestoredConversation:
        name = contents.conversation_id
        archived = archived_ids(await self._services.store.archive(name))

        def decide(state: ConversationState) -> tuple[list[Change], RestoredConversation]:
            changes, tally = restore_changes(state, contents, mode, archived)
            return changes, RestoredConversation(name, tally, contents.left_out)

        try:
            return await self._services.commit(name, decide, by=by, dry_run=dry_run)
        except StorageError as error:
            if dry_run:
                raise
            raise StorageUnwritable(
                f"{error} {len(done)} conversations were brought back before it; run the restore again to go on.",
                error.path,
            ) from error

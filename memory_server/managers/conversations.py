"""The conversations of a store: the managers of each, made when first asked for."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo
from functools import cached_property
from typing import TYPE_CHECKING

from memory_server.core.errors import InvalidInput, StorageError
from memory_server.core.meter import Meter
from memory_server.core.model import DEFAULT_CONVERSATION, LongTermMemory, ShortTermMemory, conversation_id_of
from memory_server.managers.long_term import LongTermManager
from memory_server.managers.services import Surroundings
from memory_server.managers.short_term import ShortTermManager
from memory_server.recall.parameters import Parameters
from memory_server.recall.prompt_lines import MAX_BYTES, Language, Readers, memory_lines, prompt_lines
from memory_server.recall.result import Recall

if TYPE_CHECKING:
    from memory_server.core.backups import BackupShelf
    from memory_server.core.findings import Finding
    from memory_server.managers.archive import ArchiveManager
    from memory_server.managers.backups import Backups
    from memory_server.managers.insight import InsightManager
    from memory_server.managers.reindex import Reindexing

log = logging.getLogger(__name__)


class Conversation:
    """What one conversation can be asked. What most processes never ask is made, and imported, when it is."""

    def __init__(self, name: str, surroundings: Surroundings, shelf: str | None) -> None:
        self.id = name
        self.short_term = ShortTermManager(name, surroundings)
        self.long_term = LongTermManager(name, surroundings, shelf)
        self._around = surroundings

    @cached_property
    def archive(self) -> ArchiveManager:
        """Its past."""
        from memory_server.managers.archive import ArchiveManager

        return ArchiveManager(self.id, self._around)

    @cached_property
    def insight(self) -> InsightManager:
        """Why memories come, and what they are like."""
        from memory_server.managers.insight import InsightManager

        return InsightManager(self.id, self._around, self.short_term)

    @cached_property
    def reindexing(self) -> Reindexing:
        """Its words, found anew."""
        from memory_server.managers.reindex import Reindexing

        return Reindexing(self.id, self._around)


class Conversations:
    """All conversations of the store. `usual` is meant where a caller names none; `shelf` is seen from all.

    `backups` gives where backups of them are kept, and `health` tells how that place is; None for memories that are
    kept in no folder.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        usual: str = DEFAULT_CONVERSATION,
        shelf: str | None = DEFAULT_CONVERSATION,
        backups: Callable[[], BackupShelf] | None = None,
        health: Callable[[], Awaitable[Sequence[Finding]]] | None = None,
    ) -> None:
        self._around = surroundings
        self._backups = backups
        self._health = health
        self._usual = conversation_id_of(usual)
        self._shelf = shelf
        self._known: dict[str, Conversation] = {}

    @property
    def parameters(self) -> Parameters:
        """The constants of recall, for whoever explains an answer."""
        return self._around.parameters

    @cached_property
    def backups(self) -> Backups:
        """The backups of all conversations.

        Raises:
            InvalidInput: these are kept in no folder.
        """
        if self._backups is None:
            raise InvalidInput("These memories are kept in no folder, so there are no backups of them.")
        from memory_server.managers.backups import Backups

        return Backups(self._around, self._backups())

    @property
    def meter(self) -> Meter:
        """What was done with them in this process."""
        return self._around.meter

    async def examine(self) -> Sequence[Finding]:
        """Whether the place where they are kept is as it should be.

        Raises:
            InvalidInput: nobody can tell.
        """
        if self._health is None:
            raise InvalidInput("These memories are kept in no folder, so there is nothing to examine.")
        return await self._health()

    @property
    def language(self) -> Language | None:
        """The readers' language; None for that of what they read."""
        return self._around.language

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the readers; None for the system's."""
        return self._around.zone

    def lines(
        self,
        recall: Recall | None,
        long_term: Sequence[LongTermMemory] = (),
        *,
        max_bytes: int = MAX_BYTES,
        max_chars: int | None = None,
    ) -> str:
        """What came to mind as lines for a prompt, in the readers' zone and language: at most `max_bytes` of UTF-8, or
        `max_chars` characters where that is given. Of a long memory it is the passages that match."""
        return prompt_lines(
            recall,
            long_term,
            max_bytes=max_bytes,
            max_chars=max_chars,
            wording=self._around.parameters.wording,
            **self._readers(),
        )

    def memory_lines(
        self, memories: Sequence[ShortTermMemory], *, max_bytes: int = MAX_BYTES, max_chars: int | None = None
    ) -> str:
        """The same for memories that no search brought."""
        return memory_lines(memories, max_bytes=max_bytes, max_chars=max_chars, **self._readers())

    def _readers(self) -> Readers:
        around = self._around
        return Readers(now_ms=around.clock(), zone=around.zone, language=around.language)

    def get(self, conversation_id: str | None = None) -> Conversation:
        """The conversation called `conversation_id`, or the usual one; it need not exist yet.

        Raises:
            InvalidInput: that is no usable id.
        """
        name = self._usual if conversation_id is None else conversation_id_of(conversation_id)
        if name not in self._known:
            self._known[name] = Conversation(name, self._around, self._shelf)
        return self._known[name]

    async def ids(self) -> list[str]:
        """The ids of all conversations that hold or held something, sorted."""
        return await self._around.store.conversations()

    async def version(self, conversation_id: str) -> int:
        """How many changes the conversation has seen, other processes' among them; 0 for one that is not there."""
        return (await self._around.store.read(conversation_id_of(conversation_id))).version

    async def outdated(self) -> int:
        """Short-term memories whose words were found with other settings; what cannot be read is passed over."""
        count = 0
        for name in await self.ids():
            try:
                count += await self.get(name).reindexing.outdated()
            except StorageError as error:
                log.warning("not looked at: %s", error)
        return count

    async def most_frequent(self) -> str | None:
        """The conversation with the most short-term memories, the first by name among equals; None for none.

        Reads every conversation; one that cannot be read is reported and passed over.
        """
        best: tuple[int, str] | None = None
        for name in await self.ids():
            try:
                count = len((await self._around.store.read(name)).short_term)
            except StorageError as error:
                log.warning("not counted: %s", error)
                continue
            if count and (best is None or count > best[0]):
                best = (count, name)
        return best[1] if best else None

"""The conversations of a store, and everything that a call may use, as one value made for each request: a server can
give each caller its own."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from memory_server.core.errors import StorageError
from memory_server.core.model import (
    DEFAULT_CONVERSATION,
    ConversationState,
    LongTermMemory,
    ShortTermMemory,
    conversation_id_of,
)
from memory_server.knowledge.callers import STDIO, Wire
from memory_server.managers.long_term import LongTermManager
from memory_server.managers.search import vectors_of
from memory_server.managers.services import Services
from memory_server.managers.short_term import ShortTermManager
from memory_server.recall.prompt_lines import MAX_BYTES, Language, language_of, prompt_lines
from memory_server.recall.selection import Recall

if TYPE_CHECKING:
    from memory_server.core.lifecycle import Lifecycle
    from memory_server.core.phrases import Finding
    from memory_server.core.ports import BackupStore, Meaning
    from memory_server.knowledge.family import Knowledge
    from memory_server.managers.archive import ArchiveManager
    from memory_server.managers.backups import Backups
    from memory_server.managers.insight import InsightManager

log = logging.getLogger(__name__)


class Conversation:
    """The managers of one conversation. Each of their methods may raise `StorageError`: then nothing was changed. Those
    that most processes do not use are made, and imported, at first use."""

    def __init__(self, name: str, services: Services, shelf: str | None) -> None:
        self.id = name
        self.short_term = ShortTermManager(name, services)
        self.long_term = LongTermManager(name, services, shelf)
        self._services = services

    @cached_property
    def archive(self) -> ArchiveManager:
        """Its past."""
        from memory_server.managers.archive import ArchiveManager

        return ArchiveManager(self.id, self._services)

    @cached_property
    def insight(self) -> InsightManager:
        """Why memories come, and what they are like."""
        from memory_server.managers.insight import InsightManager

        return InsightManager(self.id, self._services, self.short_term)


class Conversations:
    """All conversations of the store. `usual` is the conversation of calls that name none; all conversations see
    `shelf`."""

    def __init__(
        self, services: Services, *, usual: str = DEFAULT_CONVERSATION, shelf: str | None = DEFAULT_CONVERSATION
    ) -> None:
        self._services = services
        self._usual = conversation_id_of(usual)
        self._shelf = shelf
        self._known: dict[str, Conversation] = {}

    def get(self, conversation_id: str | None = None) -> Conversation:
        """The conversation called `conversation_id`, or the usual one; it need not exist yet. Raises InvalidInput:
        the id cannot be used."""
        name = self._usual if conversation_id is None else conversation_id_of(conversation_id)
        if name not in self._known:
            self._known[name] = Conversation(name, self._services, self._shelf)
        return self._known[name]

    def view(self, usual: str) -> Self:
        """The same managers with another usual conversation. Raises InvalidInput: the id cannot be used."""
        view = copy(self)
        view._usual = conversation_id_of(usual)
        return view

    async def ids(self) -> list[str]:
        """The ids of all conversations that hold or held something, sorted."""
        return await self._services.store.conversations()

    async def version(self, conversation_id: str) -> int:
        """How many changes the conversation has had, also by other processes; 0 if it does not exist."""
        return (await self._services.store.read(conversation_id_of(conversation_id))).version

    async def outdated(self) -> int:
        """How many short-term memories have words found with other settings; unreadable conversations are skipped."""
        return sum([await self.get(state.conversation_id).short_term.outdated() async for state in self._readable()])

    async def tidy_vectors(self, meaning: Meaning) -> tuple[int, int, str]:
        """Forget the vectors of memories that are gone, and make those that memories lack: of how many texts, how many
        are left, and why."""
        live = [
            (vectors_of(state.conversation_id), memory.text)
            async for state in self._readable()
            for memory in state.short_term.values()
        ]
        return await meaning.tidy(live, self._services.clock())

    async def most_frequent(self) -> str | None:
        """The conversation with the most short-term memories, the first by name among equals; None if there is none.
        Reads every conversation; unreadable ones are skipped."""
        counts = {state.conversation_id: len(state.short_term) async for state in self._readable()}
        best = max(counts, key=counts.__getitem__, default=None)
        return best if best is not None and counts[best] else None

    async def _readable(self) -> AsyncIterator[ConversationState]:
        for name in await self.ids():
            try:
                state = await self._services.store.read(name)
            except StorageError as error:
                log.warning("a conversation was passed over: %s", error)
            else:
                yield state


@dataclass(frozen=True)
class Context:
    """`conversations` and the `services` that they share. `shelf` opens the place of their backups, `examine` gives the
    findings about the place of the memories, `examinations` blocking calls for those about each conversation, and
    `family` the knowledge; of its toolsets `unasked_from` at most
    `unasked_chars` characters come to each turn. `caller` names the caller; None if there is only one. `wire`: how the
    call came. `hidden`: the folder of the memories, whose place is not for the callers."""

    conversations: Conversations
    services: Services
    shelf: Callable[[], BackupStore]
    examine: Callable[[], Awaitable[Sequence[Finding]]]
    examinations: Callable[[], Sequence[Callable[[], list[Finding]]]]
    family: Callable[[], Knowledge]
    caller: str | None = None
    unasked_chars: int = 0
    unasked_from: frozenset[str] = frozenset()
    wire: Wire = STDIO
    hidden: Path | None = None

    def told(self, text: str) -> str:
        """A sentence of the server as the callers see it: without the place of the memories, if it is hidden."""
        if self.hidden is None:
            return text
        return text.replace(f"{self.hidden}{os.sep}", "").replace(str(self.hidden), "the data folder")

    @property
    def knowledge(self) -> Knowledge:
        """Notes and other knowledge."""
        return self.family()

    @cached_property
    def engines(self) -> tuple[Lifecycle, ...]:
        """What keeps memories: conversations, and knowledge."""
        from memory_server.managers.lifecycle import ConversationLifecycle

        return ConversationLifecycle(self.conversations, self.services, self.examinations), self.knowledge.lifecycle

    @cached_property
    def backups(self) -> Backups:
        """The backups of all that is kept."""
        from memory_server.managers.backups import Backups

        return Backups(self.engines, self.services.clock, self.shelf())

    def language(self, texts: Sequence[str]) -> Language:
        """The readers' language, or that of `texts` where it is not set."""
        return self.services.language or language_of(texts)

    def lines(
        self,
        recall: Recall | None = None,
        long_term: Sequence[LongTermMemory] = (),
        memories: Sequence[ShortTermMemory] = (),
        *,
        max_bytes: int = MAX_BYTES,
        max_chars: int | None = None,
        given: set[str] | None = None,
    ) -> str:
        """What came to mind, and `memories` that no search brought, as lines for a prompt, in the zone and language of
        the readers: at most `max_bytes` of UTF-8, or `max_chars` characters if that is given. `given` as for
        `prompt_lines`."""
        return prompt_lines(
            recall,
            long_term,
            memories,
            now_ms=self.services.clock(),
            zone=self.services.zone,
            language=self.services.language,
            wording=self.services.parameters.wording,
            max_bytes=max_bytes,
            max_chars=max_chars,
            given=given,
        )

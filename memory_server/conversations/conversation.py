"""The conversations of a store, each with its managers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Self

from memory_server.conversations.long_term import LongTermManager
from memory_server.conversations.model import DEFAULT_CONVERSATION, ConversationState, conversation_id_of
from memory_server.conversations.search import vectors_of
from memory_server.conversations.services import Services
from memory_server.conversations.short_term import ShortTermManager
from memory_server.kernel.errors import StorageError

if TYPE_CHECKING:
    from memory_server.conversations.history import ArchiveManager
    from memory_server.conversations.insight import InsightManager
    from memory_server.conversations.ports import Similarities

log = logging.getLogger(__name__)


class Conversation:
    """The managers of one conversation. Each of their methods may raise `StorageError`: then nothing was changed. Those
    that most processes do not use are made, and imported, at first use."""

    def __init__(self, name: str, services: Services, shared_conversation: str | None) -> None:
        self.id = name
        self.short_term = ShortTermManager(name, services)
        self.long_term = LongTermManager(name, services, shared_conversation)
        self._services = services

    @cached_property
    def archive(self) -> ArchiveManager:
        """Its past."""
        from memory_server.conversations.history import ArchiveManager

        return ArchiveManager(self.id, self._services)

    @cached_property
    def insight(self) -> InsightManager:
        """Why memories come, and what they are like."""
        from memory_server.conversations.insight import InsightManager

        return InsightManager(self.id, self._services, self.short_term)


class Conversations:
    """All conversations of the store. `usual` is the conversation of calls that name none; all conversations see
    `shared_conversation`."""

    def __init__(
        self,
        services: Services,
        *,
        usual: str = DEFAULT_CONVERSATION,
        shared_conversation: str | None = DEFAULT_CONVERSATION,
    ) -> None:
        self._services = services
        self._usual = conversation_id_of(usual)
        self._shared_conversation = shared_conversation
        self._known: dict[str, Conversation] = {}

    def get(self, conversation_id: str | None = None) -> Conversation:
        """The conversation called `conversation_id`, or the usual one; it need not exist yet. Raises InvalidInput:
        the id cannot be used."""
        name = self._usual if conversation_id is None else conversation_id_of(conversation_id)
        if name not in self._known:
            self._known[name] = Conversation(name, self._services, self._shared_conversation)
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

    async def tidy_vectors(self, meaning: Similarities) -> tuple[int, int, str]:
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

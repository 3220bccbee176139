"""The conversations of a store, each with its managers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Self

from memory_server.conversations.changes import Change
from memory_server.conversations.earlier_turns import Corrections
from memory_server.conversations.long_term import LongTermManager
from memory_server.conversations.model import (
    DEFAULT_CONVERSATION,
    ConversationState,
    conversation_id_of,
)
from memory_server.conversations.recall.day_lines import DayNotes
from memory_server.conversations.search import vectors_of
from memory_server.conversations.services import Done, Services
from memory_server.conversations.short_term import ShortTermManager
from memory_server.kernel.errors import StorageError
from memory_server.kernel.values import frozen

if TYPE_CHECKING:
    from memory_server.conversations.book_manager import BookManager
    from memory_server.conversations.history import ArchiveManager
    from memory_server.conversations.insight import InsightManager
    from memory_server.conversations.ports import Similarities
    from memory_server.kernel.items import Scope

log = logging.getLogger(__name__)


@frozen
class Corrected(Done):
    """How many memories were corrected."""

    count: int


class Conversation:
    """The managers of a conversation: `short_term`, `long_term`, and those below. Each method may raise `StorageError`;
    then nothing was changed.

    Managers that most processes do not use are made, and imported, at first use.
    """

    def __init__(self, name: str, services: Services, shared_conversation: str | None) -> None:
        self.id = name
        self.short_term = ShortTermManager(name, services)
        self.long_term = LongTermManager(name, services, shared_conversation)
        self._services = services
        self._shared_conversation = shared_conversation

    @property
    def day_notes(self) -> DayNotes:
        """The notes on days, for the readers of now."""
        return self._services.day_notes

    async def correct(self, corrections: Corrections, *, by: str) -> Corrected:
        """Change what is stored of earlier turns, as their client tells it now. Raises MemoryPaused."""
        self._services.refuse_while_paused()
        wording = self._services.parameters.wording.within(self.id)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Corrected]:
            changes = corrections.changes(state, wording.of_text)
            return changes, Corrected(len(changes))

        return await self._services.commit(self.id, decide, by=by)

    @cached_property
    def books(self) -> BookManager:
        """Its lorebooks."""
        from memory_server.conversations.book_manager import BookManager

        return BookManager(self.id, self._services, self._shared_conversation)

    @cached_property
    def archive(self) -> ArchiveManager:
        """Its removed memories and its history."""
        from memory_server.conversations.history import ArchiveManager

        return ArchiveManager(self.id, self._services)

    @cached_property
    def insight(self) -> InsightManager:
        """Why memories come, and figures about them."""
        from memory_server.conversations.insight import InsightManager

        return InsightManager(self.id, self._services, self.short_term)


class Conversations:
    """All conversations of the store. `usual` is the conversation of calls that name none. All conversations see
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
        """Return the conversation with this id, or the usual one; it need not exist yet. Raises InvalidInput if the
        id cannot be used."""
        name = self._usual if conversation_id is None else conversation_id_of(conversation_id)
        if name not in self._known:
            self._known[name] = Conversation(name, self._services, self._shared_conversation)
        return self._known[name]

    def view(self, usual: str) -> Self:
        """Return the same managers with another usual conversation. Raises InvalidInput if the id cannot be used."""
        view = copy(self)
        view._usual = conversation_id_of(usual)
        return view

    def served_by(self, services: Services) -> Self:
        """Return the same conversations with other services, such as services for readers in another time zone."""
        view = copy(self)
        view._services = services
        view._known = {}
        return view

    async def ids(self) -> list[str]:
        """List the ids of all conversations that hold or held something, sorted."""
        return await self._services.store.conversations()

    async def version(self, conversation_id: str) -> int:
        """Count the changes that the conversation has had, also by other processes; 0 if it does not exist."""
        state = await self._services.store.read(conversation_id_of(conversation_id))
        return state.version

    async def outdated(self) -> int:
        """Count the short-term memories whose words were found with other settings; unreadable conversations are
        skipped."""
        count = 0
        async for state in self._readable():
            count += await self.get(state.conversation_id).short_term.outdated()
        return count

    async def tidy_vectors(self, meaning: Similarities) -> tuple[int, int, str]:
        """Forget the vectors of memories that are gone, and make the missing vectors. Return how many vectors were
        made, how many are still missing, and why."""
        live: list[tuple[Scope, str]] = []
        async for state in self._readable():
            scope = vectors_of(state.conversation_id)
            live += [(scope, memory.text) for memory in state.short_term.values()]
        return await meaning.tidy(live, self._services.clock())

    async def most_frequent(self) -> str | None:
        """Return the id of the conversation with the most short-term memories, or None. Reads every conversation and
        skips unreadable ones."""
        most_frequent: str | None = None
        most = 0
        async for state in self._readable():
            if len(state.short_term) > most:
                most_frequent = state.conversation_id
                most = len(state.short_term)
        return most_frequent

    async def _readable(self) -> AsyncIterator[ConversationState]:
        """Yield the states of all conversations; any that cannot be read is passed over, with a warning in the
        log."""
        for name in await self.ids():
            try:
                state = await self._services.store.read(name)
            except StorageError as error:
                log.warning("a conversation was passed over: %s", error)
            else:
                yield state

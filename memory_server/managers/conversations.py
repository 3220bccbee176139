"""The conversations of a store: the managers of each, made when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from memory_server.managers.long_term import LongTermManager
from memory_server.managers.short_term import ShortTermManager
from memory_server.model import DEFAULT_CONVERSATION, conversation_id_of
from memory_server.ports import ConversationStore, TriggerRunner
from memory_server.recall.parameters import Parameters


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one conversation can be asked."""

    id: str
    short_term: ShortTermManager
    long_term: LongTermManager


class Conversations:
    """All conversations of `store`. `usual` is meant where a caller names none; `shelf` is seen from all."""

    def __init__(
        self,
        store: ConversationStore,
        runner: TriggerRunner,
        *,
        parameters: Parameters,
        clock: Callable[[], int],
        rng: Random,
        usual: str = DEFAULT_CONVERSATION,
        shelf: str | None = DEFAULT_CONVERSATION,
    ) -> None:
        self._store = store
        self._runner = runner
        self._parameters = parameters
        self._clock = clock
        self._rng = rng
        self._usual = conversation_id_of(usual)
        self._shelf = shelf
        self._known: dict[str, Conversation] = {}

    def get(self, conversation_id: str | None = None) -> Conversation:
        """The conversation called `conversation_id`, or the usual one; it need not exist yet.

        Raises:
            InvalidInput: that is no usable id.
        """
        name = self._usual if conversation_id is None else conversation_id_of(conversation_id)
        if name not in self._known:
            common = (name, self._store, self._runner, self._parameters, self._clock, self._rng)
            self._known[name] = Conversation(name, ShortTermManager(*common), LongTermManager(*common, self._shelf))
        return self._known[name]

    async def ids(self) -> list[str]:
        """The ids of all conversations that hold or held something, sorted."""
        return await self._store.conversations()

    async def most_frequent(self) -> str | None:
        """The conversation with the most short-term memories, the first by name among equals; None for none.

        Reads every conversation.
        """
        best: tuple[int, str] | None = None
        for name in await self.ids():
            count = len((await self._store.read(name)).short_term)
            if count and (best is None or count > best[0]):
                best = (count, name)
        return best[1] if best else None

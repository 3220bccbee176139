"""Finding the words of memories again: after a change of settings, and for memories of the Node original.

Scores, pins and texts stay. It is an ordinary change, so it is in the history and can be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory_server.core.changes import Change, Edited
from memory_server.core.model import ConversationState, ShortTermMemory
from memory_server.managers.services import Done, Services
from memory_server.recall.words import Wording

AT_ONCE = 200
"""Memories whose words are found in one step, in a thread: some 50 ms, so that a cancellation is quick."""


@dataclass(frozen=True, slots=True)
class Reindexed(Done):
    """What was changed, or would be changed, of `total` memories."""

    changes: tuple[Edited, ...]
    total: int


class Reindexing:
    """Reindexes one conversation."""

    def __init__(self, conversation_id: str, services: Services) -> None:
        self._id = conversation_id
        self._services = services
        self._wording = services.parameters.wording.within(conversation_id)

    async def outdated(self) -> int:
        """How many memories have words that were found with other settings.

        Raises:
            StorageError: the conversation cannot be read.
        """
        state = await self._services.store.read(self._id)
        return sum(not self._wording.is_of(memory) for memory in state.short_term.values())

    async def run(self, *, dry_run: bool = False, by: str = "api") -> Reindexed:
        """Give every memory the words that the present settings find in it.

        Raises:
            StorageError: nothing was changed.
        """
        memories = list((await self._services.store.read(self._id)).short_term.values())
        found: list[tuple[ShortTermMemory, ShortTermMemory]] = []
        for start in range(0, len(memories), AT_ONCE):
            # Without the lock: others write meanwhile.
            found += await asyncio.to_thread(_reworded, memories[start : start + AT_ONCE], self._wording)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Reindexed]:
            changes = tuple(edit for before, after in found if (edit := _edit(state, before, after)) is not None)
            return changes, Reindexed(changes, len(state.short_term))

        return await self._services.commit(self._id, decide, by=by, dry_run=dry_run or not found)


def _reworded(memories: Sequence[ShortTermMemory], wording: Wording) -> list[tuple[ShortTermMemory, ShortTermMemory]]:
    """Each memory whose words change, before and after."""
    pairs = ((memory, wording.of_text(memory)) for memory in memories)
    return [(before, after) for before, after in pairs if before != after]


def _edit(state: ConversationState, before: ShortTermMemory, after: ShortTermMemory) -> Edited | None:
    """The change to the memory as it is now; None if it is gone or its text was changed."""
    now = state.short_term.get(before.id)
    if now is None or (now.text, now.messages, now.time_ms) != (before.text, before.messages, before.time_ms):
        return None
    edited = replace(now, words=after.words, weights=after.weights, indexed_with=after.indexed_with)
    return Edited(edited, now) if edited != now else None

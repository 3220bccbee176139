"""Making the index of a large conversation in a thread, so that its first search does not stall other clients."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from memory_server.core.changes import Change
from memory_server.core.model import ConversationState, ShortTermMemory
from memory_server.recall.words import Wording

if TYPE_CHECKING:
    from memory_server.recall.index import Postings

WORTH_A_THREAD = 1_000
"""Memories from which indexing takes more than some 15 ms; fewer are indexed by the decision that needs them."""


_DECISIONS = "memory_server.recall.selection"
"""What decides a search; importing it imports numpy, which takes 0.1 s and more."""


class _Recorder:
    """Follows a state while its index is being made elsewhere, and remembers what happened meanwhile."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def follow(self, change: Change) -> None:
        self.changes.append(change)


class Indexing:
    """One at a time for a conversation."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self._lock = asyncio.Lock()

    async def prepare(self, state: ConversationState, *, least: int = WORTH_A_THREAD) -> None:
        """Give `state` its index, unless it has one or less than `least` memories.

        A state that the store replaced meanwhile is left without: `postings.index_of` makes that one.
        """
        if _DECISIONS not in sys.modules:
            # In a process that was not warmed up; the decision itself runs in the event loop.
            await asyncio.to_thread(import_module, _DECISIONS)
        if len(state.short_term) < least:
            return
        async with self._lock:
            if state.follower is not None:
                return
            recorder = state.follower = _Recorder()
            try:
                index = await asyncio.to_thread(_indexed, list(state.short_term.values()), self._wording)
            finally:
                # A decision that could not wait may have made an index of its own.
                ours = state.follower is recorder
                if ours:
                    state.follower = None
            if ours:
                for change in recorder.changes:
                    index.follow(change)
                state.follower = index


def _indexed(memories: list[ShortTermMemory], wording: Wording) -> Postings:
    from memory_server.recall.index import Postings

    return Postings(memories, wording)

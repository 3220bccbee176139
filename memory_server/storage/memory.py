"""Conversations in memory: the reference meaning of `ConversationStore`, and the store of tests and throw-away use."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from memory_server.changes import apply
from memory_server.errors import LockTimeout
from memory_server.model import ConversationState
from memory_server.ports import Decide, Result

WAIT_SECONDS = 10.0
"""How long a writer waits for others before it gives up (docs/reference/data-folder.md)."""


class MemoryStore:
    """Keeps conversations for as long as the process lives. See `ports.ConversationStore`."""

    def __init__(self) -> None:
        self._states: dict[str, ConversationState] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def update(
        self, conversation_id: str, decide: Decide[Result], *, by: str, wait_seconds: float | None = None
    ) -> Result:
        lock = self._locks[conversation_id]
        try:
            async with asyncio.timeout(WAIT_SECONDS if wait_seconds is None else wait_seconds):
                await lock.acquire()
        except TimeoutError as error:
            raise LockTimeout(f"The conversation {conversation_id} is being written; try again.") from error
        try:
            state = self._states.get(conversation_id) or ConversationState(conversation_id)
            changes, result = decide(state)
            if changes:
                self._states[conversation_id] = state
                apply(state, changes)
                state.version += 1
            return result
        finally:
            lock.release()

    async def read(self, conversation_id: str) -> ConversationState:
        return self._states.get(conversation_id) or ConversationState(conversation_id)

    async def conversations(self) -> list[str]:
        return sorted(self._states)

    async def compact(self, conversation_id: str) -> None:
        """There is nothing to fold."""

    async def aclose(self) -> None:
        """There is nothing to let go of."""

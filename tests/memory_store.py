"""Conversations in memory: the shortest `ConversationStore`, for tests of what uses one."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from memory_server.conversations.archive import KEEP_MS, ArchivedMemory, Horizon, archived
from memory_server.conversations.changes import Commit, apply, change_id
from memory_server.conversations.model import ConversationState
from memory_server.conversations.ports import Decide, Result
from memory_server.kernel.errors import LockTimeout
from memory_server.kernel.lifecycle import HISTORY_PAGE

WAIT_SECONDS = 10.0
"""How long a writer waits for others before it gives up (docs/reference/data-folder.md)."""


class MemoryStore:
    """Keeps conversations for as long as the test lives. See `ports.ConversationStore`.

    `clock` gives milliseconds since 1970; history and archive are kept for `keep_ms`.
    """

    def __init__(
        self, clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000, keep_ms: int = KEEP_MS
    ) -> None:
        self._clock = clock
        self._keep_ms = keep_ms
        self._commits: defaultdict[str, list[Commit]] = defaultdict(list)
        self._states: dict[str, ConversationState] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def update(
        self,
        conversation_id: str,
        decide: Decide[Result],
        *,
        by: str,
        wait_seconds: float | None = None,
    ) -> tuple[Result, str | None]:
        lock = self._locks[conversation_id]
        try:
            async with asyncio.timeout(WAIT_SECONDS if wait_seconds is None else wait_seconds):
                await lock.acquire()
        except TimeoutError as error:
            raise LockTimeout(
                f"The conversation {conversation_id} is being written; try again."
            ) from error
        try:
            state = self._states.get(conversation_id) or ConversationState(conversation_id)
            changes, result = decide(state)
            change = None
            if changes:
                self._states[conversation_id] = state
                apply(state, changes)
                state.version += 1
                self._commits[conversation_id].append(
                    Commit(state.version, self._clock(), by, tuple(changes))
                )
                change = change_id(conversation_id, state.version)
            return result, change
        finally:
            lock.release()

    async def read(self, conversation_id: str) -> ConversationState:
        return self._states.get(conversation_id) or ConversationState(conversation_id)

    async def conversations(self) -> list[str]:
        return sorted(self._states)

    async def history(
        self,
        conversation_id: str,
        *,
        before: int | None = None,
        limit: int = HISTORY_PAGE,
        most_changes: int | None = None,
    ) -> tuple[Commit, ...]:
        newest_first = reversed(self._commits[conversation_id])
        page = islice((c for c in newest_first if before is None or c.version < before), limit)
        shown = [(commit, commit.changes[:most_changes]) for commit in page]
        return tuple(replace(c, changes=some, more=len(c.changes) - len(some)) for c, some in shown)

    async def archive(
        self, conversation_id: str, *, newest: int | None = None
    ) -> tuple[ArchivedMemory, ...]:
        return archived(reversed(self._commits[conversation_id]), newest=newest)

    async def damaged(self, conversation_id: str) -> int:
        return 0

    async def compact(self, conversation_id: str, *, now_ms: int | None = None) -> None:
        """Remove what is older than `keep_ms`; there is nothing to fold."""
        now = self._clock() if now_ms is None else now_ms
        commits = self._commits[conversation_id]
        del commits[: Horizon(now - self._keep_ms, now).passed(commit.at_ms for commit in commits)]

    async def larger(self, than: int) -> list[str]:
        return await self.conversations()

    async def expire(self, now_ms: int) -> None:
        """`compact` did it."""

    async def adopt(
        self, conversation_id: str, state: ConversationState, commits: Sequence[Commit]
    ) -> bool:
        if conversation_id in self._states:
            return False
        self._states[conversation_id] = replace(
            state, short_term=dict(state.short_term), long_term=dict(state.long_term), follower=None
        )
        self._commits[conversation_id] = list(commits)
        return True

    async def aclose(self) -> None:
        """There is nothing to close."""

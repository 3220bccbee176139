"""What a store has open, and what it began: conversations leave memory when they are idle or too many, and what was
begun goes on without its caller until the store is closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from languages import Sentence
from memory_server.conversations.changes import Change
from memory_server.conversations.model import ConversationState
from memory_server.conversations.ports import Decide, Result
from memory_server.kernel.errors import StorageUnwritable
from memory_server.kernel.failures import failure_text
from memory_server.storage.options import StoreParameters

log = logging.getLogger(__name__)
T = TypeVar("T")


class Openable(Protocol):
    """Something that a store opens and closes."""

    used: float
    """The time when it was last asked for, by the monotonic clock."""

    @property
    def busy(self) -> bool:
        """Whether it must stay."""
        ...


class _Abandoned(Exception):
    """Nobody waits for the result, and nothing has happened yet."""


O = TypeVar("O", bound=Openable)  # noqa: E741


class OpenOnes(dict[str, O]):
    """The open ones by last use, the newest last; `use` opens them by `make`."""

    def __init__(self, make: Callable[[str], O], parameters: StoreParameters) -> None:
        super().__init__()
        self._make = make
        self._parameters = parameters
        self._sweep: asyncio.TimerHandle | None = None
        self.running: set[asyncio.Task[Any]] = set()

    def use(self, name: str) -> O:
        """Return the conversation `name`, opened if it is not, as the one that was used last. Idle and surplus ones are
        closed."""
        opened = self.pop(name, None)
        if opened is None:
            opened = self._make(name)
        self[name] = opened
        opened.used = time.monotonic()
        self._let_go()
        return opened

    def _let_go(self, about_to_be_used: int = 1) -> None:
        """Close idle conversations and surplus ones, the longest unused first; their files have all of them. A busy
        one stays, and so does the last one while it is `about_to_be_used`."""
        idle_seconds = self._parameters.open_minutes * 60
        oldest_use = time.monotonic() - idle_seconds
        excess = len(self) - self._parameters.open_conversations
        candidates = list(self.items())[: len(self) - about_to_be_used]
        for name, opened in candidates:
            if opened.used > oldest_use and excess <= 0:
                break
            if not opened.busy:
                del self[name]
                excess -= 1
        if self._sweep is None and self:
            self._sweep = asyncio.get_running_loop().call_later(idle_seconds, self._swept)

    def _swept(self) -> None:
        self._sweep = None
        self._let_go(about_to_be_used=0)

    async def decided(
        self,
        decide: Decide[Result],
        read: Callable[[], Awaitable[ConversationState]],
        commit: Callable[[Decide[Result]], Coroutine[Any, Any, tuple[Result, str | None]]],
    ) -> tuple[Result, str | None]:
        """Return the result of `commit`, for `ConversationStore.update`. If its caller is cancelled
        before the decision, nothing is decided. A read-only store decides by `read`, and raises
        StorageUnwritable if something would change."""
        if self._parameters.read_only:
            changes, result = decide(await read())
            if changes:
                raise StorageUnwritable(
                    Sentence(
                        "This server is read-only and changed nothing; start it without --read-only."
                    )
                )
            return result, None

        # A cancelled caller must not stop a commit half-way, so the task is shielded and this flag tells it not to
        # begin.
        abandoned = False

        def decide_if_wanted(state: ConversationState) -> tuple[Sequence[Change], Result]:
            if abandoned:
                raise _Abandoned
            return decide(state)

        try:
            return await asyncio.shield(self.begin(commit(decide_if_wanted)))
        except asyncio.CancelledError:
            abandoned = True
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a task of its own for `work`: a cancelled caller must not stop a commit half-way."""

        task = asyncio.get_running_loop().create_task(work)
        self.running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Forget a task that has ended, and log its error, which its caller has too unless it was cancelled."""
        self.running.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.debug("storage work failed: %s", failure_text(error))

    async def finish(self) -> None:
        """Wait for all that was begun, and sweep no more."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        while self.running:
            await asyncio.wait(self.running)

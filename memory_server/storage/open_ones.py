"""What a store has open, and what it began: conversations leave memory when they are idle or too many, and what was
begun goes on without its caller until the store is closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from memory_server.conversations.changes import Change
from memory_server.conversations.model import ConversationState
from memory_server.conversations.ports import Decide, Result
from memory_server.kernel.errors import StorageUnwritable
from memory_server.kernel.failures import failure_text
from memory_server.storage.options import StoreParameters
from sandbox.locale import _

log = logging.getLogger(__name__)
T = TypeVar("T")


class Openable(Protocol):
    used: float
    """When it was last asked for, by the monotonic clock."""

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
        self._make, self._parameters = make, parameters
        self._sweep: asyncio.TimerHandle | None = None
        self.running: set[asyncio.Task[Any]] = set()

    def use(self, name: str) -> O:
        one = self.pop(name, None)
        if one is None:
            one = self._make(name)
        self[name] = one
        one.used = time.monotonic()
        self._let_go()
        return one

    def _let_go(self, about_to_be_used: int = 1) -> None:
        """Close those that were idle for long or are too many, those with the oldest use first. They are whole where
        they are kept. A busy one stays, and so does the one used last while it is `about_to_be_used`."""
        oldest = time.monotonic() - self._parameters.open_minutes * 60
        excess = len(self) - self._parameters.open_conversations
        for name, one in list(self.items())[: len(self) - about_to_be_used]:
            if one.used > oldest and excess <= 0:
                break
            if not one.busy:
                del self[name]
                excess -= 1
        if self._sweep is None and self:

            def swept() -> None:
                self._sweep = None
                self._let_go(about_to_be_used=0)

            self._sweep = asyncio.get_running_loop().call_later(self._parameters.open_minutes * 60, swept)

    async def decided(
        self,
        decide: Decide[Result],
        read: Callable[[], Awaitable[ConversationState]],
        commit: Callable[[Decide[Result]], Coroutine[Any, Any, tuple[Result, str | None]]],
    ) -> tuple[Result, str | None]:
        """What `commit` gives, for `ConversationStore.update`; read-only, nothing may change. What was not decided
        when its caller was cancelled does not happen."""
        if self._parameters.read_only:
            changes, result = decide(await read())
            if changes:
                raise StorageUnwritable(
                    _("This server is read-only and changed nothing; start it without --read-only.")
                )
            return result, None
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
        """A task of its own for `work`: a cancelled caller must not stop a commit half-way."""

        def done(task: asyncio.Task[Any]) -> None:
            self.running.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.debug("storage work failed: %s", failure_text(error))

        task = asyncio.get_running_loop().create_task(work)
        self.running.add(task)
        task.add_done_callback(done)
        return task

    async def finish(self) -> None:
        """Wait for all that was begun, and sweep no more."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        while self.running:
            await asyncio.wait(self.running)

"""What is opened once, for all callers of the same memories: their home, the sandbox, the meter, the clock and the
record of recalls. What a caller sees of it is a view (app.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Literal, Self

from memory_server.config import Settings
from memory_server.conversations.model import MAX_TRIGGER_CHARS
from memory_server.conversations.trigger_search import SandboxRunner
from memory_server.kernel.meter import Meter
from memory_server.kernel.options import extended
from memory_server.kernel.private import Pause
from memory_server.kernel.times import clock_from
from memory_server.kernel.values import frozen
from memory_server.memories.recalls import AFTER_SECONDS, Recalls
from memory_server.runtime.homes import home_of
from memory_server.storage.data_dir import Home
from memory_server.storage.options import StoreParameters
from sandbox import SandboxLimits, TriggerSandbox


@frozen
class Lifetime:
    """How long a runtime is used, and so what pays off.

    `questions`: for a single question an index is not made, and no worker waits in reserve. `exit_seconds`: how long it
    may tidy its files when it is closed. `record_seconds`: how long after a recall its line is written.
    """

    questions: Literal["one", "many"]
    exit_seconds: float
    record_seconds: float


LASTING = Lifetime(
    questions="many", exit_seconds=StoreParameters().exit_seconds, record_seconds=AFTER_SECONDS
)
"""A server, or a command that works with many memories."""
ONE_QUESTION = Lifetime(questions="one", exit_seconds=0.0, record_seconds=0.0)
"""A command that reads once and ends: a user waits for its end."""
ONE_TURN = Lifetime(
    questions="one", exit_seconds=StoreParameters().exit_seconds, record_seconds=0.0
)
"""A command that stores a turn. Where only hooks write, nothing else would tidy the files."""


class Runtime:
    """The memories of `settings`, opened for all callers; nothing is opened or started before it is used.

    `lifetime`: how long it is used. `serves`: the memories of "this machine", or of "a tenant", whose folder is among
    many, so that nothing outside of it is looked at. `neighbour`: a runtime of the same process, whose connections to a
    database and whose sandbox are used too. `lent_sandbox`: a sandbox that its owner closes. Searches of triggers wait
    for their turn of `trigger_turns`. While `full` is set, nothing can be added.
    """

    def __init__(
        self,
        settings: Settings,
        lifetime: Lifetime = LASTING,
        *,
        serves: Literal["this machine", "a tenant"] = "this machine",
        neighbour: Runtime | None = None,
        lent_sandbox: TriggerSandbox | None = None,
        trigger_turns: asyncio.Semaphore | None = None,
    ) -> None:
        """Make the home, the sandbox and the record of recalls; none of them is opened. Raises
        InvalidInput if the settings name a store that cannot be used."""
        self.settings = settings
        self.lifetime = lifetime
        self.serves = serves
        self.trigger_turns = trigger_turns
        self.full = False

        self.clock: Callable[[], int] = clock_from(settings.now_ms)
        self.meter = Meter()
        self.home = self._home_beside(neighbour)
        self.store = self.home.conversations

        # Processes for triggers are costly, so neighbours share theirs.
        if neighbour is not None:
            lent_sandbox = neighbour.sandbox
        self._lent_sandbox = lent_sandbox
        self.sandbox: TriggerSandbox = lent_sandbox or sandbox_of(
            settings, spare=lifetime.questions == "many"
        )

        self.recalls = Recalls(
            self.home.recalls,
            self.clock,
            settings.recalls.days,
            self._may_note_recalls,
            lifetime.record_seconds,
        )
        self._show_figures()

    @classmethod
    def for_tenant(
        cls,
        settings: Settings,
        neighbour: Runtime,
        *,
        lifetime: Lifetime = LASTING,
        trigger_turns: asyncio.Semaphore | None = None,
    ) -> Self:
        """Make the memories of a tenant, beside the memories of `neighbour`."""
        return cls(
            settings, lifetime, serves="a tenant", neighbour=neighbour, trigger_turns=trigger_turns
        )

    def _home_beside(self, neighbour: Runtime | None) -> Home:
        """Return the home that the settings name. It shares the connections to a database with the home of `neighbour`."""
        parameters = extended(
            StoreParameters,
            self.settings.storage,
            exit_seconds=self.lifetime.exit_seconds,
            read_only=self.settings.read_only,
        )

        neighbour_home = None
        if neighbour is not None:
            neighbour_home = neighbour.home

        return home_of(
            self.settings,
            self.clock,
            parameters=parameters,
            meter=self.meter,
            beside=neighbour_home,
        )

    def is_full(self) -> bool:
        """Return whether the memories take all the room that they may."""
        return self.full

    def _may_note_recalls(self) -> bool:
        return not self.settings.read_only and not self.full and self.paused() is None

    def _show_figures(self) -> None:
        """Let the meter show workers, and for a runtime that lasts also files and what the process uses."""
        self.runner(self.settings).gauge_workers()
        if self.lifetime.questions == "many":
            from memory_server.kernel.meter import (
                gauge,
            )  # here: a hook does not wait for it

            gauge(self.meter, self.home.folder_size, of_process=self.serves == "this machine")

    def runner(self, settings: Settings) -> SandboxRunner:
        """Return what runs triggers in the sandbox, in the time zone of `settings`."""
        return SandboxRunner(self.sandbox, self.meter, self.trigger_turns, settings.timezone)

    def paused(self) -> Pause | None:
        """Return the pause that lasts now, during which nothing is stored, or None."""
        return self.home.pause.read(self.clock())

    async def aclose(self) -> None:
        """Write what waits, and close all that was opened here."""
        # The store last, so that what upkeep began can still be written.
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.home.aclose)
            stack.push_async_callback(self.store.aclose)
            stack.callback(self.recalls.write)
            if self._lent_sandbox is None:
                stack.push_async_callback(self.sandbox.aclose)


def sandbox_of(settings: Settings, *, spare: bool = True) -> TriggerSandbox:
    """Make a sandbox with the limits of `settings`. `spare` keeps a worker in reserve."""
    triggers = settings.triggers
    limits = triggers.model_dump(include={"trigger_seconds", "search_seconds", "heap_mb"})
    return TriggerSandbox(
        SandboxLimits(max_source_chars=MAX_TRIGGER_CHARS, **limits),
        timezone=settings.timezone,
        spare=spare,
        spellings_apart=settings.compat == "node",
        **triggers.model_dump(include={"workers", "require_all_layers"}),
    )

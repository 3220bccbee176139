"""Upkeep of the whole store: the daily clean-up, at most once a day for any number of processes.

APScheduler calls it once a day, and soon after the start when that is overdue. Importing it takes a tenth of a second,
so this happens after the first answer. A job that was due while the machine slept runs once when it wakes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from languages import _
from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.lifecycle import Ledger, Lifecycle

log = logging.getLogger(__name__)

SOON_SECONDS = 10
"""Delay of an overdue clean-up, so that it does not slow a client's first calls."""
DUE_AFTER_MS = 20 * 3_600_000
"""Upkeep is due this long after it last ended: less than a day, so that a slow run does not skip the next."""


class UpkeepJob(Protocol):
    async def overdue(self) -> bool: ...

    async def run_if_due(self) -> int | None: ...


class Maintenance:
    """Runs upkeep. Idempotent: running it again at once changes nothing."""

    def __init__(
        self,
        engines: Callable[[], Sequence[Lifecycle]],
        ledger: Ledger,
        clock: Callable[[], int],
        tidy: Callable[[int], Awaitable[None]] | None = None,
        give_words: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Keep what upkeep runs: the `engines`, then `tidy` with the time from which it counts
        back, then `give_words`. A None leaves that step out."""
        self._engines = engines
        self._ledger = ledger
        self._clock = clock
        self._tidy = tidy
        self._give_words = give_words

    async def overdue(self) -> bool:
        """Return whether upkeep has not run for most of a day, or its last run has a time in the future."""
        last_ms = await asyncio.to_thread(self._ledger.last_run_ms)
        if last_ms is None:
            return True
        elapsed_ms = self._clock() - last_ms
        return not 0 <= elapsed_ms < DUE_AFTER_MS

    async def run_if_due(self) -> int | None:
        """Let each engine do its upkeep, if that is overdue and no other process is doing it. Return the number of
        memories and entries that went into the archive, or None if it was not this process's turn. An engine logs a
        failure of a place and passes over it. Raises StorageError if a database cannot be asked; then the run is not
        noted, and it stays overdue."""
        async with self._ledger.turn() as is_our_turn:
            if not is_our_turn or not await self.overdue():
                return None

            # Old history is deleted one turn late, counted from the last turn: a clock that is wrong for an hour must
            # not delete what people can still bring back.
            last_ms = await asyncio.to_thread(self._ledger.last_run_ms)
            seen_from_ms = self._clock()
            if last_ms is not None:
                seen_from_ms = min(seen_from_ms, last_ms)

            forgotten_count = 0
            for engine in self._engines():
                forgotten_count += await engine.keep_up(seen_from_ms)

            if self._tidy is not None:
                try:
                    await self._tidy(seen_from_ms)
                except MemoryServerError as error:
                    log.warning("upkeep skipped vectors and recalls: %s", error)

            await asyncio.to_thread(self._ledger.note_run, self._clock())
            # Last, and after the note: models take minutes, and a process that ends meanwhile has done its upkeep.
            if self._give_words is not None:
                try:
                    await self._give_words()
                except MemoryServerError as error:
                    log.warning("upkeep gave no words: %s", error)

            return forgotten_count


class Jobs:
    """The scheduled jobs of a process: upkeep at `hour` of the day in `zone` (IANA name, None: the system's)."""

    def __init__(self, maintenance: UpkeepJob, hour: int, zone: str | None) -> None:
        self._maintenance = maintenance
        self._hour = hour
        self._zone = zone
        self._scheduler: Any = None
        self._run: asyncio.Task[int | None] | None = None

    async def start(self) -> None:
        """Start the schedule: upkeep each day at its hour, and also in `SOON_SECONDS` if it is
        overdue. Raises StorageError if a database cannot be asked when upkeep last ran."""

        def new_scheduler() -> Any:
            from apscheduler.schedulers.asyncio import AsyncIOScheduler

            if self._zone:
                return AsyncIOScheduler(timezone=self._zone)
            return AsyncIOScheduler()

        scheduler = await asyncio.to_thread(new_scheduler)
        options = {"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        scheduler.add_job(self._upkeep, "cron", hour=self._hour, id="upkeep", **options)
        if await self._maintenance.overdue():
            soon = datetime.now(scheduler.timezone) + timedelta(seconds=SOON_SECONDS)
            scheduler.add_job(
                self._upkeep, "date", run_date=soon, id=_("overdue upkeep"), **options
            )
        scheduler.start()
        # Only now: a client may leave at any await above, and a schedule that did not begin cannot be ended.
        self._scheduler = scheduler

    async def stop(self) -> None:
        """End the schedule. Upkeep in progress stops between two conversations."""
        if self._scheduler is None:
            return
        if self._run is not None:
            self._run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._run
        self._scheduler.shutdown(wait=False)
        self._scheduler = None

    async def _upkeep(self) -> None:
        self._run = asyncio.get_running_loop().create_task(self._maintenance.run_if_due())
        with contextlib.suppress(asyncio.CancelledError):
            forgotten_count = await self._run
            if forgotten_count is not None:
                log.info("upkeep: %d memories and entries went into the archive", forgotten_count)

"""The schedule: APScheduler calls `upkeep/maintenance.py` once a day, and soon after the start when that is overdue.

Importing it takes a tenth of a second, so this happens after the first answer. A job that was due while the machine
slept runs once when it wakes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import datetime, timedelta
from typing import Any

from memory_server.upkeep.maintenance import Maintenance

log = logging.getLogger(__name__)

SOON_SECONDS = 10
"""Delay of an overdue clean-up, so that it does not slow a client's first calls."""


class Jobs:
    """The scheduled jobs of one process: upkeep at `hour` of the day in `zone` (IANA name, None: the system's)."""

    def __init__(self, maintenance: Maintenance, hour: int, zone: str | None) -> None:
        self._maintenance = maintenance
        self._hour = hour
        self._zone = zone
        self._scheduler: Any = None
        self._run: asyncio.Task[int | None] | None = None

    async def start(self) -> None:
        """Begin the schedule."""
        self._scheduler = await asyncio.to_thread(self._made)
        options = {"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        self._scheduler.add_job(self._upkeep, "cron", hour=self._hour, id="upkeep", **options)
        if self._maintenance.overdue():
            soon = datetime.now(self._scheduler.timezone) + timedelta(seconds=SOON_SECONDS)
            self._scheduler.add_job(self._upkeep, "date", run_date=soon, id="overdue upkeep", **options)
        self._scheduler.start()

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

    def _made(self) -> Any:
        from apscheduler.schedulers.asyncio import AsyncIOScheduler

        return AsyncIOScheduler(**({"timezone": self._zone} if self._zone else {}))

    async def _upkeep(self) -> None:
        self._run = asyncio.get_running_loop().create_task(self._maintenance.run_if_due())
        with contextlib.suppress(asyncio.CancelledError):
            forgotten = await self._run
            if forgotten is not None:
                log.info("upkeep: %d memories forgotten", forgotten)

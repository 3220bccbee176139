"""The pools of a sandbox, a pool for each time zone: V8 keeps the zone with which its process began.

The sandbox's own zone has the usual pool. Searches in other zones share a few small pools, each with one worker. A
zone that comes too many replaces the zone that was not used for longest; while all are in use, a search waits."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sandbox.host.pool import Lease, Pool

MOST_ZONES = 4
"""Time zones beside the sandbox's own that have a worker: each takes some 60 MB, and its first search 0.3 s more."""


class ZonePools:
    """Pools by time zone. `make` makes the pool of a zone; `usual` is the pool of the sandbox's own zone, `timezone`."""

    def __init__(self, usual: Pool, timezone: str | None, make: Callable[[str], Pool]) -> None:
        self._usual = usual
        self._timezone = timezone
        self._make = make
        self._others: OrderedDict[str, Pool] = OrderedDict()
        """The least recently used one first."""
        self._users: dict[str, int] = {}
        self._changed = asyncio.Condition()
        self._ended_started = 0
        self._ended_replaced = 0

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(pid for pool in self._all() for pid in pool.pids)

    @property
    def started(self) -> int:
        """Processes started so far in all zones."""
        return self._ended_started + sum(pool.started for pool in self._all())

    @property
    def replaced(self) -> int:
        """Processes so far that died, or were killed in the middle of a request."""
        return self._ended_replaced + sum(pool.replaced for pool in self._all())

    @asynccontextmanager
    async def worker(self, timezone: str | None) -> AsyncIterator[Lease]:
        """Give a place in the pool of this zone, or for None of the sandbox's own zone. Raises as `Pool.worker`."""
        if timezone is None or timezone == self._timezone:
            async with self._usual.worker() as lease:
                yield lease
            return
        pool = await self._enter(timezone)
        try:
            async with pool.worker() as lease:
                yield lease
        finally:
            async with self._changed:
                self._users[timezone] -= 1
                self._changed.notify_all()

    async def aclose(self) -> None:
        """Kill the workers of all zones."""
        await asyncio.gather(*(pool.aclose() for pool in self._all()))

    def _all(self) -> tuple[Pool, ...]:
        return (self._usual, *self._others.values())

    async def _enter(self, timezone: str) -> Pool:
        """Return the pool of this zone, which stays as long as a search uses it."""
        async with self._changed:
            while timezone not in self._others and len(self._others) >= MOST_ZONES:
                unused_zone = next((zone for zone in self._others if not self._users[zone]), None)
                if unused_zone is None:
                    await self._changed.wait()
                else:
                    await self._end(unused_zone)
            if timezone not in self._others:
                self._others[timezone] = self._make(timezone)
                self._users[timezone] = 0
            self._others.move_to_end(timezone)
            self._users[timezone] += 1
            return self._others[timezone]

    async def _end(self, timezone: str) -> None:
        """Kill the workers of a zone; what they counted stays in the sums."""
        pool = self._others.pop(timezone)
        del self._users[timezone]
        await pool.aclose()
        self._ended_started += pool.started
        self._ended_replaced += pool.replaced

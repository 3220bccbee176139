"""Small facts about a tenant in PostgreSQL: whose turn upkeep is and when it ran last, and whether memory is paused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any
from uuid import uuid4

from memory_server.kernel.errors import StorageError
from memory_server.kernel.private import Pause
from memory_server.storage.postgres.connection import Attempt, Database

LEASE_SECONDS, RENEWED_SECONDS = 15 * 60, 60
"""How long a node that ended in the middle keeps others from upkeep, and how often one that goes on says so."""
PAUSE_SECONDS = 1.0
"""How long a node may not know that another one paused: each call asks, and the event loop waits for the answer."""
_SMALL_SECONDS = 2.0
"""Patience for a fact that a call in the event loop asks for."""


class _Row:
    def __init__(self, database: Database, tenant: str) -> None:
        self._database, self._tenant = database, tenant

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row that a statement gives, which may run twice; `%(tenant)s` is the tenant."""

        def work(attempt: Attempt) -> tuple[Any, ...] | None:
            given = {"tenant": self._tenant} | {str(number): value for number, value in enumerate(values, 1)}
            cursor = attempt.connection.execute(query, given)
            found: tuple[Any, ...] | None = cursor.fetchone() if cursor.description else None
            return found

        return self._database.work(work, seconds=_SMALL_SECONDS)


class Lease(_Row):
    """As `FolderLedger`, with a lease: an advisory lock would be lost or kept silently behind a pooler."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        holder = uuid4()
        ours = await asyncio.to_thread(self._take, holder)
        renewing = asyncio.create_task(self._renew(holder)) if ours else None
        try:
            yield ours
        finally:
            if renewing is not None:
                renewing.cancel()
                await asyncio.gather(renewing, return_exceptions=True)
                with suppress(StorageError):  # it ends by itself
                    await asyncio.to_thread(self._one, _GIVE_BACK, holder)

    def _take(self, holder: Any) -> bool:
        return self._one(_TAKE, holder, LEASE_SECONDS) is not None

    async def _renew(self, holder: Any) -> None:
        while True:
            await asyncio.sleep(RENEWED_SECONDS)
            with suppress(StorageError):
                await asyncio.to_thread(self._take, holder)

    def last_run_ms(self) -> int | None:
        row = self._one("select last_run_ms from memory_server.upkeep where tenant = %(tenant)s")
        return row[0] if row else None

    def note_run(self, at_ms: int) -> None:
        self._one(
            "insert into memory_server.upkeep (tenant, last_run_ms) values (%(tenant)s, %(1)s) "
            "on conflict (tenant) do update set last_run_ms = %(1)s",
            at_ms,
        )


_TAKE = (
    "insert into memory_server.upkeep as u (tenant, holder, until) "
    "values (%(tenant)s, %(1)s, now() + make_interval(secs => %(2)s)) on conflict (tenant) do update "
    "set holder = excluded.holder, until = excluded.until "
    "where u.until is null or u.until < now() or u.holder = excluded.holder returning 1"
)
_GIVE_BACK = "update memory_server.upkeep set holder = null, until = null where tenant = %(tenant)s and holder = %(1)s"


class PauseRow(_Row):
    """As `PauseNote`, for all nodes; what another node says counts within `PAUSE_SECONDS`."""

    _asked: tuple[float, tuple[Any, ...] | None] = (-inf, None)

    def read(self, now_ms: int) -> Pause | None:
        """Raises StorageError: it cannot be known."""
        now = time.monotonic()
        at, row = self._asked
        if now - at > PAUSE_SECONDS:
            row = self._one("select until_ms from memory_server.pauses where tenant = %(tenant)s")
            self._asked = now, row
        return None if row is None or (row[0] is not None and row[0] <= now_ms) else Pause(row[0])

    def write(self, pause: Pause) -> None:
        self._one(
            "insert into memory_server.pauses (tenant, until_ms) values (%(tenant)s, %(1)s) "
            "on conflict (tenant) do update set until_ms = %(1)s",
            pause.until_ms,
        )
        self._asked = -inf, None

    def remove(self) -> None:
        self._one("delete from memory_server.pauses where tenant = %(tenant)s")
        self._asked = -inf, None

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

LEASE_SECONDS = 15 * 60
"""The duration of a lease: a node that ended in the middle keeps others from upkeep for so long."""
RENEWED_SECONDS = 60
"""The time between two renewals of a lease."""
PAUSE_SECONDS = 1.0
"""The time for which a node may not know that another one paused: each call asks, and the event loop waits for the
answer."""
_SMALL_SECONDS = 2.0
"""The timeout for a fact that a call in the event loop asks for."""


class _Row:
    """Statements about the row of a tenant."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    def _first_row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        """Return the first row that a statement gives, or None. The statement may run twice; `%(tenant)s` is the
        tenant."""
        parameters = {str(number): value for number, value in enumerate(values, 1)}
        parameters["tenant"] = self._tenant

        def work(attempt: Attempt) -> tuple[Any, ...] | None:
            cursor = attempt.connection.execute(query, parameters)
            if not cursor.description:
                return None
            row: tuple[Any, ...] | None = cursor.fetchone()
            return row

        return self._database.work(work, seconds=_SMALL_SECONDS)


class Lease(_Row):
    """As `FolderLedger`, with a lease: an advisory lock would be lost or kept silently behind a pooler."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        holder = uuid4()
        if not await asyncio.to_thread(self._take, holder):
            yield False
            return
        renewing = asyncio.create_task(self._renew(holder))
        try:
            yield True
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            with suppress(StorageError):  # it ends by itself
                await asyncio.to_thread(self._first_row, _GIVE_BACK, holder)

    def _take(self, holder: Any) -> bool:
        return self._first_row(_TAKE, holder, LEASE_SECONDS) is not None

    async def _renew(self, holder: Any) -> None:
        while True:
            await asyncio.sleep(RENEWED_SECONDS)
            with suppress(StorageError):
                await asyncio.to_thread(self._take, holder)

    def last_run_ms(self) -> int | None:
        row = self._first_row(
            "select last_run_ms from memory_server.upkeep where tenant = %(tenant)s"
        )
        if row is None:
            return None
        last_run_ms: int | None = row[0]
        return last_run_ms

    def note_run(self, at_ms: int) -> None:
        self._first_row(
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

    _row: tuple[Any, ...] | None = None
    _asked = -inf
    """The time of the last question, by the monotonic clock."""

    def read(self, now_ms: int) -> Pause | None:
        """Read the pause of this tenant, which may be some seconds old. Raises StorageError: it cannot be known."""
        now = time.monotonic()
        if now - self._asked > PAUSE_SECONDS:
            self._row = self._first_row(
                "select until_ms from memory_server.pauses where tenant = %(tenant)s"
            )
            self._asked = now
        if self._row is None:
            return None
        (until_ms,) = self._row
        if until_ms is not None and until_ms <= now_ms:
            return None
        return Pause(until_ms)

    def write(self, pause: Pause) -> None:
        self._first_row(
            "insert into memory_server.pauses (tenant, until_ms) values (%(tenant)s, %(1)s) "
            "on conflict (tenant) do update set until_ms = %(1)s",
            pause.until_ms,
        )
        self._asked = -inf

    def remove(self) -> None:
        self._first_row("delete from memory_server.pauses where tenant = %(tenant)s")
        self._asked = -inf

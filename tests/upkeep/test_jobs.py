"""The schedule: daily at its hour, soon after the start when overdue, nothing dropped, nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, cast

import pytest

from memory_server.runtime.upkeep import SOON_SECONDS, Jobs, Maintenance

pytestmark = pytest.mark.anyio


class Upkeep:
    """Stands in for the maintenance; `ran` is set when it was run."""

    def __init__(self, *, overdue: bool, lasts: bool = False) -> None:
        self.due = overdue
        self.lasts = lasts
        self.ran = asyncio.Event()
        self.cancelled = False

    async def overdue(self) -> bool:
        return self.due

    async def run_if_due(self) -> int | None:
        self.ran.set()
        try:
            await asyncio.sleep(60 if self.lasts else 0)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return 0


def jobs(upkeep: Upkeep) -> Jobs:
    return Jobs(cast(Maintenance, upkeep), 4, "Asia/Shanghai")


def scheduled(jobs_of_process: Jobs) -> dict[str, Any]:
    return {job.id: job for job in jobs_of_process._scheduler.get_jobs()}


async def test_upkeep_is_daily_at_its_hour_and_a_missed_run_is_made_up_once() -> None:
    schedule = jobs(Upkeep(overdue=False))
    await schedule.start()
    try:
        [(name, job)] = scheduled(schedule).items()
        assert name == "upkeep"
        assert str(job.trigger) == "cron[hour='4']"
        assert str(job.next_run_time.tzinfo) == "Asia/Shanghai"
        assert job.next_run_time.hour == 4
        assert job.misfire_grace_time is None
        assert job.coalesce is True
        assert job.max_instances == 1
    finally:
        await schedule.stop()


async def test_overdue_upkeep_runs_soon_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SOON_SECONDS <= 60
    monkeypatch.setattr("memory_server.runtime.upkeep.SOON_SECONDS", 0)
    upkeep = Upkeep(overdue=True)
    schedule = jobs(upkeep)
    await schedule.start()
    try:
        async with asyncio.timeout(10):
            await upkeep.ran.wait()
    finally:
        await schedule.stop()


async def test_stopping_ends_upkeep_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_server.runtime.upkeep.SOON_SECONDS", 0)
    upkeep = Upkeep(overdue=True, lasts=True)
    schedule = jobs(upkeep)
    await schedule.start()
    async with asyncio.timeout(10):
        await upkeep.ran.wait()
    await schedule.stop()
    assert upkeep.cancelled
    await schedule.stop()


async def test_a_client_that_leaves_while_the_schedule_begins_ends_it_quietly() -> None:
    class Slow(Upkeep):
        async def overdue(self) -> bool:
            self.ran.set()
            await asyncio.Event().wait()
            return True

    upkeep = Slow(overdue=True)
    schedule = jobs(upkeep)
    beginning = asyncio.create_task(schedule.start())
    async with asyncio.timeout(10):
        await upkeep.ran.wait()
    beginning.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await beginning
    await schedule.stop()
    assert beginning.cancelled()

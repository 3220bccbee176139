"""A search has its own time zone: each zone has a worker of its own, and only a few of them are kept."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from sandbox import Fired, SandboxLimits, TriggerSandbox
from sandbox.errors import SandboxClosed, SandboxUnavailable
from sandbox.host.pool import MOST_ZONES

NOON = datetime(2026, 7, 17, 12, tzinfo=UTC)
CONTEXT: dict[str, Any] = {"messages": [], "conversation_id": "ann", "participants": {}}
HOURS = {
    "Asia/Shanghai": 20, "America/New_York": 8, "Europe/Berlin": 14, "Asia/Tokyo": 21, "Australia/Sydney": 22,
    "Asia/Kolkata": 17,
}  # fmt: skip


async def hour(sandbox: TriggerSandbox, timezone: str | None) -> int:
    triggers = [f"new Date().getHours() === {number}" for number in range(24)]
    verdicts = await sandbox.evaluate(triggers, CONTEXT, now=NOON, seed=1, timezone=timezone)
    (fired,) = [number for number, verdict in enumerate(verdicts) if isinstance(verdict, Fired)]
    return fired


def test_each_search_has_its_zone() -> None:
    async def hours() -> dict[str | None, int]:
        async with TriggerSandbox(SandboxLimits(), timezone="UTC", workers=1) as sandbox:
            hours = {
                zone: await hour(sandbox, zone)
                for zone in ("Asia/Shanghai", "America/New_York", None, "UTC")
            }
            return hours | {"again": await hour(sandbox, "Asia/Shanghai")}

    assert asyncio.run(hours()) == {
        "Asia/Shanghai": 20,
        "America/New_York": 8,
        None: 12,
        "UTC": 12,
        "again": 20,
    }


def test_a_zone_that_was_used_lately_keeps_its_worker_and_the_number_of_zones_is_bounded() -> None:
    async def numbers() -> tuple[int, int, int]:
        async with TriggerSandbox(
            SandboxLimits(), timezone="UTC", workers=1, spare=False
        ) as sandbox:
            for _ in range(3):
                await hour(sandbox, "Asia/Shanghai")
            same = sandbox.workers_started
            for zone in HOURS:
                assert await hour(sandbox, zone) == HOURS[zone]
            return same, len(sandbox.pids), sandbox.workers_started

    same, running, started = asyncio.run(numbers())
    assert same == 1
    assert running <= MOST_ZONES
    assert started == len(HOURS)


def test_searches_in_many_zones_at_once_all_get_an_answer() -> None:
    async def hours() -> list[int]:
        async with TriggerSandbox(
            SandboxLimits(), timezone="UTC", workers=1, spare=False
        ) as sandbox:
            return await asyncio.gather(*(hour(sandbox, zone) for zone in [*HOURS, *HOURS]))

    assert asyncio.run(hours()) == [*HOURS.values(), *HOURS.values()]


def test_days_and_prefilter_follow_the_zone() -> None:
    triggers = ["on_day(7, 18)", "new Date().getDate() === 18", "on_lunar_day(6, 5)"]

    async def fired() -> list[list[bool]]:
        late = datetime(2026, 7, 17, 18, tzinfo=UTC)
        async with TriggerSandbox(SandboxLimits(), timezone="UTC", workers=1) as sandbox:
            rows = []
            for zone in (None, "Asia/Shanghai", None, "Asia/Shanghai"):
                verdicts = await sandbox.evaluate(
                    triggers, CONTEXT, now=late, seed=1, timezone=zone
                )
                rows.append([isinstance(verdict, Fired) for verdict in verdicts])
                await asyncio.sleep(0.1)  # the needs of the triggers are read meanwhile
            return rows

    assert asyncio.run(fired()) == [[False] * 3, [True] * 3] * 2


def test_a_zone_that_v8_does_not_know_is_an_error_and_the_others_go_on() -> None:
    async def tried() -> int:
        async with TriggerSandbox(
            SandboxLimits(), timezone="UTC", workers=1, spare=False
        ) as sandbox:
            with pytest.raises(SandboxUnavailable, match="there is no time zone"):
                await hour(sandbox, "Mars/Olympus")
            return await hour(sandbox, None)

    assert asyncio.run(tried()) == 12


def test_closing_the_sandbox_ends_the_workers_of_all_zones() -> None:
    async def closed() -> tuple[int, int]:
        sandbox = TriggerSandbox(SandboxLimits(), timezone="UTC", workers=1, spare=False)
        await hour(sandbox, "Asia/Tokyo")
        before = len(sandbox.pids)
        await sandbox.aclose()
        with pytest.raises(SandboxClosed):
            await hour(sandbox, "Asia/Tokyo")
        return before, len(sandbox.pids)

    assert asyncio.run(closed()) == (1, 0)

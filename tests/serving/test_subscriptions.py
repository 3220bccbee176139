"""How often what is subscribed to is looked at."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from memory_server.serving.subscriptions import Subscriptions

LOOKS = 4


class Slow(Subscriptions):
    """Looking takes long, as with thousands of conversations."""

    def __init__(self) -> None:
        super().__init__(cast(Any, None))
        self.began: list[float] = []
        self.ended: list[float] = []
        self.enough = asyncio.Event()

    async def look(self) -> None:
        clock = asyncio.get_running_loop().time
        self.began.append(clock())
        await asyncio.sleep(0.02)
        self.ended.append(clock())
        if len(self.began) > LOOKS:
            self.enough.set()


@pytest.mark.anyio
async def test_looking_takes_a_tenth_of_the_time() -> None:
    """A sleep is never shorter than asked for, so the bound holds on a machine that is busy, too."""
    subscriptions = Slow()
    watching = asyncio.create_task(subscriptions.watch(0))
    await asyncio.wait_for(subscriptions.enough.wait(), 30)
    watching.cancel()
    for look in range(LOOKS):
        took = subscriptions.ended[look] - subscriptions.began[look]
        assert subscriptions.began[look + 1] - subscriptions.ended[look] >= 8.9 * took

"""How often what is subscribed to is looked at."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest

from memory_server.serving.subscriptions import Subscriptions

LOOKS = 4


@pytest.mark.anyio
async def test_looking_takes_a_tenth_of_the_time_however_often_something_happens() -> None:
    """A sleep is never shorter than asked for, so the bound holds on a machine that is busy, too."""
    clock = asyncio.get_running_loop().time
    began: list[float] = []
    ended: list[float] = []
    enough = asyncio.Event()

    async def slow(_: Any, uri: str) -> int:
        began.append(clock())
        await asyncio.sleep(0.02)
        ended.append(clock())
        subscriptions.stir()
        if len(ended) > LOOKS:
            enough.set()
        return 0

    subscriptions = Subscriptions(slow, look_seconds=0)
    context: Any = SimpleNamespace(session=object())
    async with subscriptions.running():
        await subscriptions.subscribe(context, types.SubscribeRequestParams(uri="memory://stats/overview"))
        await asyncio.wait_for(enough.wait(), 30)
    for look in range(1, LOOKS):
        assert began[look + 1] - ended[look] >= 8.9 * (ended[look] - began[look])

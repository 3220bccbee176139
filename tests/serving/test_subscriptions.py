"""How often what is subscribed to is looked at, who can subscribe, and how all streams are ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp import Client, MCPError

from memory_server import open_memory
from memory_server.serving.server import build_server
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
        look_seconds = subscriptions.ended[look] - subscriptions.began[look]
        assert subscriptions.began[look + 1] - subscriptions.ended[look] >= 8.9 * look_seconds


@pytest.mark.anyio
async def test_closing_ends_every_stream_with_its_last_frame(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        subscriptions = Subscriptions(lambda _: app.call)
        async with Client(build_server(lambda _: app.call, subscriptions=subscriptions)) as client:
            async with client.listen(resource_subscriptions=["memory://stats/overview"]) as events:
                subscriptions.close()
                with anyio.fail_after(20):
                    # The iteration ends without an error only where the last frame came.
                    assert [event async for event in events] == []
            async with client.listen(resource_subscriptions=["memory://stats/overview"]):
                pass


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
@pytest.mark.parametrize("offered", [True, False])
async def test_a_server_without_lasting_sessions_offers_no_subscription_of_the_handshake_era(
    tmp_path: Path, offered: bool
) -> None:
    async with open_memory(tmp_path) as app:
        server = build_server(lambda _: app.call, subscribe=offered)
        async with Client(server, mode="legacy") as client:
            assert client.server_capabilities is not None
            assert client.server_capabilities.resources is not None
            assert bool(client.server_capabilities.resources.subscribe) is offered
            if not offered:
                with pytest.raises(MCPError):
                    await client.subscribe_resource("memory://stats/overview")
        async with (
            Client(server) as client,
            client.listen(resource_subscriptions=["memory://stats/overview"]),
        ):
            pass

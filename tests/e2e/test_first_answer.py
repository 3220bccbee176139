"""What a client waits for, and what it does not: the slow parts are loaded after the first answer."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator

import pytest
from mcp.server.lowlevel import Server

from memory_server.serving.stdio import runner

pytestmark = pytest.mark.anyio

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


class Ends:
    """Both ends of both pipes of a server that is served in this process."""

    def __init__(self) -> None:
        self.server_reads, self.client_writes = os.pipe()
        self.client_reads, self.server_writes = os.pipe()
        self.open = {self.server_reads, self.client_writes, self.client_reads, self.server_writes}

    def close(self, descriptor: int) -> None:
        self.open.remove(descriptor)
        os.close(descriptor)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    for descriptor in tuple(ends.open):
        ends.close(descriptor)


async def test_settling_begins_after_the_first_answer_and_ends_with_the_client(ends: Ends) -> None:
    settled = asyncio.Event()
    ended = asyncio.Event()

    async def settle() -> None:
        settled.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    serving = asyncio.create_task(
        runner.serve(Server("test"), settle, (ends.server_reads, ends.server_writes))
    )
    for _ in range(20):
        await asyncio.sleep(0)
    assert not settled.is_set()
    os.write(ends.client_writes, json.dumps(INITIALIZE).encode() + b"\n")
    async with asyncio.timeout(10):
        await settled.wait()
        # It has left before the slow parts begin: it is there, without another turn of the event loop.
        assert json.loads(os.read(ends.client_reads, 100_000))["id"] == 1
        ends.close(ends.client_writes)
        await serving
    assert ended.is_set()


async def test_a_failure_beside_the_answers_is_logged_and_the_answers_go_on(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    failed = asyncio.Event()

    async def settle() -> None:
        failed.set()
        raise ValueError("no dictionary")

    serving = asyncio.create_task(
        runner.serve(Server("test"), settle, (ends.server_reads, ends.server_writes))
    )
    async with asyncio.timeout(10):
        os.write(ends.client_writes, json.dumps(INITIALIZE).encode() + b"\n")
        await failed.wait()
        os.read(ends.client_reads, 100_000)
        os.write(ends.client_writes, b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
        answer = await asyncio.to_thread(os.read, ends.client_reads, 100_000)
        assert json.loads(answer)["id"] == 2
        ends.close(ends.client_writes)
        await serving
    assert "no dictionary" in caplog.text

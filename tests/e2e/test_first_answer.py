"""What a client waits for, and what it does not: the slow parts are loaded after the first answer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from memory_server import stdio

pytestmark = pytest.mark.anyio


async def test_settling_begins_after_the_first_answer_and_ends_with_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    to_server, reading = anyio.create_memory_object_stream[SessionMessage | Exception](8)
    writing, from_server = anyio.create_memory_object_stream[SessionMessage](8)
    settled, ended = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def streams() -> Any:
        yield reading, writing

    async def settle() -> None:
        settled.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(stdio, "stdio_server", streams)
    serving = asyncio.create_task(stdio.serve(Server("test"), settle))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not settled.is_set()
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    request = types.JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize", params=about)
    await to_server.send(SessionMessage(request))
    async with asyncio.timeout(10):
        answer = await from_server.receive()
        assert getattr(answer.message, "id", None) == 1
        assert not settled.is_set(), "the answer is out before the slow parts begin"
        await settled.wait()
        await to_server.aclose()
        await serving
    assert ended.is_set()
    for stream in (reading, writing, from_server):
        await stream.aclose()

"""What is read from a client waits in bounds: a flood of one kind stops neither other kinds nor the event loop."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from mcp.shared.message import SessionMessage

from memory_server.serving.stdio.lines import _AT_ONCE, MOST_LASTING, MOST_LASTING_BYTES, MOST_UNTAKEN, Lines

pytestmark = pytest.mark.anyio
PATIENCE = 30.0
"""Seconds for what should happen at once, on a machine that others use too."""


@dataclass
class Client:
    """The other end of both pipes."""

    lines: Lines
    stdin: int
    stdout: int

    def send(self, *messages: Any) -> threading.Thread:
        """Write in a thread: whoever is read no further waits."""
        data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        thread = threading.Thread(target=self._write, args=(data,), daemon=True)
        thread.start()
        return thread

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.stdin, data) :]

    async def taken(self) -> dict[str, Any]:
        """The next message, as the session takes it."""
        item = await asyncio.wait_for(self.lines.incoming.receive(), PATIENCE)
        assert isinstance(item, SessionMessage)
        return item.message.model_dump(exclude_unset=True)

    async def answer(self) -> dict[str, Any]:
        """The next line that was written."""
        data = await asyncio.wait_for(asyncio.to_thread(self._line), PATIENCE)
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _line(self) -> bytes:
        data = b""
        while not data.endswith(b"\n"):
            data += os.read(self.stdout, 1)
        return data


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    reading, stdin = os.pipe()
    stdout, writing = os.pipe()
    lines = Lines(reading, writing, ended=lambda: None, broken=lambda: None, first=lambda: None)
    lines.start()
    try:
        yield Client(lines, stdin, stdout)
    finally:
        lines.stop()
        os.close(stdin)
        await lines.drain(PATIENCE)
        os.close(stdout)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 - it happens in other threads
            await asyncio.sleep(0.001)


def listen(id_: object, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": params}


PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}


async def test_lasting_requests_too_many_are_refused_and_what_follows_is_read() -> None:
    async with connected() as client:
        client.send(*(listen(number) for number in range(MOST_LASTING + 2)), PING)
        assert [(await client.taken())["id"] for _ in range(MOST_LASTING + 1)] == [*range(MOST_LASTING), "ping"]
        for number in (MOST_LASTING, MOST_LASTING + 1):
            refused = await client.answer()
            assert refused["id"] == number
            said = f"At most {MOST_LASTING} requests subscriptions/listen can be open at once; cancel one first."
            assert refused["error"]["message"] == said
        client.lines.in_flight.leave(7)  # the client has cancelled it
        client.send(listen("in its place"), PING)
        assert [(await client.taken())["id"] for _ in range(2)] == ["in its place", "ping"]


async def test_lasting_requests_are_bounded_in_bytes_too() -> None:
    async with connected() as client:
        large = "x" * (MOST_LASTING_BYTES // 3)
        client.send(*(listen(number, x=large) for number in range(3)), PING)
        assert [(await client.taken())["id"] for _ in range(3)] == [0, 1, "ping"]
        assert (await client.answer())["id"] == 2


async def test_a_flood_of_notifications_waits_in_the_pipe() -> None:
    async with connected() as client:
        count = 20 * MOST_UNTAKEN
        notes = [{"jsonrpc": "2.0", "method": "notifications/n", "params": {"n": n}} for n in range(count)]
        client.send(*notes, {"jsonrpc": "2.0", "id": 1, "result": {}}, PING)
        held = client.lines.in_flight.untaken
        await until(lambda: held.count == MOST_UNTAKEN)
        for number in range(count):
            assert (await client.taken())["params"] == {"n": number}
            assert held.count <= MOST_UNTAKEN
        assert "result" in await client.taken()
        assert (await client.taken())["id"] == "ping"
        assert held.count == held.bytes == 0


async def test_a_notification_is_read_while_as_many_requests_as_may_be_wait_for_their_answers() -> None:
    async with connected() as client:
        client.send(*({**PING, "id": n} for n in range(1000)), {"jsonrpc": "2.0", "method": "notifications/cancelled"})
        for number in range(1000):
            assert (await client.taken())["id"] == number
        assert (await client.taken())["method"] == "notifications/cancelled"


async def test_others_have_a_turn_while_messages_wait() -> None:
    async with connected() as client:
        client.send(*({**PING, "id": number} for number in range(900)))
        await until(lambda: client.lines.in_flight.asked.count == 900)
        await asyncio.sleep(0)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        for _ in range(900):
            await client.lines.incoming.receive()
        beside.cancel()
        assert turns >= 900 // (2 * _AT_ONCE)


async def test_it_is_quiet_when_only_lasting_requests_are_left() -> None:
    async with connected() as client:
        client.send(listen("L"), PING)
        assert [(await client.taken())["id"] for _ in range(2)] == ["L", "ping"]
        quiet = asyncio.create_task(client.lines.quiet(PATIENCE))
        await asyncio.sleep(0)
        assert not quiet.done()
        client.lines.in_flight.leave("ping")
        await asyncio.wait_for(quiet, PATIENCE / 2)

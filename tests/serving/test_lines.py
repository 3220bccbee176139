"""What is read from a client waits in bounds: a flood of one kind stops neither other kinds nor the event loop."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from memory_server.serving.stdio.lines import MOST_IN_FLIGHT, Lines

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
        lines.end()
        lines.incoming.close()
        os.close(stdin)
        await lines.drain(PATIENCE)
        os.close(stdout)


def listen(id_: object, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": params}


def answer_to(id_: int | str) -> SessionMessage:
    return SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=id_, result={}))


PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}


async def test_with_a_control_socket_no_thread_stays_and_nothing_is_written_after_the_end() -> None:
    """Another client's file may soon have the number of this one's."""
    ours, theirs = socket.socketpair()
    reading, stdin = os.pipe()
    stdout, writing = os.pipe()
    with ours, theirs:
        lines = Lines(reading, writing, ended=bool, broken=bool, first=bool, control=theirs)
        client, before = Client(lines, stdin, stdout), set(threading.enumerate())
        lines.start()
        begun = set(threading.enumerate()) - before
        # More requests than may have no answer, and a client that reads a long answer slowly.
        client.send(*({**PING, "id": n} for n in range(MOST_IN_FLIGHT + 20)))
        for _ in range(MOST_IN_FLIGHT):
            await client.taken()
        big = types.JSONRPCResponse(jsonrpc="2.0", id=0, result={"text": "x" * 3_000_000})
        await lines.send(SessionMessage(big))
        ended = threading.Event()

        def read_slowly() -> None:
            while not ended.wait(0.002):
                os.read(stdout, 4096)

        reader = threading.Thread(target=read_slowly, daemon=True)
        reader.start()
        lines.end()
        await lines.drain(0.2)
        assert not [thread.name for thread in begun if thread.is_alive()]
        ended.set()
        reader.join(PATIENCE)
        lines.incoming.close()
        for each in (reading, stdin, stdout, writing):
            os.close(each)


async def test_requests_wait_in_the_pipe_while_as_many_as_may_be_have_no_answer() -> None:
    async with connected() as client:
        client.send(*({**PING, "id": n} for n in range(MOST_IN_FLIGHT + 20)))
        for number in range(MOST_IN_FLIGHT):
            assert (await client.taken())["id"] == number
        next_one = asyncio.create_task(client.taken())
        await asyncio.sleep(0.1)
        assert not next_one.done()
        for number in range(20):
            await client.lines.send(answer_to(number))
        assert (await next_one)["id"] == MOST_IN_FLIGHT
        for number in range(MOST_IN_FLIGHT + 1, MOST_IN_FLIGHT + 20):
            assert (await client.taken())["id"] == number


async def test_refusals_that_the_client_does_not_read_count_too() -> None:
    async with connected() as client:
        flood = client.send(*["not an object" * 5] * 20_000, PING)
        await asyncio.sleep(0.3)
        assert flood.is_alive()
        for _ in range(20_000):
            assert (await client.answer())["error"]["code"] == -32600
        assert (await client.taken())["id"] == "ping"


async def test_a_flood_of_notifications_waits_in_the_pipe() -> None:
    async with connected() as client:
        count = 20_000
        notes = [{"jsonrpc": "2.0", "method": "notifications/n", "params": {"n": n}} for n in range(count)]
        flood = client.send(*notes, {"jsonrpc": "2.0", "id": 1, "result": {}}, PING)
        await asyncio.sleep(0.3)
        assert flood.is_alive(), "no more is read than the session takes"
        for number in range(count):
            assert (await client.taken())["params"] == {"n": number}
        assert "result" in await client.taken()
        assert (await client.taken())["id"] == "ping"


async def test_a_notification_is_read_while_as_many_requests_as_may_be_wait_for_their_answers() -> None:
    async with connected() as client:
        client.send(
            *({**PING, "id": n} for n in range(MOST_IN_FLIGHT)),
            *map(listen, range(MOST_IN_FLIGHT, MOST_IN_FLIGHT + 3)),
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        )
        for number in range(MOST_IN_FLIGHT + 3):
            assert (await client.taken())["id"] == number
        assert (await client.taken())["method"] == "notifications/cancelled"


async def test_others_have_a_turn_while_messages_wait() -> None:
    async with connected() as client:
        client.send(*({**PING, "id": number} for number in range(900)))
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
        assert turns >= 900 // 32


async def test_it_is_quiet_when_only_lasting_requests_are_left() -> None:
    async with connected() as client:
        client.send(listen("L"), PING)
        assert [(await client.taken())["id"] for _ in range(2)] == ["L", "ping"]
        quiet = asyncio.create_task(client.lines.quiet(PATIENCE))
        await asyncio.sleep(0)
        assert not quiet.done()
        await client.lines.send(answer_to("ping"))
        await asyncio.wait_for(quiet, PATIENCE / 2)

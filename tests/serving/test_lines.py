"""What is read from a client waits in bounds: a flood of one kind stops neither other kinds nor the event loop."""

from __future__ import annotations

import asyncio
import json
import os
import select
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from memory_server.serving.stdio.lines import MOST_IN_FLIGHT, Descriptors, Events, Lines

pytestmark = pytest.mark.anyio
Kind = Callable[[int, int], Awaitable[Lines]]
PATIENCE = 30.0
"""Seconds for what should happen at once, on a machine that others use too."""
FLOOD = 6_000
"""Messages of some 400 kB: more than two pipes and the buffers between them hold."""


@dataclass
class Client:
    """The other end of both pipes."""

    lines: Lines
    stdin: int
    stdout: int
    unread: bytes = b""

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
        while b"\n" not in self.unread:
            self.unread += os.read(self.stdout, 1 << 16)
        line, _, self.unread = self.unread.partition(b"\n")
        return line


EVENTS = Events(ended=lambda: None, broken=lambda: None, first=lambda: None)


class Pipes:
    """A stream of bytes over two pipes."""

    def __init__(self, reader: asyncio.StreamReader, writing: int) -> None:
        self._reader = reader
        self._writing = writing

    async def read(self) -> bytes:
        return await self._reader.read(1 << 16)

    async def write(self, data: bytes) -> None:
        unwritten = memoryview(data)
        while unwritten:
            count = await asyncio.to_thread(os.write, self._writing, unwritten[: select.PIPE_BUF])
            unwritten = unwritten[count:]


async def stream_lines(reading: int, writing: int) -> Lines:
    reader = asyncio.StreamReader(limit=1 << 16)
    pipe = os.fdopen(reading, "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return Lines(Pipes(reader, writing), EVENTS)


async def descriptor_lines(reading: int, writing: int) -> Lines:
    return Lines(Descriptors(reading, writing), EVENTS)


@pytest.fixture(params=[descriptor_lines, stream_lines])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Lines over descriptors and over a stream."""
    kind: Kind = request.param
    return kind


@asynccontextmanager
async def connected(kind: Kind) -> AsyncIterator[Client]:
    reading, stdin = os.pipe()
    stdout, writing = os.pipe()
    lines = await kind(reading, writing)
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


async def test_nothing_is_written_to_a_stream_after_the_end() -> None:
    """More requests than may have no answer, and a client that reads a long answer slowly."""
    pieces: list[bytes] = []
    has_piece = asyncio.Event()

    class Slow:
        async def read(self) -> bytes:
            await asyncio.sleep(0)
            return b"".join(
                json.dumps({**PING, "id": n}).encode() + b"\n" for n in range(MOST_IN_FLIGHT + 20)
            )

        async def write(self, data: bytes) -> None:
            pieces.append(data)
            has_piece.set()
            await asyncio.Event().wait()

    lines = Lines(Slow(), EVENTS)
    tasks_before = asyncio.all_tasks()
    lines.start()
    begun = asyncio.all_tasks() - tasks_before
    for _ in range(MOST_IN_FLIGHT):
        await asyncio.wait_for(lines.incoming.receive(), PATIENCE)
    await lines.send(answer_to(0))
    await asyncio.wait_for(has_piece.wait(), PATIENCE)
    await lines.send(answer_to(1))
    lines.end()
    await lines.drain(0.2)
    assert all(task.done() for task in begun)
    assert len(pieces) == 1
    lines.incoming.close()


async def test_requests_wait_in_the_pipe_while_as_many_as_may_be_have_no_answer(kind: Kind) -> None:
    async with connected(kind) as client:
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


async def test_refusals_that_the_client_does_not_read_count_too(kind: Kind) -> None:
    async with connected(kind) as client:
        flood = client.send(*["not an object" * 5] * FLOOD, PING)
        await asyncio.sleep(0.3)
        assert flood.is_alive()
        for _ in range(FLOOD):
            assert (await client.answer())["error"]["code"] == -32600
        assert (await client.taken())["id"] == "ping"


async def test_a_flood_of_notifications_waits_in_the_pipe(kind: Kind) -> None:
    async with connected(kind) as client:
        notes = [
            {"jsonrpc": "2.0", "method": "notifications/n", "params": {"n": n}}
            for n in range(FLOOD)
        ]
        flood = client.send(*notes, {"jsonrpc": "2.0", "id": 1, "result": {}}, PING)
        await asyncio.sleep(0.3)
        assert flood.is_alive(), "no more is read than the session takes"
        for number in range(FLOOD):
            assert (await client.taken())["params"] == {"n": number}
        assert "result" in await client.taken()
        assert (await client.taken())["id"] == "ping"


async def test_a_notification_is_read_while_as_many_requests_as_may_be_wait_for_their_answers(
    kind: Kind,
) -> None:
    async with connected(kind) as client:
        client.send(
            *({**PING, "id": n} for n in range(MOST_IN_FLIGHT)),
            *map(listen, range(MOST_IN_FLIGHT, MOST_IN_FLIGHT + 3)),
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        )
        for number in range(MOST_IN_FLIGHT + 3):
            assert (await client.taken())["id"] == number
        assert (await client.taken())["method"] == "notifications/cancelled"


async def test_others_have_a_turn_while_messages_wait(kind: Kind) -> None:
    async with connected(kind) as client:
        client.send(*({**PING, "id": number} for number in range(900)))
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(count_turns())
        for _ in range(900):
            await client.lines.incoming.receive()
        beside.cancel()
        assert turns >= 900 // 32


async def test_it_is_quiet_when_only_lasting_requests_are_left(kind: Kind) -> None:
    async with connected(kind) as client:
        client.send(listen("L"), PING)
        assert [(await client.taken())["id"] for _ in range(2)] == ["L", "ping"]
        quiet = asyncio.create_task(client.lines.quiet(PATIENCE))
        await asyncio.sleep(0)
        assert not quiet.done()
        await client.lines.send(answer_to("ping"))
        await asyncio.wait_for(quiet, PATIENCE / 2)

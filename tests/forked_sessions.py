"""The official client with a server of forked_programs.py; what the client does to start and end a real one is met in
e2e/test_stdio_server.py."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from forked_programs import PATIENCE, ForkedProgram, start
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

_PIECE_BYTES = 1 << 16


@asynccontextmanager
async def forked_server(folder: Path, *flags: str) -> AsyncIterator[TransportStreams]:
    """The transport of a `Client` whose server runs on this folder and has ended with the session."""
    read_writer, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, write_reader = anyio.create_memory_object_stream[SessionMessage](0)
    arguments: list[str | Path] = ["--data-dir", folder, *flags]
    pipe = subprocess.PIPE
    with start(arguments, stdin=pipe, stdout=pipe) as process:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_read, process, read_writer)
                group.start_soon(_write, process, write_reader)
                yield read_stream, write_stream
                # The writer ends with the stream and closes the input of the server; when the server ends, the reader
                # ends.
                write_stream.close()
                read_stream.close()
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(process.wait, PATIENCE)
        finally:
            process.kill()


async def _read(
    process: ForkedProgram, answers: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    rest = b""
    async with answers:
        while piece := await anyio.to_thread.run_sync(
            os.read, descriptor, _PIECE_BYTES, abandon_on_cancel=True
        ):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                with suppress(anyio.BrokenResourceError):  # the session has ended
                    await answers.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))


async def _write(
    process: ForkedProgram, messages: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    assert process.stdin is not None
    with process.stdin as server_input, messages:
        async for sent in messages:
            line = sent.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            await anyio.to_thread.run_sync(_send, server_input, line.encode())


def _send(server_input: IO[bytes], line: bytes) -> None:
    server_input.write(line)
    server_input.flush()

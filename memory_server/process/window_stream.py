"""The shared process's half of a window: what `pump.py` carries, as a stream of bytes and an exit status."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Self

from memory_server.process.protocol import (
    END,
    ERRORS,
    FRAME_HEAD_BYTES,
    INPUT,
    INPUT_ENDED,
    OUTPUT,
    PIECE_BYTES,
    STATUS_OF_WINDOW,
    frame,
    length_in,
)

_CLOSE_SECONDS = 1.0
"""How long a client may take to read the end: it exits itself after as long."""


class WindowStream:
    """Standard input and output of the command at the other end of `connection`. `end` is called when the session must
    end: the command was told to, or it is gone."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._end = end

    @classmethod
    @asynccontextmanager
    async def over(cls, connection: socket.socket, end: Callable[[], None]) -> AsyncIterator[Self]:
        """Open the stream over a connection, which is closed at the end."""
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            yield cls(reader, writer, end)
        finally:
            writer.transport.abort()

    async def read(self) -> bytes:
        """Return the next bytes of the input; empty if it has ended, or the session must end."""
        try:
            head = await self._reader.readexactly(FRAME_HEAD_BYTES)
            length = length_in(head)
            kind = head[:1]
            if kind == INPUT and length <= PIECE_BYTES:
                return await self._reader.readexactly(length)
        except (OSError, EOFError):  # the command is gone
            kind = END
        if kind != INPUT_ENDED:
            self._end()
        return b""

    async def write(self, data: bytes | memoryview) -> None:
        """Write to the output, as fast as the command takes it. Raise OSError if the command is gone."""
        for start in range(0, len(data), PIECE_BYTES):
            self._writer.write(frame(OUTPUT, bytes(data[start : start + PIECE_BYTES])))
            await self._writer.drain()

    def write_errors(self, text: bytes) -> None:
        """Write to standard error, of which the command takes a page."""
        if text:
            self._writer.write(frame(ERRORS, text[:PIECE_BYTES]))

    async def close(self, status: int) -> None:
        """Tell the command its exit status, after which it reads no more."""
        self._writer.write(frame(STATUS_OF_WINDOW, b"%d" % status))
        self._writer.close()
        with suppress(OSError, TimeoutError):  # it is gone, or reads nothing
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._writer.wait_closed()

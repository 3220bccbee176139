"""The process of a trigger worker, as the event loop that needs it at the moment sees it."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import IO, Protocol

from sandbox.host import process as host_process


class Program(Protocol):
    """What is used of `subprocess.Popen`."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...

    def wait(self) -> int | None: ...

    def kill(self) -> None: ...


class ConnectedProcess:
    """`asyncio.subprocess.Process` of a program that outlives the event loop."""

    def __init__(self, program: Program, settings: str) -> None:
        self.program = program
        self.settings = settings
        self.pid = program.pid
        self.stdout = asyncio.StreamReader(limit=host_process._BUFFER_BYTES)
        self._ended = asyncio.Event()
        """Set when the process has ended, and when it leaves this event loop."""
        self._descriptor = os.pidfd_open(program.pid)
        self._output: asyncio.ReadTransport | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._end)

    @classmethod
    async def connected(cls, program: Program, settings: str) -> ConnectedProcess:
        """With streams of this event loop, which have descriptors of their own."""
        process = cls(program, settings)
        try:
            await process._connect()
        except BaseException:  # the search was given up meanwhile
            process._stop_watching()
            if process._output is not None:
                process._output.close()
            program.kill()
            program.wait()
            close_pipes(program)
            raise
        return process

    async def _connect(self) -> None:
        program = self.program
        assert program.stdin is not None
        assert program.stdout is not None
        self._output, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.stdout),
            os.fdopen(os.dup(program.stdout.fileno()), "rb", 0),
        )
        transport, protocol = await self._loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
            os.fdopen(os.dup(program.stdin.fileno()), "wb", 0),
        )
        self.stdin = asyncio.StreamWriter(transport, protocol, None, self._loop)

    @property
    def returncode(self) -> int | None:
        return self.program.poll()

    async def wait(self) -> int | None:
        await self._ended.wait()
        return self.program.poll()

    def kill(self) -> None:
        self.program.kill()

    async def disconnect(self) -> None:
        """Frees what belongs to this event loop. The process goes on."""
        self._stop_watching()
        assert self._output is not None
        self._output.close()
        self.stdin.close()
        await asyncio.sleep(0)  # the transports free their descriptors

    def _end(self) -> None:
        """The process has ended."""
        self.program.wait()
        self._stop_watching()
        close_pipes(self.program)

    def _stop_watching(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)


def close_pipes(program: Program) -> None:
    for pipe in (program.stdin, program.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()

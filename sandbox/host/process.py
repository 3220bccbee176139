"""One worker process, seen from the parent: start it, talk to it, kill it. Knows nothing of triggers.

The child has its own pipes for stdin and stdout (the server's stdout is a protocol), and its stderr is discarded. Its
environment holds only what Python needs to start: secrets in the server's environment stay in the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
from collections import deque
from collections.abc import AsyncIterator, Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from languages import _
from sandbox.errors import ProtocolError, SandboxUnavailable
from sandbox.limits import SandboxLimits
from sandbox.protocol import MOST_ANSWER_BYTES, READ_BYTES, Decoder, Frame, Kind, encode
from sandbox.values import JsonObject

POLL_SECONDS = 0.02
"""V8 can fill some 2 GB a second, so up to 40 MB may be missed between two looks at the memory of a worker."""
BASE_MB = 100
"""MiB a worker has resident before it meets a trigger; what a search may add is `SandboxLimits.data_mb`."""
_BUFFER_BYTES = 2**20
"""Bytes of its output that are read ahead."""
END_SECONDS = 1.0
"""How long a process that was killed, or whose output has ended, may take to end."""
KEPT_ENVIRONMENT = (
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
    "PATH",
)
# `-I` ignores PYTHONPATH and the user's site folder, so the import path is an argument. The worker does not need ssl:
# asyncio works without it, and each start saves 15 ms and 4 MB.
_START = (
    "import sys,json;sys.modules['ssl']=None;s=json.loads(sys.argv[1]);"
    "sys.path[:]=s['path']+[p for p in sys.path if p not in s['path']];"
    "from sandbox.worker.main import main;main(s)"
)


class WorkerDied(Exception):
    """The process ended, or sent a wrong answer, during a request. `code`: exit code, negative for a signal. `clean`:
    nothing of an earlier request was still running in it."""

    def __init__(self, code: int | None, *, clean: bool = True) -> None:
        super().__init__(_("the worker process ended ({code})", code))
        self.code = code
        self.clean = clean


def import_path() -> list[str]:
    """Return the parent's import path in its order, absolute; the folder of this package at the end if it is missing."""
    home = str(Path(__file__).resolve().parent.parent)
    entries = [str(Path(entry).absolute()) for entry in sys.path if entry]
    if home not in entries:
        entries.append(home)
    return entries


def environment(timezone: str | None) -> dict[str, str]:
    """Return the environment of a worker."""
    variables = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    zone = timezone or os.environ.get("TZ")
    if zone:
        variables["TZ"] = zone
    return variables


def resident_mb(pid: int) -> float:
    """MiB of memory that the process has resident; 0.0 when it has ended."""
    psutil: Any = import_module("psutil")  # only where it is needed, and it has no types
    try:
        return float(psutil.Process(pid).memory_info().rss) / 2**20
    except psutil.Error:
        return 0.0


def _command(settings: JsonObject) -> tuple[str, ...]:
    return sys.executable, "-I", "-X", "utf8", "-c", _START, json.dumps(settings)


async def _run_program(settings: JsonObject, timezone: str | None) -> asyncio.subprocess.Process:
    """Start a process that runs worker/main.py with these settings. Raises OSError."""
    return await asyncio.create_subprocess_exec(
        *_command(settings),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(timezone),
        limit=_BUFFER_BYTES,
    )


class WorkerProcess:
    """A started worker. Not for two requests at once: the supervisor hands it to one search at a time."""

    def __init__(self, process: asyncio.subprocess.Process, most_mb: int) -> None:
        self._process = process
        self._most_mb = most_mb
        self._decoder = Decoder(MOST_ANSWER_BYTES)
        self._frames: deque[Frame] = deque()
        self._ready = True
        self._clean = True
        """Whether nothing of an earlier request still ran when the worker was last ready."""
        self._request: str | None = None
        self.hello: JsonObject = {}

    @classmethod
    async def start(
        cls,
        limits: SandboxLimits,
        timezone: str | None,
        *,
        all_layers: bool = False,
        without: Collection[str] = (),
    ) -> WorkerProcess:
        """Start a worker and wait until it is ready. Raises SandboxUnavailable; the message says why. `all_layers`: a
        missing layer of protection is an error. `without`: layers to leave out (for tests)."""
        settings = {
            "path": import_path(),
            "parent": os.getpid(),
            "heap_mb": limits.heap_mb,
            "data_mb": limits.data_mb,
            "timezone": timezone,
            "required": all_layers,
            "without": sorted(without),
        }
        try:
            process = await _run_program(settings, timezone)
        except OSError as error:
            raise SandboxUnavailable(
                "the trigger worker could not be started: {reason}", error
            ) from error

        worker = cls(process, BASE_MB + limits.data_mb)
        try:
            await worker._take_hello(limits.start_seconds)
        except BaseException:
            # Also when the caller is cancelled: no process and no pipe may remain.
            await worker.kill()
            await worker._discard_output()
            raise

        return worker

    async def _take_hello(self, seconds: float) -> None:
        """Wait so long until the worker says that it is ready, and keep what it says. Raises SandboxUnavailable if it
        ended, is late, or says why it cannot start."""
        try:
            async with asyncio.timeout(seconds):
                frame = await self.receive()
        except WorkerDied as error:
            raise SandboxUnavailable(
                "the trigger worker ended while starting (code {code})", error.code
            ) from error
        except TimeoutError as error:
            message = _("the trigger worker was not ready within {start_seconds:g} s", seconds)
            raise SandboxUnavailable(message) from error
        if frame.kind is not Kind.HELLO:
            why = frame.body.get("message", frame.kind)
            raise SandboxUnavailable("the trigger worker could not start: {why}", why)
        self.hello = frame.body

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ended(self) -> None:
        """Wait until the process has ended."""
        await self._process.wait()

    @contextlib.asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        """Watch the memory where the kernel does not bound it, and kill a worker that has too much."""
        memory_layer = self.hello.get("layers", {}).get("memory", {})
        if memory_layer.get("holds"):
            yield
            return
        watch = asyncio.ensure_future(self._watch_memory())
        try:
            yield
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    async def _watch_memory(self) -> None:
        """Kill the process as soon as it has too much."""
        # No event tells that a process grows.
        while resident_mb(self.pid) <= self._most_mb:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._process.kill()

    async def ready(self) -> None:
        """Wait until the worker has finished its last request. Raises WorkerDied; no trigger is to blame for that.
        Raises it also when the worker sends more than its answer: that could be taken for the next answer."""
        if not self._ready:
            frame = await self.receive()
            if frame.kind is not Kind.READY:
                raise WorkerDied(await self.kill())
            self._clean = frame.body.get("clean") is not False
        self._ready = True
        if self._frames or self._decoder.pending:
            raise WorkerDied(await self.kill())

    async def send(self, frame: Frame) -> None:
        """Send a request under an id of its own. Raises WorkerDied."""
        assert self._process.stdin is not None
        self._ready = False
        # A worker cannot guess it, so it cannot write an answer before the question.
        self._request = secrets.token_hex(8)
        request = Frame(frame.kind, {**frame.body, "id": self._request})
        try:
            self._process.stdin.write(encode(request))
            await self._process.stdin.drain()
        except (ConnectionError, OSError) as error:
            raise WorkerDied(await self.kill(), clean=self._clean) from error

    async def receive(self) -> Frame:
        """Return the next frame that answers the last request; there may be several, and it waits without a limit of
        time. Raises WorkerDied at the end of output and for a wrong answer (one that breaks the protocol or has the
        id of another request); the process is killed then."""
        assert self._process.stdout is not None
        try:
            while not self._frames:
                piece = await self._process.stdout.read(READ_BYTES)
                if not piece:
                    raise WorkerDied(await self.kill(), clean=self._clean)
                self._frames.extend(self._decoder.feed(piece))
        except (ConnectionError, ProtocolError) as error:
            raise WorkerDied(await self.kill(), clean=self._clean) from error
        frame = self._frames.popleft()
        if frame.body.get("id") != self._request:
            raise WorkerDied(await self.kill(), clean=self._clean)
        return frame

    async def kill(self) -> int | None:
        """End the process if it has not ended, wait for its end, free the pipes. Safe to call again. Completes also
        when the caller is cancelled, so that no process remains."""
        output = self._process.stdout
        # Not when its output has ended: a process that has just crashed should report its own signal.
        if self._process.returncode is None and output is not None and not output.at_eof():
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        ending = asyncio.ensure_future(self._end())
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise

    async def _discard_output(self) -> None:
        """Read what an ended process wrote: its pipe is freed when the end was read. Nobody else may be reading."""
        assert self._process.stdout is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                while await self._process.stdout.read(READ_BYTES):
                    pass

    async def _end(self) -> int | None:
        """Wait for the end of the process and free its pipes. Return the exit code."""
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        except TimeoutError:  # it closed its output and lives on
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(ConnectionError, OSError):
                await self._process.stdin.wait_closed()
        return self._process.returncode

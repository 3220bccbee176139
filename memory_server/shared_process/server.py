"""The shared process: it serves all windows of a user with equal settings, and answers their hooks. `entrance.py` is
the other side, `protocol.py` says what they send each other, and `cli/windows.py` has the commands behind it.

Each client gets an app of its own settings over the store and the sandbox of one app. The process ends by itself
`daemon.idle_minutes` after its last client.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

from memory_server.app import App
from memory_server.kernel.captured_io import CAPTURED_IO, CapturedIO
from memory_server.kernel.failures import failure_text
from memory_server.serving.fair_threads import FOR, HOOKS, use_fair_threads
from memory_server.serving.stdio.runner import on_signals
from memory_server.shared_process.protocol import ANSWERS, PROTOCOL, STATUS, STOP
from memory_server.version import __version__

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, int]]
"""What a client asked for; gives an exit status."""
_HANDSHAKE_SECONDS = 5.0
"""How long a client may take to say what it wants."""
_MOST_BYTES = 64 * 1024 * 1024
"""Bytes of a request at most: standard input of a hook is far below."""
_STILL_SECONDS = 10.0
"""Twice this time without a turn of the event loop, and the process is ended: its clients then start another one."""
_END_SECONDS = 1.5
"""How long sessions have to end when the process ends."""
_CLOSE_SECONDS = 1.0
"""How long the process then has to close: what was acknowledged is on disk already."""


class NotForThisProcess(Exception):
    """This process is not for the client, which does its work itself."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for; the descriptors are those of its standard input, output and error."""

    role: str
    key: str
    folder: Path
    window: tuple[str, ...]
    arguments: tuple[str, ...]
    input: bytes
    descriptors: tuple[int, ...]


class Answers(Protocol):
    """The commands behind the server."""

    def work(self, request: Request, connection: socket.socket) -> Work:
        """What the request asks for. Raises NotForThisProcess: this process is not for it."""

    def end_sessions(self) -> None:
        """Ask all sessions to end."""


class SharedServer:
    """Accepts clients at `listener`, whose file is `path`, until it is told to stop or nobody needs it."""

    def __init__(self, app: App, answers: Answers, listener: socket.socket, path: Path) -> None:
        self._app, self._answers, self._listener, self._path = app, answers, listener, path
        self._made = path.stat().st_mtime_ns  # not the number of the file, which a new one may get again
        self._stop = asyncio.Event()
        self._clients: dict[asyncio.Task[None], str] = {}
        self._idle: asyncio.TimerHandle | None = None
        self._began = time.time()
        self._told: list[socket.socket] = []
        """Of those who told it to end: the system closes them with the process."""

    async def run(self) -> None:
        on_signals(self._stop.set)
        threading.Thread(target=_watch, args=[asyncio.get_running_loop()], name="watchdog", daemon=True).start()
        self._listener.setblocking(False)
        with suppress(OSError):  # somebody may have tidied the folder
            self._path.chmod(ANSWERS)
        use_fair_threads()
        async with self._app:
            self._wait_for_clients()
            accepting = asyncio.create_task(self._accept())
            await self._stop.wait()
            threading.Thread(target=_end_in_time, name="end", daemon=True).start()
            self._withdraw()
            accepting.cancel()
            self._answers.end_sessions()
            if self._clients:
                await asyncio.wait(self._clients, timeout=_END_SECONDS)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # too many open files: this client does its work itself
                log.warning("a client cannot be accepted: %s", error)
                await asyncio.sleep(0.5)
                continue
            if self._idle is not None:
                self._idle.cancel()
            task = asyncio.create_task(self._serve(connection))
            self._clients[task] = ""
            task.add_done_callback(self._gone)

    def _gone(self, task: asyncio.Task[None]) -> None:
        del self._clients[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a client was not served: %s", failure_text(error), exc_info=error)
        if not self._clients:
            self._wait_for_clients()

    def _wait_for_clients(self) -> None:
        seconds = self._app.settings.daemon.idle_minutes * 60
        self._idle = asyncio.get_running_loop().call_later(seconds, self._retire)

    def _retire(self) -> None:
        """End, unless a client came in the last moment. A new one finds no socket and starts another process."""
        if not self._withdraw():
            self._wait_for_clients()
            return
        if not select.select([self._listener], [], [], 0)[0]:
            self._stop.set()

    def _withdraw(self) -> bool:
        """Take the socket away; False if a client is about to connect."""
        # Somebody may have tidied the folder.
        with suppress(OSError), self._path.with_suffix(".lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            if self._path.stat().st_mtime_ns == self._made:
                self._path.unlink()
        return True

    async def _serve(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        loop, descriptors = asyncio.get_running_loop(), list[int]()
        try:
            with connection, suppress(OSError, EOFError, TimeoutError):
                try:
                    async with asyncio.timeout(_HANDSHAKE_SECONDS):
                        request = await _received(connection, descriptors)
                        work = self._work(request, connection)
                        await loop.sock_sendall(connection, b"+")
                        if await loop.sock_recv(connection, 1) != b"g":
                            return  # it has given up, and does its work itself
                except NotForThisProcess:
                    await loop.sock_sendall(connection, b"-")
                    return
                self._clients[asyncio.current_task()] = request.role  # type: ignore[index]
                FOR.set(HOOKS if request.role == "hook" else connection)
                terminal = dict(each.split("=", 1) for each in request.window)
                CAPTURED_IO.set(streams := CapturedIO(request.input, terminal=terminal))
                status = await (_unless_taken_back(connection, work()) if request.role == "hook" else work())
                if status is None:
                    return
                if request.role == "serve":
                    flush_errors(streams, descriptors)
                sizes = f"{status} {len(streams.output)} {len(streams.errors)}\n".encode()
                await loop.sock_sendall(connection, sizes + streams.output + streams.errors)
        finally:
            for each in descriptors:
                os.close(each)

    def _work(self, request: Request, connection: socket.socket) -> Work:
        """What the request asks for. Raises NotForThisProcess: this process is not for it."""
        if request.role in (STATUS, STOP):
            return self._show if request.role == STATUS else partial(self._end, connection)
        if self._stop.is_set():
            raise NotForThisProcess
        return self._answers.work(request, connection)

    async def _show(self) -> int:
        streams = CAPTURED_IO.get()
        assert streams is not None
        sessions = sum(role == "serve" for role in self._clients.values())
        known = {"pid": os.getpid(), "version": __version__, "sessions": sessions, "since": self._began}
        streams.output = json.dumps({**known, "place": self._app.home.shown}).encode()
        return 0

    async def _end(self, connection: socket.socket) -> int:
        self._told.append(connection.dup())
        self._stop.set()
        return 0


def once(loop: asyncio.AbstractEventLoop, connection: socket.socket, call: Callable[[], None]) -> Callable[[], None]:
    def first() -> None:
        loop.remove_reader(connection)
        call()

    return first


def flush_errors(streams: CapturedIO, descriptors: Sequence[int]) -> None:
    """Write what was complained about to the client's standard error, unless nobody reads it."""
    poll = select.poll()  # `select` knows only numbers below 1,024
    poll.register(descriptors[2], select.POLLOUT)
    if streams.errors and poll.poll(0):
        with suppress(OSError):
            os.write(descriptors[2], streams.errors[: select.PIPE_BUF])
    streams.errors = b""


async def _unless_taken_back(connection: socket.socket, work: Coroutine[Any, Any, int]) -> int | None:
    """The status of the work for a hook; None: the hook took it back before it was done."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def look() -> None:
        with suppress(OSError):
            if connection.recv(1) == b"t":
                task.cancel()

    loop.add_reader(connection, once(loop, connection, look))
    try:
        await asyncio.wait([task])
    finally:
        loop.remove_reader(connection)
    return None if task.cancelled() else task.result()


async def _received(connection: socket.socket, descriptors: list[int]) -> Request:
    """What a client asks for; the descriptors that it gives are added to `descriptors`. Raises NotForThisProcess: this
    is not a request of this user in our protocol. EOFError: the client is gone."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, once(loop, connection, ready.set))
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
    data, given, _, _ = socket.recv_fds(connection, 1 << 16, 3, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    descriptors += given
    for each in given:
        os.set_inheritable(each, False)
    if hasattr(socket, "SO_PEERCRED"):
        known = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if struct.unpack("3i", known)[1] != os.getuid():
            raise NotForThisProcess
    try:
        while b"\n" not in data:
            data += await _more(connection)
        head, _, data = data.partition(b"\n")
        said, asked = (int(size) for size in head.split())
        if not 0 <= min(said, asked) <= said + asked <= _MOST_BYTES:
            raise NotForThisProcess
        pieces, size = [data], len(data)
        while size < said + asked:
            pieces.append(await _more(connection))
            size += len(pieces[-1])
        data = b"".join(pieces)
        version, key, role, folder, *rest = data[:said].decode("utf-8", "surrogateescape").split("\0")
        window = tuple(rest[: rest.index("")])
    except ValueError as error:
        raise NotForThisProcess from error
    if version != PROTOCOL:
        raise NotForThisProcess
    return Request(role, key, Path(folder), window, tuple(rest[len(window) + 1 :]), data[said:], tuple(descriptors))


async def _more(connection: socket.socket) -> bytes:
    if data := await asyncio.get_running_loop().sock_recv(connection, 1 << 16):
        return data
    raise EOFError


def _watch(loop: asyncio.AbstractEventLoop) -> None:
    """End the process when its event loop stands still. Twice: after a stop signal both clocks have moved on."""
    misses = 0
    while misses < 2:
        turned = threading.Event()
        try:
            loop.call_soon_threadsafe(turned.set)
        except RuntimeError:
            return  # the loop was closed
        misses = 0 if turned.wait(_STILL_SECONDS) else misses + 1
        if not misses:
            time.sleep(_STILL_SECONDS)
    log.error("the event loop stood still for %g s; this process ends", 2 * _STILL_SECONDS)
    os._exit(1)


def _end_in_time() -> NoReturn:
    """End the process when it has had its time to end."""
    time.sleep(_END_SECONDS + _CLOSE_SECONDS)
    logging.shutdown()
    os._exit(0)

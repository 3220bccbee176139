"""The shared process: it serves all windows of a user with equal settings, and answers their hooks. `entrance.py` is
the other side, `protocol.py` says what they send each other, and `process/windows.py` has the commands behind it.

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
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

from memory_server.kernel.failures import failure_text
from memory_server.kernel.streams import CAPTURED_IO, CapturedIO
from memory_server.kernel.values import frozen
from memory_server.process.protocol import ANSWERS, PIECE_BYTES, PROTOCOL, STATUS, STOP
from memory_server.runtime.app import App
from memory_server.serving.fair_threads import FOR, HOOKS, use_fair_threads
from memory_server.serving.stdio.runner import on_signals
from memory_server.version import __version__

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, int]]
"""The work for a client, which returns an exit status."""
_HANDSHAKE_SECONDS = 5.0
"""How long a client may take to send its request."""
_MOST_BYTES = 64 * 1024 * 1024
"""Bytes of a request at most: standard input of a hook is far below."""
_MOST_HEAD_BYTES = 64
"""A request whose first line is longer than this is refused; it has two numbers."""
WINDOW = "serve"
"""The role of a window; its work writes to the connection itself."""
_STILL_SECONDS = 10.0
"""After twice this time without a turn of the event loop the process is ended; its clients then start a new process."""
_ACCEPT_RETRY_SECONDS = 0.5
"""The pause after a failed accept: files may be closed meanwhile, and no loop keeps the processor busy."""
_END_SECONDS = 1.5
"""How long sessions have to end when the process ends."""
_CLOSE_SECONDS = 1.0
"""How long the process then has to close: what was acknowledged is on disk already."""


class NotForThisProcess(Exception):
    """This process is not for the client, which does its work itself."""


@frozen
class Request:
    """The request of a client."""

    role: str
    key: str
    folder: Path
    window: tuple[str, ...]
    arguments: tuple[str, ...]
    input: bytes


@frozen
class _Message:
    """The first message of a client: its fields, and its standard input."""

    fields: tuple[str, ...]
    standard_input: bytes


class Answers(Protocol):
    """The commands behind the server."""

    def work(self, request: Request, connection: socket.socket) -> Work:
        """Return the work for a request. Raise NotForThisProcess if this process is not for it."""

    def end_sessions(self) -> None:
        """Ask all sessions to end."""


class SharedServer:
    """Accepts clients at `listener`, whose file is `path`, until it is told to stop or is no longer needed."""

    def __init__(self, app: App, answers: Answers, listener: socket.socket, path: Path) -> None:
        """Prepare to serve at the socket `path`, and note the time of its file, by which a newer
        socket of that name is told apart. Raises OSError if the file is gone."""
        self._app = app
        self._answers = answers
        self._listener = listener
        self._path = path
        self._socket_time_ns = (
            path.stat().st_mtime_ns
        )  # not the number of the file, which a new one may get again
        self._stop = asyncio.Event()
        self._clients: dict[asyncio.Task[None], str] = {}
        """The role of each client by the task that serves it; "": its request has not come yet."""
        self._idle_timer: asyncio.TimerHandle | None = None
        """Ends the process if no client comes."""
        self._began = time.time()
        self._stop_connections: list[socket.socket] = []
        """Connections of the clients that told the process to end: the system closes them with the process."""

    async def run(self) -> None:
        """Serve clients until a signal, a client or a time without clients ends it. Then take the
        socket away, ask the sessions to end, and wait for them at most `_END_SECONDS`."""
        on_signals(self._stop.set)
        threading.Thread(
            target=_watch, args=[asyncio.get_running_loop()], name="watchdog", daemon=True
        ).start()

        self._listener.setblocking(False)
        # The folder may have been tidied meanwhile.
        with suppress(OSError):
            self._path.chmod(ANSWERS)
        use_fair_threads()

        async with self._app:
            self._wait_for_clients()
            accepting = asyncio.create_task(self._accept())
            await self._stop.wait()
            # A session that does not end must not keep the process.
            threading.Thread(target=_end_in_time, name="end", daemon=True).start()

            self._withdraw()
            accepting.cancel()
            self._answers.end_sessions()
            if self._clients:
                await asyncio.wait(self._clients, timeout=_END_SECONDS)

    async def _accept(self) -> None:
        """Accept clients until this task is cancelled, and serve each in a task of its own."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _address = await loop.sock_accept(self._listener)
            except OSError as error:
                # Too many files are open. A client that waits too long does its work itself.
                log.warning("a client cannot be accepted: %s", error)
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                continue
            if self._idle_timer is not None:
                self._idle_timer.cancel()
            task = asyncio.create_task(self._serve(connection))
            self._clients[task] = ""  # `_answer` knows the role
            task.add_done_callback(self._forget_client)

    def _forget_client(self, task: asyncio.Task[None]) -> None:
        """Forget a client whose task has ended, and log its error. After the last client, wait for others, or end."""
        del self._clients[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a client was not served: %s", failure_text(error), exc_info=error)
        if not self._clients:
            self._wait_for_clients()

    def _wait_for_clients(self) -> None:
        seconds = self._app.settings.daemon.idle_minutes * 60
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._retire)

    def _retire(self) -> None:
        """End, unless a client came in the last moment. A new client finds no socket and starts another process."""
        if not self._withdraw():
            self._wait_for_clients()
            return
        waiting_clients, _, _ = select.select([self._listener], [], [], 0)
        if not waiting_clients:
            self._stop.set()

    def _withdraw(self) -> bool:
        """Take the socket away. Return False if a client is about to connect."""
        # Somebody may have tidied the folder.
        with suppress(OSError), self._path.with_suffix(".lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            if self._path.stat().st_mtime_ns == self._socket_time_ns:
                self._path.unlink()
        return True

    async def _serve(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with connection, suppress(OSError, EOFError, TimeoutError):
            await self._answer(connection)

    async def _answer(self, connection: socket.socket) -> None:
        """Answer the request of a client: its status and output, after it has confirmed that it
        waits. Tell it if this process cannot serve it. A window is told its status elsewhere."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                request = await _received(connection)
                work = self._work(request, connection)
                await loop.sock_sendall(connection, b"+")
                confirmation = await loop.sock_recv(connection, 1)
        except NotForThisProcess:
            await loop.sock_sendall(connection, b"-")
            return

        if confirmation != b"g":
            # The client has given up, and does its work itself.
            return

        self._clients[asyncio.current_task()] = request.role  # type: ignore[index]
        FOR.set(HOOKS if request.role == "hook" else connection)
        streams = CapturedIO(
            request.input, terminal=dict(variable.split("=", 1) for variable in request.window)
        )
        CAPTURED_IO.set(streams)

        status: int | None
        if request.role == "hook":
            status = await _unless_taken_back(connection, work())
        else:
            status = await work()

        if status is None or request.role == WINDOW:
            # A window has been told its status already.
            return

        sizes = f"{status} {len(streams.output)} {len(streams.errors)}\n".encode()
        await loop.sock_sendall(connection, b"".join((sizes, streams.output, streams.errors)))

    def _work(self, request: Request, connection: socket.socket) -> Work:
        """Return the work for a request. Raise NotForThisProcess if this process is not for it."""
        if request.role == STATUS:
            return self._show
        if request.role == STOP:
            return partial(self._end, connection)
        if self._stop.is_set():
            raise NotForThisProcess
        return self._answers.work(request, connection)

    async def _show(self) -> int:
        """Write facts about this process to the output of the client, as JSON. Return the exit
        status 0."""
        streams = CAPTURED_IO.get()
        assert streams is not None
        sessions = sum(role == WINDOW for role in self._clients.values())
        facts = {
            "pid": os.getpid(),
            "version": __version__,
            "sessions": sessions,
            "since": self._began,
            "place": self._app.home.shown,
        }
        streams.output += json.dumps(facts).encode()
        return 0

    async def _end(self, connection: socket.socket) -> int:
        """Begin to end the process. The connection stays open, so that its client sees the end of the process."""
        self._stop_connections.append(connection.dup())
        self._stop.set()
        return 0


def once(
    loop: asyncio.AbstractEventLoop, connection: socket.socket, call: Callable[[], None]
) -> Callable[[], None]:
    """Return a reader of the connection that makes the call the first time that there is something to read."""

    def call_once() -> None:
        loop.remove_reader(connection)
        call()

    return call_once


async def _unless_taken_back(
    connection: socket.socket, work: Coroutine[Any, Any, int]
) -> int | None:
    """Return the status of the work for a hook, or None if the hook took it back before it was done."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)

    def look() -> None:
        with suppress(OSError):
            if connection.recv(1) == b"t":
                task.cancel()

    loop.add_reader(connection, once(loop, connection, look))
    try:
        await asyncio.wait([task])
    finally:
        loop.remove_reader(connection)
    if task.cancelled():
        return None
    return task.result()


async def _received(connection: socket.socket) -> Request:
    """Receive the request of a client. Raise NotForThisProcess if it is not a request of this user in our protocol, and
    EOFError if the client is gone."""
    _refuse_other_users(connection)

    try:
        message = await _received_message(connection)
        version, key, role, folder, *further_fields = message.fields
        # The variables of the window end with an empty field.
        window_end = further_fields.index("")
    except ValueError as error:
        raise NotForThisProcess from error

    if version != PROTOCOL:
        raise NotForThisProcess

    return Request(
        role=role,
        key=key,
        folder=Path(folder),
        window=tuple(further_fields[:window_end]),
        arguments=tuple(further_fields[window_end + 1 :]),
        input=message.standard_input,
    )


def _refuse_other_users(connection: socket.socket) -> None:
    """Raise NotForThisProcess if the client is a process of another user."""
    if hasattr(socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _process_id, user_id, _group_id = struct.unpack("3i", credentials)
        if user_id != os.getuid():
            raise NotForThisProcess


async def _received_message(connection: socket.socket) -> _Message:
    """Receive the first message of a client. Raise ValueError if it is not in our protocol, NotForThisProcess if it is
    too long, and EOFError if the client is gone."""
    data = b""
    while b"\n" not in data:
        if len(data) > _MOST_HEAD_BYTES:
            raise NotForThisProcess
        data += await _next_piece(connection)

    head, _, data = data.partition(b"\n")
    field_size, input_size = (int(size) for size in head.split())
    size = field_size + input_size
    if field_size < 0 or input_size < 0 or size > _MOST_BYTES:
        raise NotForThisProcess

    pieces = [data]
    received_size = len(data)
    while received_size < size:
        piece = await _next_piece(connection)
        pieces.append(piece)
        received_size += len(piece)

    body = b"".join(pieces)
    # Arguments and paths may hold bytes that are not UTF-8.
    fields = body[:field_size].decode("utf-8", "surrogateescape").split("\0")
    return _Message(tuple(fields), body[field_size:])


async def _next_piece(connection: socket.socket) -> bytes:
    piece = await asyncio.get_running_loop().sock_recv(connection, PIECE_BYTES)
    if not piece:
        raise EOFError
    return piece


def _watch(loop: asyncio.AbstractEventLoop) -> None:
    """End the process when its event loop hangs, which must be seen twice: after a stop signal both clocks have moved
    on."""
    misses = 0
    while misses < 2:
        turned = threading.Event()
        try:
            loop.call_soon_threadsafe(turned.set)
        except RuntimeError:
            return  # the loop was closed
        if turned.wait(_STILL_SECONDS):
            misses = 0
            time.sleep(_STILL_SECONDS)
        else:
            misses += 1
    log.error("the event loop stood still for %g s; this process ends", 2 * _STILL_SECONDS)
    os._exit(1)


def _end_in_time() -> NoReturn:
    """End the process when its time to end is over."""
    time.sleep(_END_SECONDS + _CLOSE_SECONDS)
    logging.shutdown()
    os._exit(0)

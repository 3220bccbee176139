"""The shared process: it serves all windows of a user with equal settings, and answers their hooks. shim.py is the
other side, and has the protocol.

Each client gets an app of its own settings over the store and the sandbox of one app. The process ends by itself
`daemon.idle_minutes` after its last client.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import logging
import os
import secrets
import select
import socket
import struct
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Coroutine, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

from memory_server import shim
from memory_server.app import App, Shared, offered_tools, usual_offer
from memory_server.cli.calls import recall, remember
from memory_server.cli.daemon import STATUS, STOP
from memory_server.cli.hook.command import hook
from memory_server.cli.logs import log_to_stderr
from memory_server.cli.parser import PACKAGE, leave, parsed, understood
from memory_server.cli.project_file import in_folder
from memory_server.cli.serve import use_more_files, use_one_arena
from memory_server.cli.terminal import STREAMS, Streams, complain
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput, MemoryServerError
from memory_server.kernel.messages import Session
from memory_server.serving.fair_threads import FOR, HOOKS, use_fair_threads
from memory_server.serving.stdio.runner import on_signals
from memory_server.version import __version__
from sandbox.language import language_of
from sandbox.locale import speak

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]
ASKED: dict[str, Callable[[Settings, Namespace, Shared | None], Coroutine[Any, Any, None]]] = {
    "hook": hook,
    "recall": recall,
    "remember": remember,
}
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
_UPKEEP_AFTER_SECONDS = 5.0
"""How long the first session has to itself."""
_KEPT = 64
"""Command lines whose settings are kept."""


class Refused(Exception):
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


class Daemon:
    """Accepts clients at `listener`, whose file is `path`, until it is told to stop or nobody needs it."""

    def __init__(self, app: App, key: str, listener: socket.socket, path: Path) -> None:
        self._app, self._key, self._listener, self._path = app, key, listener, path
        self._made = path.stat().st_mtime_ns  # not the number of the file, which a new one may get again
        self._stop = asyncio.Event()
        self._clients: dict[asyncio.Task[None], str] = {}
        self._ends: set[asyncio.Event] = set()
        self._understood = lru_cache(_KEPT)(self._settings)
        self._idle: asyncio.TimerHandle | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self._began = time.time()
        self._told: list[socket.socket] = []
        """Of those who told it to end: the system closes them with the process."""

    async def run(self) -> None:
        on_signals(self._stop.set)
        threading.Thread(target=_watch, args=[asyncio.get_running_loop()], name="watchdog", daemon=True).start()
        self._listener.setblocking(False)
        with suppress(OSError):  # somebody may have tidied the folder
            self._path.chmod(shim.ANSWERS)
        use_fair_threads()
        async with self._app:
            self._wait_for_clients()
            accepting = asyncio.create_task(self._accept())
            await self._stop.wait()
            threading.Thread(target=_end_in_time, name="end", daemon=True).start()
            self._withdraw()
            accepting.cancel()
            for end in self._ends:
                end.set()
            if self._clients:
                await asyncio.wait(self._clients, timeout=_END_SECONDS)
            if self._upkeep is not None:
                self._upkeep.cancel()

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
            log.error("a client was not served", exc_info=error)
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
                except Refused:
                    await loop.sock_sendall(connection, b"-")
                    return
                self._clients[asyncio.current_task()] = request.role  # type: ignore[index]
                FOR.set(HOOKS if request.role == "hook" else connection)
                STREAMS.set(streams := Streams(request.input))
                status = await (
                    _unless_taken_back(connection, work()) if request.role == "hook" else _status_of(work())
                )
                if status is None:
                    return
                if request.role == "serve":
                    _flush_errors(streams, descriptors)
                sizes = f"{status} {len(streams.output)} {len(streams.errors)}\n".encode()
                await loop.sock_sendall(connection, sizes + streams.output + streams.errors)
        finally:
            for each in descriptors:
                os.close(each)

    def _work(self, request: Request, connection: socket.socket) -> Work:
        """What the request asks for. Raises Refused: this process is not for it."""
        if request.role in (STATUS, STOP):
            return self._show if request.role == STATUS else partial(self._end, connection)
        if request.key != self._key or self._stop.is_set():
            raise Refused
        settings, flags = self._understood(request.window, request.arguments)
        shared = Shared(self._app, request.folder)
        if request.role == "serve" and len(request.descriptors) == 3:
            return partial(self._session, settings, shared, request, connection)
        if request.role not in ASKED:
            raise Refused
        return partial(ASKED[request.role], settings, flags, shared)

    def _settings(self, window: tuple[str, ...], arguments: tuple[str, ...]) -> tuple[Settings, Namespace]:
        """The settings and flags of a client. Raises Refused: it must say itself what is wrong with them, or they ask
        for another process."""
        environ = {**os.environ, **dict(each.split("=", 1) for each in window)}
        try:
            with redirect_stderr(StringIO()) as told:
                flags = parsed(arguments)
                _, settings = understood(flags, environ)
        except (SystemExit, MemoryServerError) as error:
            raise Refused from error
        if told.getvalue() or _without_window(settings) != _without_window(self._app.settings):
            raise Refused
        return settings, flags

    async def _session(self, settings: Settings, shared: Shared, request: Request, connection: socket.socket) -> None:
        settings = in_folder(settings, request.folder)
        if (streams := STREAMS.get()) is not None:
            _flush_errors(streams, request.descriptors)
        if not usual_offer(settings):
            offered_tools(settings)  # a wrong name is refused here, in one sentence
        if self._upkeep is None:
            self._upkeep = asyncio.create_task(self._keep_up())
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._ends.add(stopped)
        loop.add_reader(connection, _once(loop, connection, stopped.set))
        try:
            app = App(settings, session=Session(secrets.token_hex(8)), shared=shared)
            await app.serve_window(request.descriptors[:2], stopped, connection)  # type: ignore[arg-type]
        finally:
            loop.remove_reader(connection)
            self._ends.discard(stopped)

    async def _keep_up(self) -> None:
        await asyncio.sleep(_UPKEEP_AFTER_SECONDS)
        await self._app.keep_up()

    async def _show(self) -> None:
        streams = STREAMS.get()
        assert streams is not None
        sessions = sum(role == "serve" for role in self._clients.values())
        known = {"pid": os.getpid(), "version": __version__, "sessions": sessions, "since": self._began}
        streams.output = json.dumps({**known, "place": str(self._app.home.place)}).encode()

    async def _end(self, connection: socket.socket) -> None:
        self._told.append(connection.dup())
        self._stop.set()


def _once(loop: asyncio.AbstractEventLoop, connection: socket.socket, call: Callable[[], None]) -> Callable[[], None]:
    def first() -> None:
        loop.remove_reader(connection)
        call()

    return first


def _flush_errors(streams: Streams, descriptors: Sequence[int]) -> None:
    """Write what was complained about to the client's standard error, unless nobody reads it."""
    poll = select.poll()  # `select` knows only numbers below 1,024
    poll.register(descriptors[2], select.POLLOUT)
    if streams.errors and poll.poll(0):
        with suppress(OSError):
            os.write(descriptors[2], streams.errors[: select.PIPE_BUF])
    streams.errors = b""


async def _status_of(work: Coroutine[Any, Any, None]) -> int:
    try:
        await work
    except MemoryServerError as error:
        complain(str(error))
        return 2 if isinstance(error, InvalidInput) else 1
    return 0


async def _unless_taken_back(connection: socket.socket, work: Coroutine[Any, Any, None]) -> int | None:
    """The status of the work for a hook; None: the hook took it back before it was done."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(_status_of(work))

    def look() -> None:
        with suppress(OSError):
            if connection.recv(1) == b"t":
                task.cancel()

    loop.add_reader(connection, _once(loop, connection, look))
    try:
        await asyncio.wait([task])
    finally:
        loop.remove_reader(connection)
    return None if task.cancelled() else task.result()


def _without_window(settings: Settings) -> Settings:
    """Without what windows of one process may have different."""
    defaults = Settings()
    names = (name.replace("-", "_") for name in (*shim.OF_WINDOW, "hooks"))
    return settings.model_copy(update={name: getattr(defaults, name) for name in names})


async def _received(connection: socket.socket, descriptors: list[int]) -> Request:
    """What a client asks for; the descriptors that it gives are added to `descriptors`. Raises Refused: this is not a
    request of this user in our protocol. EOFError: the client is gone."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, _once(loop, connection, ready.set))
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
            raise Refused
    try:
        while b"\n" not in data:
            data += await _more(connection)
        head, _, data = data.partition(b"\n")
        said, asked = (int(size) for size in head.split())
        if not 0 <= min(said, asked) <= said + asked <= _MOST_BYTES:
            raise Refused
        pieces, size = [data], len(data)
        while size < said + asked:
            pieces.append(await _more(connection))
            size += len(pieces[-1])
        data = b"".join(pieces)
        version, key, role, folder, *rest = data[:said].decode("utf-8", "surrogateescape").split("\0")
        window = tuple(rest[: rest.index("")])
    except ValueError as error:
        raise Refused from error
    if version != shim.PROTOCOL:
        raise Refused
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
    leave(0)


def main() -> NoReturn:
    """The process: arguments are the path of its socket, the number of the descriptor that listens, and flags."""
    gc.disable()  # imports make no garbage; App ends this
    path, number, *flags = sys.argv[1:]
    speak(language_of(flags, os.environ), PACKAGE)
    listener = socket.socket(fileno=int(number))
    listener.set_inheritable(False)
    key = shim.Asked(flags, os.environ).key()
    try:
        _, settings = understood(parsed(flags), os.environ)
        if settings.language != "auto":
            speak(settings.language, PACKAGE)
        log_to_stderr(settings.log_level)
        if _is_for_all(settings):
            asyncio.run(_run(settings, key, listener, Path(path)))
    except MemoryServerError as error:
        complain(str(error))  # each client says it too
    leave(1)


def _is_for_all(settings: Settings) -> bool:
    """Whether these settings mean the same in all folders."""
    places = (settings.data_dir, settings.notes.documents, settings.layers.project_dir)
    if any(place is not None and not place.expanduser().is_absolute() for place in places):
        return False
    return settings.daemon.enabled and not (settings.data_dir is not None and settings.data_dir.expanduser().is_file())


async def _run(settings: Settings, key: str, listener: socket.socket, path: Path) -> NoReturn:
    use_one_arena()
    use_more_files()
    app = App(settings)
    await Daemon(app, key, listener, path).run()
    leave(0)  # here, because `asyncio.run` would wait for threads that work for nobody any more

"""The commands behind the shared process: sessions of windows, and what hooks and commands ask it."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import socket
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine
from contextlib import redirect_stderr
from functools import lru_cache, partial
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

from memory_server.app import App, Shared, offered_tools, usual_offer
from memory_server.cli import linked
from memory_server.cli.hook.command import hook
from memory_server.cli.logs import log_to_stderr
from memory_server.cli.parser import PACKAGE, function_of, leave, parsed, understood
from memory_server.cli.process_limits import use_more_files, use_one_arena
from memory_server.cli.project_file import in_folder
from memory_server.cli.terminal import ASKER, complain, refuse
from memory_server.command_table import COMMANDS
from memory_server.config import Settings
from memory_server.kernel.captured_io import CAPTURED_IO
from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.messages import Session
from memory_server.kernel.readers import AT_A_SHELL
from memory_server.shared_process.invocation import PER_SESSION_SETTINGS, Invocation
from memory_server.shared_process.server import NotForThisProcess, Request, SharedServer, Work, flush_errors, once
from sandbox import language_of
from sandbox.locale import speak

_ASKED = [command for command in COMMANDS.values() if command.shared in ("hook", "turn")]
"""Commands for which somebody waits at each prompt."""
_UPKEEP_AFTER_SECONDS = 5.0
"""How long the first session has to itself."""
_KEPT = 64
"""Command lines whose settings are kept."""


class Windows:
    """What the shared process does for its clients: each gets an app of its own settings over the store of `app`.
    `key`: that of all settings which clients have in common."""

    def __init__(self, app: App, key: str) -> None:
        self._app, self._key = app, key
        self._ends: set[asyncio.Event] = set()
        self._understood = lru_cache(_KEPT)(self._settings)
        self._upkeep: asyncio.Task[None] | None = None

    def end_sessions(self) -> None:
        for end in self._ends:
            end.set()
        if self._upkeep is not None:
            self._upkeep.cancel()

    def work(self, request: Request, connection: socket.socket) -> Work:
        """What the request asks for. Raises NotForThisProcess: this process is not for it."""
        if request.key != self._key:
            raise NotForThisProcess
        settings, flags = self._understood(request.window, request.arguments)
        command = COMMANDS.get(request.role)
        if command is None or command is not flags.command:
            raise NotForThisProcess
        shared = Shared(self._app, request.folder)
        link = self._app.home.link.read()
        run: Callable[[], Coroutine[Any, Any, int | None]]
        if link is not None and command.linked != "here":
            run = partial(linked.run, link, settings, flags, request.folder)
        elif command.shared == "window" and len(request.descriptors) == 3:
            run = partial(self._session, settings, shared, request, connection)
        elif command.shared == "look":
            run = partial(_look, settings, flags, shared)
        elif command.shared == "hook" and link is not None:
            run = partial(_asked_there, settings, flags, shared, connection)
        elif command.shared in ("hook", "turn"):
            run = partial(function_of(command), settings, flags, shared)
        else:
            raise NotForThisProcess
        return partial(_status_of, flags, run)

    def _settings(self, window: tuple[str, ...], arguments: tuple[str, ...]) -> tuple[Settings, Namespace]:
        """The settings and flags of a client. Raises NotForThisProcess: it must say itself what is wrong with them, or
        they ask for another process."""
        environ = {**os.environ, **dict(each.split("=", 1) for each in window)}
        try:
            with redirect_stderr(StringIO()) as told:
                flags = parsed(arguments)
                _, settings = understood(flags, environ)
        except (SystemExit, MemoryServerError) as error:
            raise NotForThisProcess from error
        if told.getvalue() or _without_window(settings) != _without_window(self._app.settings):
            raise NotForThisProcess
        return settings, flags

    async def _session(self, settings: Settings, shared: Shared, request: Request, connection: socket.socket) -> None:
        settings = in_folder(settings, request.folder)
        if (streams := CAPTURED_IO.get()) is not None:
            flush_errors(streams, request.descriptors)
        link = self._app.home.link.read()
        if link is None and not usual_offer(settings):
            offered_tools(settings)  # a wrong name is refused here, in one sentence
        if self._upkeep is None and link is None:
            self._upkeep = asyncio.create_task(self._keep_up())
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._ends.add(stopped)
        loop.add_reader(connection, once(loop, connection, stopped.set))
        try:
            session = secrets.token_hex(8)
            if link is not None:
                await linked.window(link, settings, session, request.descriptors, stopped, connection, request.folder)
                return
            app = App(settings, session=Session(session), shared=shared)
            await app.serve_window(request.descriptors[:2], stopped, connection)  # type: ignore[arg-type]
        finally:
            loop.remove_reader(connection)
            self._ends.discard(stopped)

    async def _keep_up(self) -> None:
        await asyncio.sleep(_UPKEEP_AFTER_SECONDS)
        await self._app.keep_up()


async def _asked_there(settings: Settings, flags: Namespace, shared: Shared, connection: socket.socket) -> None:
    """A hook on a linked machine. The server may need longer than a hook waits before it does its work itself, which
    would ask the same server: so it is told that somebody is at it."""
    connection.send(b" ")
    await hook(settings, flags, shared)


async def _look(settings: Settings, flags: Namespace, shared: Shared) -> int | None:
    # In a thread: the first import of a command takes as long as a hook waits for its answer.
    run = await asyncio.to_thread(function_of, flags.command)
    if flags.command.opens == "settings":
        return await run(settings, flags, shared.folder)
    async with App(settings, shared=shared, asker=ASKER) as app:
        return await run(app, flags)


async def _status_of(flags: Namespace, work: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    AT_A_SHELL.set(not flags.command.for_tools)
    try:
        return await work() or 0
    except MemoryServerError as error:
        return refuse(error, flags)


def _without_window(settings: Settings) -> Settings:
    """Without what windows of one process may have different."""
    defaults = Settings()
    return settings.model_copy(update={name: getattr(defaults, name) for name in PER_SESSION_SETTINGS})


def main() -> NoReturn:
    """The process: arguments are the path of its socket, the number of the descriptor that listens, and flags."""
    gc.disable()  # imports make no garbage; App ends this
    path, number, *flags = sys.argv[1:]
    speak(language_of(flags, os.environ), PACKAGE)
    listener = socket.socket(fileno=int(number))
    listener.set_inheritable(False)
    key = Invocation(flags, os.environ).key()
    try:
        _, settings = understood(parsed(flags), os.environ)
        if settings.language != "auto":
            speak(settings.language, PACKAGE)
        log_to_stderr(settings.log_level, serves=True)
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
    for command in _ASKED:
        function_of(command)  # imported now, and not while somebody waits
    app = App(settings)
    await SharedServer(app, Windows(app, key), listener, path).run()
    leave(0)  # here, because `asyncio.run` would wait for threads that work for nobody any more

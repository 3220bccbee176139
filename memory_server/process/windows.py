"""The commands behind the shared process: sessions of windows, and what hooks and commands ask it."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import socket
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, redirect_stderr, suppress
from functools import lru_cache, partial
from io import StringIO
from pathlib import Path
from typing import NoReturn, Self

from languages import ENGLISH, speak, speaking, spoken
from languages.command_line import language_of
from memory_server.command_table import COMMANDS
from memory_server.config import Settings
from memory_server.config.project_file import in_folder
from memory_server.kernel.collecting import collect_from_now_on
from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.messages import Session
from memory_server.kernel.streams import CAPTURED_IO, complain
from memory_server.kernel.values import frozen
from memory_server.process import linked_server
from memory_server.process.command_runner import leave, refuse, run_command, understood
from memory_server.process.hosts import Parse, SharedProcess, function_of
from memory_server.process.invocation import PER_SESSION_SETTINGS, Invocation
from memory_server.process.limits import use_more_files, use_one_arena
from memory_server.process.logs import log_to_stderr
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
from memory_server.process.server import NotForThisProcess, Request, SharedServer, Work
from memory_server.process.workspace import Workspace, settings_of_roots, workspace_of
from memory_server.runtime.app import App, offered_tools, usual_offer
from memory_server.serving.stdio import runner
from memory_server.serving.stdio.lines import Lines

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
        """Return the next bytes of the input, or nothing at its end. If the command is gone or breaks the protocol, also
        let the session end."""
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


_ASKED = [command for command in COMMANDS.values() if command.shared in ("hook", "turn")]
"""Commands for which a user waits at each prompt."""
_UPKEEP_AFTER_SECONDS = 5.0
"""How long the first session has to itself."""
_KEPT = 64
"""Command lines whose settings are kept."""


@frozen
class _CommandLine:
    """A command line of a client, parsed, with the settings that it means."""

    settings: Settings
    flags: Namespace


class Windows:
    """What the shared process does for its clients: each gets a view of `app` with settings of its own. `key` names
    all settings that clients have in common, which include the `language` of their users."""

    def __init__(self, app: App, parse: Parse, key: str, language: str = ENGLISH) -> None:
        self._app = app
        self._parse = parse
        self._key = key
        self._language = language
        self._ends: set[asyncio.Event] = set()
        """One for each session, which ends when its event is set."""
        self._understood = lru_cache(_KEPT)(self._command_line)
        self._upkeep: asyncio.Task[None] | None = None

    def end_sessions(self) -> None:
        for end in self._ends:
            end.set()
        if self._upkeep is not None:
            self._upkeep.cancel()

    def work(self, request: Request, connection: socket.socket) -> Work:
        """Return the work that the request asks for. Raise NotForThisProcess if this process is not for it."""
        if request.key != self._key:
            raise NotForThisProcess
        typed = self._understood(request.window, request.arguments)
        command = COMMANDS.get(request.role)
        if command is None or command is not typed.flags.command or command.shared == "no":
            raise NotForThisProcess
        if command.shared == "window":
            workspace = workspace_of(_variables_in(request.window), request.folder)
            return partial(self._session, typed, workspace, connection)
        host = SharedProcess(self._app, request.folder)
        return partial(_status_of, typed, host, connection, language=self._language)

    def _command_line(self, window: tuple[str, ...], arguments: tuple[str, ...]) -> _CommandLine:
        """Parse the command line of a client, with the variables of its `window`. Raise NotForThisProcess if the client
        must say itself what is wrong with it, or if it asks for another process."""
        variables = _variables_in(window)
        try:
            with redirect_stderr(StringIO()) as complaints:
                flags = self._parse(arguments)
                _command, settings = understood(flags, {**os.environ, **variables})
        except (SystemExit, MemoryServerError) as error:
            raise NotForThisProcess from error
        if complaints.getvalue() or _without_window(settings) != _without_window(
            self._app.settings
        ):
            raise NotForThisProcess
        return _CommandLine(settings, flags)

    async def _session(
        self, typed: _CommandLine, workspace: Workspace, connection: socket.socket
    ) -> int:
        """Serve a window until it ends. Return its exit status, which the window has been told."""
        stopped = asyncio.Event()
        self._ends.add(stopped)
        try:
            async with WindowStream.over(connection, stopped.set) as stream:
                try:
                    await self._serve(typed.settings, workspace, stream, stopped)
                    status = 0
                except MemoryServerError as error:
                    status = refuse(error, typed.flags)
                _tell_errors(stream)
                await stream.close(status)
        finally:
            self._ends.discard(stopped)
        return status

    async def _serve(
        self,
        typed_settings: Settings,
        workspace: Workspace,
        stream: WindowStream,
        stopped: asyncio.Event,
    ) -> None:
        """Serve one window until its input ends or `stopped` is set: through the server if this
        machine is linked, otherwise with its own memories. Raises InvalidInput if a setting, a file
        of the folder or the link cannot be used."""
        folder = workspace.folder
        settings = in_folder(typed_settings, folder)
        _tell_errors(stream)

        link = self._app.home.link.read()
        if link is None and not usual_offer(settings):
            # A wrong name is refused here, in one sentence.
            offered_tools(settings)

        if self._upkeep is None and link is None:
            self._upkeep = asyncio.create_task(self._keep_up())

        session = Session(secrets.token_hex(8))
        lines = partial(Lines, stream)

        if link is not None:
            server = linked_server.LinkedServer(link, settings, lasts=True, folder=folder)
            async with linked_server.relay(server, session) as relay:
                await runner.session(relay, linked_server.settle, lines, stopped)
            return

        async with self._app.view(settings, folder=folder, session=session) as view:
            placed = None if workspace.is_certain else settings_of_roots(typed_settings)
            await runner.session(view.server(placed=placed), view.settle, lines, stopped)

    async def _keep_up(self) -> None:
        await asyncio.sleep(_UPKEEP_AFTER_SECONDS)
        await self._app.keep_up()


async def _status_of(
    typed: _CommandLine, host: SharedProcess, connection: socket.socket, *, language: str
) -> int:
    """Run a command that is not a window, and return its exit status. A refusal becomes a sentence
    and a status."""
    if typed.flags.command.shared == "hook" and host.link(typed.settings) is not None:
        # The server may need longer than a hook waits before it does its work itself, which would ask the same server:
        # so the hook is told that this process works on it.
        connection.send(b" ")
    speak(language)
    try:
        return await run_command(typed.settings, typed.flags, host)
    except MemoryServerError as error:
        return refuse(error, typed.flags)
    finally:
        collect_from_now_on()  # perhaps no window ever settles in this process


def _variables_in(window: tuple[str, ...]) -> dict[str, str]:
    return dict(variable.split("=", 1) for variable in window)


def _tell_errors(stream: WindowStream) -> None:
    """Write the complaints so far to standard error of the window."""
    streams = CAPTURED_IO.get()
    if streams is not None:
        stream.write_errors(bytes(streams.errors))
        streams.errors.clear()


def _without_window(settings: Settings) -> Settings:
    """Drop the settings that may differ between windows of the same process."""
    defaults = Settings()
    return settings.model_copy(
        update={name: getattr(defaults, name) for name in PER_SESSION_SETTINGS}
    )


def main(parse: Parse) -> NoReturn:
    """Run the process. Its arguments are the path of its socket, the number of the descriptor that listens, and flags."""
    gc.disable()  # imports make no garbage; App ends this
    path, number, *flags = sys.argv[1:]

    speak(language_of(flags, os.environ))
    listener = socket.socket(fileno=int(number))
    listener.set_inheritable(False)

    key = Invocation(flags, os.environ).key()
    try:
        _, settings = understood(parse(flags), os.environ)

        if settings.language != "auto":
            speak(settings.language)

        log_to_stderr(settings.log_level, serves=True)
        if _is_for_all(settings):
            language = spoken()
            # The process has several users' languages to speak, so its own log is English.
            with speaking(ENGLISH):
                asyncio.run(
                    _run(
                        settings,
                        partial(Windows, parse=parse, key=key, language=language),
                        listener,
                        Path(path),
                    )
                )
    except MemoryServerError as error:
        complain(str(error))  # each client says it too

    leave(1)


def _is_for_all(settings: Settings) -> bool:
    """Return whether these settings mean the same in all folders."""
    paths = (settings.data_dir, settings.notes.documents, settings.layers.project_dir)
    if any(path is not None and not path.expanduser().is_absolute() for path in paths):
        return False
    return settings.daemon.enabled and not (
        settings.data_dir is not None and settings.data_dir.expanduser().is_file()
    )


async def _run(
    settings: Settings, windows: Callable[[App], Windows], listener: socket.socket, path: Path
) -> NoReturn:
    """Run the shared process until it is to end, and then leave at once, with the exit status 0."""
    use_one_arena()
    use_more_files()
    # These modules are imported now, and not while a user waits.
    for command in _ASKED:
        function_of(command)
    app = App(settings)
    await SharedServer(app, windows(app), listener, path).run()
    # The process ends here, because `asyncio.run` would wait for threads whose results are no longer needed.
    leave(0)

"""The home that the steps live in: a data folder with everybody who uses it at once.

One app stands for the shared process of a user, whose commands and hooks it answers; a command may also run in a
process's own way, beside it; a third app serves HTTP on this machine. They share a sandbox, because starting V8 takes
longer than all else, and one event loop.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock
from urllib.parse import urljoin

import httpx2 as httpx
from web_page import Parsed

from languages import speaking
from memory_server.cli.parser import main, parsed
from memory_server.cli.web import serve_page
from memory_server.config import Settings
from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.streams import CAPTURED_IO, CapturedIO
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.process.command_runner import refuse, run_command, understood
from memory_server.process.hosts import SharedProcess
from memory_server.process.http_service import serve_http
from memory_server.runtime.app import App
from memory_server.runtime.runtime import Runtime
from memory_server.serving.http import http_server
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Answer, ToolFailed, call
from sandbox import TriggerSandbox

T = TypeVar("T")
BEGIN = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
"""When the home begins to be lived in."""
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Output:
    """What a command ended with, and what it printed."""

    words: tuple[str, ...]
    status: int
    text: str
    errors: str

    def lines(self) -> list[Any]:
        """The lines of `--json`."""
        return [json.loads(line) for line in self.text.split("\n") if line]


class LogRecords(logging.Handler):
    """The records of the log that tell of a failure."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


@dataclass
class House:
    """A home in `folder`, whose clock stands at `now`. `runner` has the loop of everything."""

    folder: Path
    runner: asyncio.Runner
    sandbox: TriggerSandbox
    now: datetime = BEGIN
    zone: str = "Asia/Shanghai"
    language: str = "en"
    read_only: bool = False
    log: LogRecords = field(default_factory=LogRecords)
    app: App = field(init=False)
    page: httpx.AsyncClient = field(init=False)
    page_url: str = ""
    rest: httpx.AsyncClient | None = None
    port: int = 0
    token: str = ""
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _server: asyncio.Task[None] | None = None
    _ends: list[Callable[[], None]] = field(default_factory=list)
    """What a signal would call."""

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(_in_time(work))

    # --- opening and closing ---------------------------------------------------------------------------------

    def settings(self, **more: Any) -> Settings:
        home = {
            "data_dir": self.data,
            "timezone": self.zone,
            "now": self.now,
            "read_only": self.read_only,
        } | more
        # The daily work is a step of its own: it would otherwise begin between two looks that are compared.
        usual = {"toolsets": "all", "http": {"web": True}, "upkeep": {"enabled": False}}
        return Settings.model_validate(usual | home)

    def open(self) -> None:
        self.run(self._open())

    async def _open(self) -> None:
        settings = self.settings()
        self.app = App(settings, runtime=Runtime(settings, lent_sandbox=self.sandbox))
        await self._stack.enter_async_context(self.app)
        with mock.patch.object(http_server, "on_signals"):
            link = await self._stack.enter_async_context(serve_page(self.app, 0))
            self.page = httpx.AsyncClient(timeout=PATIENCE_SECONDS, follow_redirects=True)
            await self._stack.enter_async_context(self.page)
            entered = await self.page.get(link)
        self.page_url = str(entered.url.copy_with(query=None))
        self.page.follow_redirects = False

    def close(self) -> None:
        self.stop_serving()
        self.run(self._close())

    async def _close(self) -> None:
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    def reopen(self, **changed: Any) -> None:
        """End all processes and start them again, with another clock, zone or language."""
        served = self.rest is not None
        self.close()
        for name, value in changed.items():
            setattr(self, name, value)
        self.open()
        if served:
            self.serve()

    # --- HTTP ------------------------------------------------------------------------------------------------

    def serve(self) -> httpx.AsyncClient:
        """The client of a server over HTTP on this home, which runs from now on."""
        if not self.token:
            self.token = self.command("tokens", "add", "main").text.strip()
        if self.rest is None:
            self.run(self._serve())
        assert self.rest is not None
        return self.rest

    async def _serve(self) -> None:
        if not self.port:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
        runtime = partial(Runtime, lent_sandbox=self.sandbox)
        with (
            mock.patch("memory_server.process.http_service.Runtime", runtime),
            mock.patch.object(http_server, "on_signals", self._ends.append),
            mock.patch("memory_server.process.http_service.complain"),
        ):
            self._server = asyncio.create_task(
                serve_http(self.settings(), f"127.0.0.1:{self.port}", parsed)
            )
            headers = {"authorization": f"Bearer {self.token}"}
            limits = httpx.Limits(max_keepalive_connections=0)
            self.rest = httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{self.port}",
                headers=headers,
                timeout=PATIENCE_SECONDS,
                limits=limits,
            )
            while not self._server.done():
                with suppress(httpx.TransportError):
                    if (await self.rest.get("/readyz")).status_code == 200:
                        return
                await asyncio.sleep(0.02)
            self._server.result()

    def stop_serving(self) -> None:
        if self._server is not None:
            self.run(self._stop_serving())

    async def _stop_serving(self) -> None:
        assert self._server is not None
        assert self.rest is not None
        await self.rest.aclose()
        for end in self._ends:
            end()
        self._ends.clear()
        await self._server
        self._server = self.rest = None

    # --- ways to ask -----------------------------------------------------------------------------------------

    def command(
        self,
        *words: str,
        stdin: bytes = b"",
        own: bool = False,
        language: str | None = None,
        store: str | None = None,
    ) -> Output:
        """What a command prints: answered by the shared process, or in its `own`, perhaps of another `store`."""
        spoken = language or self.language
        if own or store is not None:
            return self.run(self._own_command(words, stdin, spoken, store))
        return self.run(self._shared_command(words, stdin, spoken))

    def on_the_laptop(self, *words: str, stdin: bytes = b"", language: str | None = None) -> Output:
        """What a command prints on another machine, which may be linked to this home."""
        return self.command(
            *words, "--data-dir", str(self.laptop), stdin=stdin, own=True, language=language
        )

    @property
    def laptop(self) -> Path:
        return self.folder / "laptop" / "data"

    def _environment(self, language: str, store: str | None = None) -> dict[str, str]:
        environment = {
            "MEMORY_SERVER_DATA_DIR": str(self.data),
            "MEMORY_SERVER_TIMEZONE": self.zone,
            "MEMORY_SERVER_NOW": self.now.isoformat(),
            "MEMORY_SERVER_READ_ONLY": str(self.read_only).lower(),
            "MEMORY_SERVER_TOOLSETS": "all",
            "LANGUAGE": language,
        }
        if store is not None:
            environment["MEMORY_SERVER_STORE"] = store
        return environment

    async def _shared_command(self, words: Sequence[str], stdin: bytes, language: str) -> Output:
        streams = CapturedIO(stdin)
        captured = CAPTURED_IO.set(streams)
        parser_output = io.StringIO()
        try:
            with speaking(language):
                status = await self._run(words, language, parser_output)
        finally:
            CAPTURED_IO.reset(captured)
        errors = parser_output.getvalue() + streams.errors.decode()
        return Output(tuple(words), status, streams.output.decode(), errors)

    async def _run(self, words: Sequence[str], language: str, parser_output: io.StringIO) -> int:
        """The exit status of a command in the shared process."""
        try:
            with redirect_stderr(parser_output), redirect_stdout(parser_output):
                flags = parsed(words)
            _, settings = understood(flags, {**os.environ, **self._environment(language)})
            return await run_command(settings, flags, SharedProcess(self.app, Path.cwd()))
        except SystemExit as error:
            return int(error.code or 0)
        except MemoryServerError as error:
            return refuse(error, flags)

    async def _own_command(
        self, words: Sequence[str], stdin: bytes, language: str, store: str | None
    ) -> Output:
        out = io.TextIOWrapper(io.BytesIO(), "utf-8")
        err = io.TextIOWrapper(io.BytesIO(), "utf-8")
        standard_input = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
        with (
            mock.patch.dict(os.environ, self._environment(language, store)),
            mock.patch.object(sys, "stdin", standard_input),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                with _same_log():
                    status = await asyncio.to_thread(main, ["--language", language, *words])
            except SystemExit as error:
                status = int(error.code or 0)
        printed, complaints = (stream.buffer.getvalue().decode() for stream in _flushed(out, err))
        return Output(tuple(words), status, printed, complaints)

    def tool(self, name: str, arguments: Mapping[str, Any], **asker: Any) -> Answer | ToolFailed:
        """What a tool answers to a client of the shared process."""
        return self.run(self._tool(name, arguments, asker))

    async def _tool(
        self, name: str, arguments: Mapping[str, Any], asker: Mapping[str, Any]
    ) -> Answer | ToolFailed:
        if self.read_only and not TOOLS[name].only_reads:
            return ToolFailed("This server only reads.")
        try:
            return await call(
                TOOLS[name], self.app.call.in_session(asker.get("session")), arguments
            )
        except ToolFailed as failure:
            return failure

    def get(self, path: str) -> httpx.Response:
        """A page."""
        return self.run(self.page.get(self.page_url + path.removeprefix("/")))

    def links_of(self, address: str, page: Parsed) -> list[str]:
        """The addresses of other pages that a page links to."""
        urls = [
            urljoin(self.page_url + address.removeprefix("/"), link) for link in sorted(page.links)
        ]
        ours = [url.removeprefix(self.page_url) for url in urls if url.startswith(self.page_url)]
        return [f"/{url.partition('#')[0]}" for url in ours]

    def post(self, path: str, form: Mapping[str, Any]) -> httpx.Response:
        """The answer to a form of the page."""
        return self.run(
            self.page.post(
                self.page_url + path.removeprefix("/"),
                data=dict(form),
                headers={"sec-fetch-site": "same-origin"},
            )
        )

    def ask(self, tool: str, arguments: Mapping[str, Any], **headers: str) -> httpx.Response:
        """The answer of `POST /v1/{tool}`."""
        return self.run(self.serve().post(f"/v1/{tool}", json=dict(arguments), headers=headers))

    # --- what is there ---------------------------------------------------------------------------------------

    def conversations(self) -> list[str]:
        return sorted(self.run(self.app.conversations.ids()))

    def memories(self, conversation: str) -> list[Any]:
        return list(self.run(self.app.conversation(conversation).short_term.memories()))

    def all_memories(self) -> list[Any]:
        """The memories of all conversations."""
        return list(chain.from_iterable(map(self.memories, self.conversations())))

    def all_shelved(self) -> list[Any]:
        """What was forgotten in all conversations and can come back."""
        return list(chain.from_iterable(map(self.shelf, self.conversations())))

    def triggers(self, conversation: str) -> list[Any]:
        return list(self.run(self.app.conversation(conversation).long_term.memories()))

    def shelf(self, conversation: str) -> list[Any]:
        return list(self.run(self.app.conversation(conversation).archive.entries()))

    def backups(self) -> list[str]:
        return sorted(backup.name for backup in self.run(self.app.memories.backups.listed()))

    def changes(self) -> list[Any]:
        """The newest changes of both engines."""
        changes: list[Any] = []
        for engine in self.app.memories.engines:
            changes.extend(self.run(engine.history(limit=20)))
        return changes

    def entries(self) -> list[tuple[str, Any]]:
        """Each entry that is live, with its place."""
        return list(self.run(KnowledgeLifecycle(self.app.knowledge).live()))

    def recall_ids(self) -> list[str]:
        """What the record of recalls has."""
        return [line["id"] for line in self.command("recalls", "--json", "-n", "1000").lines()]


@contextmanager
def _same_log() -> Iterator[None]:
    """A command sets up the log of its process, which is that of the tests."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _flushed(*streams: io.TextIOWrapper) -> Iterator[Any]:
    for stream in streams:
        stream.flush()
        yield stream


async def _in_time(work: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await work

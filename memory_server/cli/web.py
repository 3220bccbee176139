"""Serve the page to this user of this machine (`web`), or write two of its pages into one file (`view --html`)."""

from __future__ import annotations

import asyncio
import contextlib
import webbrowser
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

from languages import spoken
from memory_server.cli.terminal import console, say, write_target
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.streams import complain
from memory_server.memories.memories import Call
from memory_server.process.limits import use_more_files
from memory_server.runtime.app import App, CallerView
from memory_server.serving.http.http_server import listening, run_app
from memory_server.serving.http.principals import ALL, Principal
from memory_server.web.access import LOOPBACK, OneTimeLink
from memory_server.web.app import page_app
from memory_server.web.details import examined
from memory_server.web.pages import home
from memory_server.web.view import Site, request_of, viewed
from memory_server.web.whole import whole

if TYPE_CHECKING:
    from starlette.types import Scope

PORT = 8771
_TRIES = 20
"""Ports that are tried, starting with the usual one."""
FIRINGS_SECONDS = 20.0
"""Seconds that `view` waits to know when triggers fire next, which runs each trigger at 390 moments. About 20 usual
triggers take half of this. A trigger that never ends would take a quarter of an hour; its row then has no next day."""


def site_of(view: CallerView) -> Site:
    """Return what the page may see and change: the memories of `view`, nothing to change if it is
    read-only."""

    @asynccontextmanager
    async def call(_scope: Scope) -> AsyncIterator[Call]:
        yield view.call

    writable = not view.settings.read_only
    return Site(
        call=call,
        keep_ms=view.settings.storage.keep_ms,
        writable=writable,
        sandbox=view.sandbox,
        pauses=view.home.pause if writable else None,
        user_home=str(Path.home()),
        owner=view,
        tenants=view.home.tenant_names,
    )


async def web(settings: Settings, flags: Namespace) -> None:
    """Serve until a signal asks for the end. Raises InvalidInput if the port is in use."""
    app = App(settings)
    stop = asyncio.Event()
    async with app, serve_page(app, flags.port, stop) as link:
        say("The page is open; this link works once, within ten minutes:")
        console().print(link, soft_wrap=True, markup=False, highlight=False)
        say("Press Ctrl-C to close it.")
        if not flags.no_open:
            await asyncio.to_thread(webbrowser.open, link)
        await stop.wait()


@asynccontextmanager
async def serve_page(
    view: CallerView, port: int | None, stop: asyncio.Event | None = None
) -> AsyncIterator[str]:
    """Serve the page of an open app, and yield its link; a signal sets `stop`. Raises InvalidInput if the port is in
    use."""
    listener = _listener(port)
    gate = OneTimeLink(Principal(None, ALL))
    site = site_of(view)
    stop = stop or asyncio.Event()

    page = page_app(lambda _scope: site, gate, LOOPBACK)

    # Prepare the first pages while the user opens the link.
    tasks = [
        asyncio.create_task(run_app(page, listener, stop, use_more_files())),
        asyncio.create_task(_prepare(view, site)),
    ]

    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{gate.door}?key={gate.key}"
    finally:
        stop.set()
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        listener.close()


def _listener(port: int | None) -> socket:
    """Listen at this port of this machine, or at the first free port of the usual ones. Raises InvalidInput if it is
    in use."""
    ports: Sequence[int] = range(PORT, PORT + _TRIES)
    if port is not None:
        ports = [port]
    for candidate in ports:
        try:
            return listening("127.0.0.1", candidate)
        except InvalidInput:
            if candidate == ports[-1]:
                raise
    raise AssertionError


async def _prepare(view: CallerView, site: Site) -> None:
    """Prepare what the first pages would wait for; a page shows its own error."""
    await view.warm()
    with contextlib.suppress(Exception):
        async with viewed(site, request_of(spoken())) as seen:
            await home(seen)
            await examined(seen)


async def view(view: CallerView, flags: Namespace) -> None:
    """Write the first two pages into one file, without script. Raises InvalidInput if the file exists or cannot be
    written."""
    site = site_of(view)
    async with viewed(site, request_of(spoken())) as seen:
        await home(seen)
        firings = list(site.made.firings)  # when triggers fire next
        if firings:
            await asyncio.wait(firings, timeout=FIRINGS_SECONDS)
        text = await whole(seen)
        for task in firings:
            task.cancel()

    target = flags.html
    await asyncio.to_thread(write_target, target, [text.encode()], force=flags.force)
    if target != "-":
        complain("wrote {target}; open it in a browser", target)

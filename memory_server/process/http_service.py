"""`serve --http`: MCP over HTTP for one user or many, who share a sandbox and nothing else."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from languages import ENGLISH, speaking
from memory_server.config import Settings
from memory_server.kernel.collecting import collect_from_now_on
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.streams import complain
from memory_server.kernel.values import JsonObject, dataclass
from memory_server.knowledge.projects import NO_PROJECT
from memory_server.memories.memories import Call
from memory_server.process.hosts import Parse, ServerForOthers, settings_of
from memory_server.process.limits import use_more_files
from memory_server.runtime.app import App, CallerView, offered_tools, usual_offer
from memory_server.runtime.homes import TokenFile, tokens_at
from memory_server.runtime.runtime import Runtime
from memory_server.serving.fair_threads import FOR, use_fair_threads
from memory_server.serving.http.http_server import HttpServer, Limits, address_of, serve
from memory_server.serving.http.middleware import PAGE, Enter
from memory_server.serving.http.principals import WRITE, Principal, caller_of
from memory_server.serving.http.refusals import HttpError
from memory_server.serving.http.tenants import TenantMemories, Tenants
from memory_server.tools import ANSWERED_TOOLS, TOOLSETS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

_OPEN_CONVERSATIONS = 4
_OPEN_MINUTES = 5.0
"""What a tenant keeps in memory; there may be a thousand of them."""
_MB = 1_000_000


async def serve_http(settings: Settings, listen: str, parse: Parse) -> None:
    """Serve until a signal asks for the end. `parse` reads the command lines of linked machines. Raise InvalidInput if
    the address or a setting cannot be used."""
    address = address_of(listen)
    use_fair_threads()
    turns: defaultdict[str | None, asyncio.Semaphore] = defaultdict(
        partial(asyncio.Semaphore, settings.http.trigger_searches)
    )

    # Callers work elsewhere: the folder in which the server was started is not their project.
    knowledge = replace(settings.knowledge, project=settings.knowledge.project or NO_PROJECT)
    settings_there = settings.model_copy(update={"knowledge": knowledge})
    app = App(settings_there, runtime=Runtime(settings_there, trigger_turns=turns[None]))

    async def warm() -> None:
        try:
            await app.warm()
        finally:
            collect_from_now_on()

    offered = offered_tools(settings)
    answered = ANSWERED_TOOLS if usual_offer(settings) else offered

    writing = settings.model_copy(update={"read_only": False})
    of_writing = ANSWERED_TOOLS if usual_offer(writing) else offered_tools(writing)
    async with app:
        openings = _TenantOpener(app, turns, parse)
        node = HttpServer(
            settings=settings.http,
            tokens=_tokens(settings, app.home.place),
            opener=openings.open,
            tools=answered,
            max_bytes=settings.results.max_bytes,
            meter=app.meter,
            look=lambda: asyncio.to_thread(app.home.refuse_without_room),
            warm=warm,
            say=complain,
            sessions=any(tool.name in offered for tool in TOOLSETS["sessions"]),
            files=use_more_files(),
            read_only=settings.read_only,
            exchanges=all(tool.name in of_writing for tool in TOOLSETS["short-term"]),
            page=partial(_page, app) if settings.http.web else None,
        )
        with speaking(ENGLISH):
            # The log of upkeep is English, because it is not of a single user.
            upkeep = asyncio.create_task(app.keep_up(openings))
        try:
            await serve(node, address)
        finally:
            upkeep.cancel()
            await asyncio.gather(upkeep, return_exceptions=True)


def _page(app: App, tenants: Tenants, enter: Enter, limits: Limits) -> ASGIApp:
    """Build the page. A person who types a token sees the memories of its tenant. Opening them
    raises InvalidInput if the server is busy."""
    from memory_server.web.access import TokenForm
    from memory_server.web.app import page_app
    from memory_server.web.view import Site

    sites: dict[tuple[str | None, bool], Site] = {}

    @asynccontextmanager
    async def call(scope: Scope) -> AsyncIterator[Call]:
        """Open the memories of the caller for a page. Raises InvalidInput if the server is busy."""
        caller = caller_of(scope)
        FOR.set(caller.tenant)
        limit = limits[caller.tenant]
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(limit.request("calls"))
                await stack.enter_async_context(limit.turn(0))
                tenant = await stack.enter_async_context(tenants.used(caller))
            except HttpError as error:
                raise InvalidInput(
                    "The server is busy; wait a moment and open the page again."
                ) from error
            yield tenant.call(caller)

    def site_of(request_scope: Scope) -> Site:
        """Return what the caller of a request may see and change. It is made once for each tenant, with the right to
        write and without it, and kept."""
        caller = caller_of(request_scope)
        may_write = WRITE in caller.scopes
        key = (caller.tenant, may_write)
        if key not in sites:
            sites[key] = Site(
                call=call,
                keep_ms=app.settings.storage.keep_ms,
                writable=may_write and not app.settings.read_only,
                sandbox=app.sandbox,
                alone=False,
            )
        return sites[key]

    return page_app(site_of, TokenForm(enter, PAGE), None)


def _tokens(settings: Settings, folder: Path) -> TokenFile | None:
    """Return the tokens of the file that the settings name, or of the usual file in the data folder
    if it exists; otherwise None."""
    if settings.http.tokens is not None:
        return TokenFile(settings.http.tokens.expanduser())
    usual_path = tokens_at(folder)
    if usual_path.exists():
        return TokenFile(usual_path)
    return None


def _memories(app: App, room: Callable[[], float], parse: Parse) -> TenantMemories:
    """Return the memories of `app` for callers elsewhere, whose answers do not name places of this
    machine. `room`: how many bytes they may still take."""
    # Answers must not name places of this machine.
    hidden = {str(app.home.place): "the data folder"}

    url = app.home.shown.partition("#")[0]
    if "://" in url:
        hidden[url] = "the database"
    memories = replace(app.memories, hidden=hidden)

    async def run(name: str, arguments: JsonObject, caller: Principal) -> dict[str, Any]:
        from memory_server.process.remote_commands import (
            run,  # only servers of linked machines need it
        )

        answer = dict(await run(app, parse, name, arguments, caller))
        for stream in ("output", "errors"):
            answer[stream] = memories.for_callers(answer[stream])
        return answer

    def view(caller: Principal) -> CallerView:
        return ServerForOthers(app, caller.folder, "REST").view(settings_of(app, caller))

    return TenantMemories(memories, app.server, room, run, view)


@dataclass(slots=True)
class _TenantOpener:
    """Opens the memories of tenants beside `app`, which has the memories of the data folder itself."""

    app: App
    turns: Mapping[str | None, asyncio.Semaphore]
    parse: Parse

    @asynccontextmanager
    async def open(self, tenant: str | None, writable: bool) -> AsyncIterator[TenantMemories]:
        """Open the memories of a tenant, or those of `app` for None if they may be written. A token
        that only reads is not noted in the list of tenants."""
        if tenant is None and writable:
            yield _memories(self.app, lambda: inf, self.parse)
            return
        where: JsonObject = {}
        if tenant is not None:
            where = self.app.home.settings_of(tenant)
        tenants_app = self._app(where, tenant, read_only=not writable)

        most_bytes = inf
        if self.app.settings.http.tenant_mb:
            most_bytes = self.app.settings.http.tenant_mb * _MB

        def room() -> float:
            if most_bytes == inf:
                bytes_left = inf
            else:
                bytes_left = most_bytes - tenants_app.home.size()
            tenants_app.runtime.full = bytes_left < 0
            return bytes_left

        async with tenants_app, self._counted(tenants_app):
            yield _memories(tenants_app, room, self.parse)
        # A token that only reads must leave no trace in the list of tenants.
        if tenant is not None and writable:
            with suppress(OSError):  # only the list of tenants is the poorer for it
                await asyncio.to_thread(self.app.home.note_tenant, tenant)

    def _app(self, where: JsonObject, tenant: str | None, *, read_only: bool = False) -> App:
        """Return the memories that the settings `where` name, beside the memories of this process."""
        owners = self.app.settings
        update = {
            **where,
            "read_only": owners.read_only or read_only,
            "storage": replace(
                owners.storage, open_conversations=_OPEN_CONVERSATIONS, open_minutes=_OPEN_MINUTES
            ),
            "timezone": owners.http.timezones.get(tenant or "", owners.timezone),
        }

        settings = owners.model_copy(update=update)
        turns = self.turns[tenant]
        if where:
            runtime = Runtime.for_tenant(settings, self.app.runtime, trigger_turns=turns)
        else:
            # These are the memories of the data folder itself, for callers who may only read them.
            runtime = Runtime(settings, neighbour=self.app.runtime, trigger_turns=turns)
        return App(settings, runtime=runtime)

    @asynccontextmanager
    async def _counted(self, app: App) -> AsyncIterator[None]:
        """Count the figures of `app` in the figures of this process as long as it is open."""
        app.meter.join(self.app.meter)
        try:
            yield
        finally:
            app.meter.leave()

    async def overdue(self) -> bool:
        """Return True: the ledger of each tenant knows when its upkeep is due."""
        return True

    async def run_if_due(self) -> int:
        """Do what is due for every tenant; return the number of forgotten memories."""
        forgotten = await self.app.maintenance.run_if_due() or 0
        for where in await asyncio.to_thread(self.app.home.tenants):
            async with self._app(where, None) as app, self._counted(app):
                forgotten += await app.maintenance.run_if_due() or 0
        return forgotten

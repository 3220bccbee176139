"""`serve --http`: MCP over HTTP for one user or many, who share a sandbox and nothing else."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_server.app import App, offered_tools, usual_offer
from memory_server.cli.process_limits import use_more_files
from memory_server.cli.terminal import complain
from memory_server.config import Settings
from memory_server.kernel.collecting import collect_from_now_on
from memory_server.kernel.errors import InvalidInput
from memory_server.knowledge.projects import NO_PROJECT
from memory_server.memories.memories import Call
from memory_server.serving.fair_threads import FOR, use_fair_threads
from memory_server.serving.http.http_server import HttpServer, Limits, address_of, serve
from memory_server.serving.http.middleware import PAGE, Enter
from memory_server.serving.http.principals import WRITE, Principal, caller_of
from memory_server.serving.http.refusals import HttpError
from memory_server.serving.http.tenants import TenantMemories, Tenants
from memory_server.storage.data_dir import tokens_at
from memory_server.storage.token_file import TokenFile
from memory_server.tools import ANSWERED_TOOLS, TOOLSETS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

_OPEN_CONVERSATIONS = 4
_OPEN_MINUTES = 5.0
"""What a tenant keeps in memory; there may be a thousand of them."""
_MB = 1_000_000


async def serve_http(settings: Settings, listen: str) -> None:
    """Serve until a signal asks for the end. Raises InvalidInput: the address or a setting cannot be used."""
    address = address_of(listen)
    use_fair_threads()
    turns: defaultdict[str | None, asyncio.Semaphore] = defaultdict(
        partial(asyncio.Semaphore, settings.http.trigger_searches)
    )
    # Callers work elsewhere: the folder in which the server was started is not their project.
    knowledge = replace(settings.knowledge, project=settings.knowledge.project or NO_PROJECT)
    app = App(settings.model_copy(update={"knowledge": knowledge}), turns=turns[None])

    async def warm() -> None:
        try:
            await app.warm()
        finally:
            collect_from_now_on()

    offered = offered_tools(settings)
    answered = ANSWERED_TOOLS if usual_offer(settings) else offered
    async with app:
        openings = _TenantOpener(app, turns)
        node = HttpServer(
            settings.http,
            _tokens(settings, app.home.place),
            openings.open,
            answered,
            settings.results.max_bytes,
            app.meter,
            lambda: asyncio.to_thread(app.home.refuse_without_room),
            warm,
            complain,
            any(tool.name in offered for tool in TOOLSETS["sessions"]),
            use_more_files(),
            settings.read_only,
            partial(_page, app) if settings.http.web else None,
        )
        upkeep = asyncio.create_task(app.keep_up(openings))
        try:
            await serve(node, address)
        finally:
            upkeep.cancel()
            await asyncio.gather(upkeep, return_exceptions=True)


def _page(app: App, tenants: Tenants, enter: Enter, limits: Limits) -> ASGIApp:
    """The page, for whoever types a token: each sees the memories of its tenant."""
    from memory_server.web.access import TokenForm
    from memory_server.web.app import page_app
    from memory_server.web.view import Site

    known: dict[tuple[str | None, bool], Site] = {}

    @asynccontextmanager
    async def call(scope: Scope) -> AsyncIterator[Call]:
        caller = caller_of(scope)
        FOR.set(caller.tenant)
        own = limits[caller.tenant]
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(own.request("calls"))
                await stack.enter_async_context(own.turn(0))
                tenant = await stack.enter_async_context(tenants.used(caller))
            except HttpError as error:
                raise InvalidInput("The server has much to do; wait a little, and open the page again.") from error
            yield tenant.call(caller)

    def site_of(scope: Scope) -> Site:
        key = caller_of(scope).tenant, WRITE in caller_of(scope).scopes
        if key not in known:
            writable = key[1] and not app.settings.read_only
            known[key] = Site(call, app.settings.storage.keep_ms, writable, app.sandbox, alone=False)
        return known[key]

    return page_app(site_of, TokenForm(enter, PAGE), None)


def _tokens(settings: Settings, place: Path) -> TokenFile | None:
    usual = tokens_at(place)
    given = settings.http.tokens
    return TokenFile(given.expanduser()) if given is not None else TokenFile(usual) if usual.exists() else None


def _memories(app: App, room: Callable[[], float]) -> TenantMemories:
    """The memories for callers who have nothing to do with this machine."""
    url = app.home.shown.partition("#")[0]
    database = {url: "the database"} if "://" in url else {}
    memories = replace(app.memories, hidden={str(app.home.place): "the data folder"} | database)

    async def run(name: str, given: Mapping[str, Any], caller: Principal) -> dict[str, Any]:
        from memory_server.cli.remote_commands import run  # only servers of linked machines need it

        said = await run(app, name, given, caller)
        return said | {stream: memories.for_callers(said[stream]) for stream in ("output", "errors")}

    return TenantMemories(memories, app.server, room, run)


@dataclass(slots=True)
class _TenantOpener:
    """Opens the memories of tenants beside `app`, which has those of the data folder itself."""

    app: App
    turns: Mapping[str | None, asyncio.Semaphore]

    @asynccontextmanager
    async def open(self, tenant: str | None, writable: bool) -> AsyncIterator[TenantMemories]:
        """The memories of a tenant."""
        if tenant is None and writable:
            yield _memories(self.app, lambda: inf)
            return
        where = {} if tenant is None else self.app.home.settings_of(tenant)
        made = self._app(where, tenant, read_only=not writable)
        most_mb = self.app.settings.http.tenant_mb

        def room() -> float:
            left = most_mb * _MB - made.home.size() if most_mb else inf
            made.full = left < 0
            return left

        async with made, self._counted(made):
            yield _memories(made, room)
        if tenant is not None and writable:
            with suppress(OSError):  # only the list of tenants is the poorer for it
                await asyncio.to_thread(self.app.home.note_tenant, tenant)

    def _app(self, where: Mapping[str, Any], tenant: str | None, *, read_only: bool = False) -> App:
        given = self.app.settings
        storage = replace(given.storage, open_conversations=_OPEN_CONVERSATIONS, open_minutes=_OPEN_MINUTES)
        changed = {**where, "read_only": given.read_only or read_only, "storage": storage}
        return App(
            given.model_copy(update=changed),
            sandbox=self.app.sandbox,
            turns=self.turns[tenant],
            apart=bool(where),
            beside=self.app.home,
        )

    @asynccontextmanager
    async def _counted(self, app: App) -> AsyncIterator[None]:
        """The figures of `app` are part of those of this process, as long as it is open."""
        app.meter.join(self.app.meter)
        try:
            yield
        finally:
            app.meter.leave()

    async def overdue(self) -> bool:
        """The ledger of each tenant knows when its upkeep is due."""
        return True

    async def run_if_due(self) -> int:
        """Do what is due for every tenant; gives the number of memories forgotten."""
        forgotten = await self.app.maintenance.run_if_due() or 0
        for where in await asyncio.to_thread(self.app.home.tenants):
            async with self._app(where, None) as app, self._counted(app):
                forgotten += await app.maintenance.run_if_due() or 0
        return forgotten

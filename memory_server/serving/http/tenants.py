"""The open tenants. Each has memories, an MCP server and a session manager of its own, so no name of a tenant travels
through tools: what is not there cannot leak."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from math import inf
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request

from memory_server.kernel.errors import QuotaReached
from memory_server.kernel.values import JsonObject, frozen
from memory_server.memories.memories import Call, Memories
from memory_server.operations.ports import OpenMemory
from memory_server.serving.http.principals import WRITE, Principal, caller_of
from memory_server.serving.http.refusals import HttpError
from memory_server.serving.server import MakeServer
from memory_server.serving.subscriptions import Subscriptions

log = logging.getLogger(__name__)

END_SECONDS = 5.0
"""How long tenants have to close at the end."""
GROWTH = 4
"""Bytes on disk that a byte of a request may become: in the journal, in a snapshot, and as words."""
LOOK_SECONDS = 1.0
"""How often, at least, the size of a busy tenant is measured: a short request such as for a backup may write much."""
LOOK_SHARE = 0.1
"""The share of the time that measuring may take."""


@frozen
class TenantMemories:
    """The memories of a tenant. `make_server` makes an MCP server of them; `room` looks how many bytes they may still
    take, and lets nothing be added if they may not grow. `run` does a command or hook of a linked machine; it takes
    its name, its arguments and the caller. `view` gives all that a caller may see."""

    memories: Memories
    make_server: MakeServer
    room: Callable[[], float]
    run: Callable[[str, JsonObject, Principal], Awaitable[dict[str, Any]]]
    view: Callable[[Principal], AbstractAsyncContextManager[OpenMemory]]


Opener = Callable[[str | None, bool], AbstractAsyncContextManager[TenantMemories]]
"""Opens the memories of a tenant (None: the data folder itself); True: for changes too."""


class Tenant:
    """Memories that are open, for some requests or for none."""

    def __init__(self) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self.subscriptions = Subscriptions(self._resolve)
        self.users = 0
        self.used = time.monotonic()
        self._room = inf
        self._taken = 0
        """Bytes that requests since the last look may have taken."""
        self._next_look = 0.0

    async def live(
        self, memories: AbstractAsyncContextManager[TenantMemories], idle_seconds: float
    ) -> None:
        """Open the memories, and close them when they were idle for so long or `over` is set. This is a task of its
        own, because a session manager must be left in the task that entered it."""
        async with memories as self.opened:
            server: Server[object] = self.opened.make_server(self._resolve, self.subscriptions)
            self.manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
            async with self.manager.run():
                await self._measure_room()
                if not self.ready.done():
                    self.ready.set_result(None)
                while not self.over.is_set():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.over.wait(), idle_seconds)
                    if not self.users and time.monotonic() - self.used >= idle_seconds:
                        self.over.set()
                    elif not self.over.is_set():
                        await self._measure_room()

    async def admit(self, size: int) -> None:
        """Count a request with a body of `size` bytes, and measure the free room again if it may be used up by now, or
        if that is due."""
        self._taken += size * GROWTH
        if self._room == inf:
            return
        may_be_full = 0 < self._room <= self._taken
        if may_be_full or time.monotonic() >= self._next_look:
            await self._measure_room()

    async def admit_content(self, size: int) -> None:
        """Look for room before a content is stored that has `size` bytes unpacked, which may be many more than the
        bytes of its request. Raises QuotaReached: it has no room."""
        await self.admit(size)
        if size > self._room:
            raise QuotaReached(
                "The content has {bytes:,} bytes, and these memories may take {room:,} more; send less, "
                "delete some memories, or ask for more room.",
                size,
                max(0, round(self._room)),
            )

    async def _measure_room(self) -> None:
        """Look up the free room in a thread, and set when to look again: the longer a look takes, the later."""
        began = time.monotonic()
        self._taken = 0
        self._next_look = began + LOOK_SECONDS
        self._room = await asyncio.to_thread(self.opened.room)
        ended = time.monotonic()
        self._next_look = max(self._next_look, ended + (ended - began) / LOOK_SHARE)

    def call(self, caller: Principal | None) -> Call:
        """Return the memories as this caller sees them, or as they are for a request without a
        caller. Raises InvalidInput if the name of its session cannot be used."""
        memories = self.opened.memories
        if caller is None:
            return Call(memories, memories.conversations)
        conversations = memories.conversations
        if caller.usual is not None:
            conversations = conversations.view(caller.usual)
        asker = {"by": "REST", "cwd": caller.folder}
        call = Call(
            memories,
            conversations,
            caller.wire,
            asker,
            folder=caller.folder,
            project=caller.project,
        )
        return call.in_session(caller.session).in_zone(caller.timezone)

    def _resolve(self, request: object) -> Call:
        """Return the view for a request of MCP: of its caller, or of the tenant itself if it did not come over HTTP."""
        http_request = getattr(request, "request", None)
        if not isinstance(http_request, Request):
            return self.call(None)
        return self.call(caller_of(http_request.scope))


@frozen
class _Key:
    """What a tenant is open for: its name (None: the data folder itself), and whether for changes too."""

    name: str | None
    can_change: bool


class Tenants:
    """Opens tenants at their first request: at most `most` of them, each until it was idle for `idle_seconds`."""

    def __init__(self, opener: Opener, most: int, idle_seconds: float) -> None:
        self._opener = opener
        self._most = most
        self._idle_seconds = idle_seconds
        self._open: dict[_Key, Tenant] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def used(self, caller: Principal) -> AsyncIterator[Tenant]:
        """Give the tenant of a caller, which stays open meanwhile. Raises HttpError: too many tenants are busy."""
        key = _Key(caller.tenant, can_change=WRITE in caller.scopes)
        tenant = self._open.get(key)
        if tenant is None or tenant.over.is_set():
            self._make_room()
            tenant = self._begin(key)
        tenant.users += 1
        try:
            await asyncio.shield(tenant.ready)
            await tenant.admit(caller.size)
            yield tenant
        finally:
            tenant.users -= 1
            tenant.used = time.monotonic()

    def _begin(self, key: _Key) -> Tenant:
        """Begin a new tenant, which a task of its own opens and closes."""
        tenant = Tenant()
        self._open[key] = tenant
        task = asyncio.create_task(self._keep_open(key, tenant))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return tenant

    def _make_room(self) -> None:
        """Close the tenant that was idle for longest, if as many are open as may be. Raises HttpError: all are busy."""
        if len(self._open) < self._most:
            return
        idle = {key: tenant for key, tenant in self._open.items() if not tenant.users}
        if not idle:
            raise HttpError(
                503, "busy", "Too many tenants are busy; try again.", {"retry-after": "1"}
            )
        oldest = min(idle, key=lambda key: idle[key].used)
        idle[oldest].over.set()
        del self._open[oldest]

    async def _keep_open(self, key: _Key, tenant: Tenant) -> None:
        """Keep a tenant open until it is over, and then remove it from the open tenants. If its
        memories cannot be opened, those who wait for it get the error; a later error goes to the
        log."""
        try:
            await tenant.live(self._opener(key.name, key.can_change), self._idle_seconds)
        except Exception as error:
            if tenant.ready.done():
                log.exception("a tenant ended")
            else:
                tenant.ready.set_exception(error)
        finally:
            tenant.over.set()
            if self._open.get(key) is tenant:
                del self._open[key]

    def end_streams(self) -> None:
        """End all streams that listen for changes, each with its last frame."""
        for tenant in self._open.values():
            tenant.subscriptions.close()

    async def aclose(self) -> None:
        """Close all tenants, which must be without requests."""
        for tenant in self._open.values():
            tenant.over.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_SECONDS)

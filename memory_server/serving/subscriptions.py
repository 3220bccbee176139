"""Clients are told when a resource they subscribed to changed, also by another process; both protocol eras.

While somebody is subscribed, the conversations in question are looked at once a second (a look costs one `stat` each
where nothing happened), and at once after each call; less often where looking would take more than a tenth of the
time. Nobody subscribed, nothing runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated

from memory_server.core.errors import MemoryServerError

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks at what is subscribed to."""
_REST = 9
"""Times that a look took, until the next one: the list of 10,000 conversations takes seconds, an ordinary look 1 ms."""
MOST_SUBSCRIPTIONS = 1_000
"""URIs that are watched at once; a client that wants more is told that there are too many."""

Revision = Callable[[str], Awaitable[Hashable]]
"""A value that differs whenever the document at a URI does."""


class Subscriptions:
    """Which URIs are watched, for whom. `running` must be entered while a server runs."""

    def __init__(self, revision: Revision, look_seconds: float = LOOK_SECONDS) -> None:
        self._revision = revision
        self._look_seconds = look_seconds
        self._sessions: dict[str, list[ServerSession]] = {}  # handshake era: `resources/subscribe`
        self._listened: dict[str, int] = {}  # 2026-07-28: `subscriptions/listen`, streams per URI
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._seen: dict[str, Hashable] = {}
        self._stirred = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look at what is watched until this is left."""
        looking = asyncio.get_running_loop().create_task(self._look_again_and_again())
        try:
            yield
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking

    def stir(self) -> None:
        """Something may have changed here: look now."""
        self._stirred.set()

    async def subscribe(
        self, context: ServerRequestContext[Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """`resources/subscribe`."""
        uri = str(params.uri)
        await self._begin(uri)
        sessions = self._sessions.setdefault(uri, [])
        if context.session not in sessions:
            sessions.append(context.session)
        return types.EmptyResult()

    async def unsubscribe(
        self, context: ServerRequestContext[Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """`resources/unsubscribe`."""
        self._leave(str(params.uri), context.session)
        return types.EmptyResult()

    async def listen(
        self, context: ServerRequestContext[Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """`subscriptions/listen`: answers when the client closes the stream."""
        uris = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        begun: list[str] = []
        try:
            for uri in uris:
                await self._begin(uri)
                self._listened[uri] = self._listened.get(uri, 0) + 1
                begun.append(uri)
            return await self._streams(context, params)
        finally:
            for uri in begun:
                self._listened[uri] -= 1
                self._end(uri)

    async def _begin(self, uri: str) -> None:
        """Watch `uri` too. The caller notes for whom before it waits for anything else."""
        if uri in self._seen:
            return
        self._make_sure_of_room()
        try:
            revision = await self._revision(uri)
        except MemoryServerError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from error
        if uri not in self._seen:
            self._make_sure_of_room()  # others may have come meanwhile
            self._seen[uri] = revision
            self.stir()

    def _make_sure_of_room(self) -> None:
        if len(self._seen) >= MOST_SUBSCRIPTIONS:
            too_many = f"At most {MOST_SUBSCRIPTIONS:,} resources are watched; end a subscription first."
            raise MCPError(types.INVALID_PARAMS, too_many)

    def _leave(self, uri: str, session: ServerSession) -> None:
        self._sessions[uri] = [each for each in self._sessions.get(uri, ()) if each is not session]
        self._end(uri)

    def _end(self, uri: str) -> None:
        if not self._sessions.get(uri) and not self._listened.get(uri):
            self._sessions.pop(uri, None)
            self._listened.pop(uri, None)
            self._seen.pop(uri, None)

    async def _look_again_and_again(self) -> None:
        time = asyncio.get_running_loop().time
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stirred.wait(), self._look_seconds if self._seen else None)
            self._stirred.clear()
            began = time()
            for uri in tuple(self._seen):
                await self._look(uri)
            await asyncio.sleep(_REST * (time() - began))

    async def _look(self, uri: str) -> None:
        try:
            now = await self._revision(uri)
        except MemoryServerError as error:
            log.warning("%s could not be looked at: %s", uri, error)
            return
        if self._seen.get(uri, now) == now:
            return
        self._seen[uri] = now
        await self._bus.publish(ResourceUpdated(uri=uri))
        for session in tuple(self._sessions.get(uri, ())):
            try:
                await session.send_resource_updated(uri)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._leave(uri, session)  # its client is gone

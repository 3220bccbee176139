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
from dataclasses import dataclass, field
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

Request = ServerRequestContext[Any]
Revision = Callable[[Request, str], Awaitable[Hashable]]
"""A value that differs whenever the document at a URI does."""


@dataclass(slots=True)
class _Watched:
    """A URI: the request that asked first, what it looked like last, and its watchers: sessions of the handshake era
    (`resources/subscribe`) and the streams of `subscriptions/listen`."""

    request: Request
    seen: Hashable
    watchers: list[object] = field(default_factory=list)


class Subscriptions:
    """Which URIs are watched, for whom. `running` must be entered while a server runs."""

    def __init__(self, revision: Revision, look_seconds: float = LOOK_SECONDS) -> None:
        self._revision = revision
        self._look_seconds = look_seconds
        self._watched: dict[str, _Watched] = {}
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._stirred = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look at what is watched until this is left."""
        looking = asyncio.create_task(self._look_again_and_again())
        try:
            yield
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking

    def stir(self) -> None:
        """Something may have changed here: look now."""
        self._stirred.set()

    async def subscribe(self, request: Request, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """`resources/subscribe`."""
        await self._begin(request, str(params.uri), request.session)
        return types.EmptyResult()

    async def unsubscribe(self, request: Request, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """`resources/unsubscribe`."""
        self._end(str(params.uri), request.session)
        return types.EmptyResult()

    async def listen(
        self, request: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """`subscriptions/listen`: answers when the client closes the stream."""
        uris = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        stream = object()
        try:
            for uri in uris:
                await self._begin(request, uri, stream)
            return await self._streams(request, params)
        finally:
            for uri in uris:
                self._end(uri, stream)

    async def _begin(self, request: Request, uri: str, watcher: object) -> None:
        if uri not in self._watched:
            try:
                seen = await self._revision(request, uri)
            except MemoryServerError as error:
                raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from error
            if len(self._watched) >= MOST_SUBSCRIPTIONS:
                too_many = f"At most {MOST_SUBSCRIPTIONS:,} resources are watched; end a subscription first."
                raise MCPError(types.INVALID_PARAMS, too_many)
            self._watched.setdefault(uri, _Watched(request, seen))
            self.stir()
        if watcher not in self._watched[uri].watchers:
            self._watched[uri].watchers.append(watcher)

    def _end(self, uri: str, watcher: object) -> None:
        if (watched := self._watched.get(uri)) and watcher in watched.watchers:
            watched.watchers.remove(watcher)
            if not watched.watchers:
                del self._watched[uri]

    async def _look_again_and_again(self) -> None:
        time = asyncio.get_running_loop().time
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stirred.wait(), self._look_seconds if self._watched else None)
            self._stirred.clear()
            began = time()
            for uri, watched in tuple(self._watched.items()):
                await self._look(uri, watched)
            await asyncio.sleep(_REST * (time() - began))

    async def _look(self, uri: str, watched: _Watched) -> None:
        try:
            now = await self._revision(watched.request, uri)
        except MemoryServerError as error:
            log.warning("%s could not be looked at: %s", uri, error)
            return
        if watched.seen == now or uri not in self._watched:
            return
        watched.seen = now
        await self._bus.publish(ResourceUpdated(uri=uri))
        for session in (each for each in tuple(watched.watchers) if isinstance(each, ServerSession)):
            try:
                await session.send_resource_updated(uri)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._end(uri, session)  # its client is gone

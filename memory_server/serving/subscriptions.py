"""Telling clients that a resource has changed to which they subscribed, in both protocol eras.

The resources are looked at after each call and, for changes of other processes, every second: that costs one `stat` for
each unchanged conversation.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import field

import anyio
import mcp_types as types
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated

from memory_server.conversations.conversation import Conversations
from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.values import dataclass
from memory_server.serving.documents import Request, Resolve
from memory_server.serving.resources import revision

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks for changes of other processes."""
MOST_SUBSCRIPTIONS = 1_000
"""URIs that are watched at the same time; a client that wants more gets an error."""


@dataclass(slots=True)
class _WatchedUri:
    """A URI: the conversations it is about, its last revision, and its watchers: sessions of the handshake era
    (`resources/subscribe`) and streams of `subscriptions/listen`."""

    conversations: Conversations
    seen: Hashable
    watchers: set[object] = field(default_factory=set)


class Subscriptions:
    """The resources that clients watch, and the streams on which they are told of changes."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._watched: dict[str, _WatchedUri] = {}
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)

    async def subscribe(
        self, request: Request, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        await self._begin(request, str(params.uri), request.session)
        return types.EmptyResult()

    async def unsubscribe(
        self, request: Request, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._end(str(params.uri), request.session)
        return types.EmptyResult()

    async def listen(
        self, request: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Watch the resources while the stream is open. Answers when the server ends the stream
        (`close`, or its backlog is full); a client that goes cancels this. Raises MCPError if a URI
        names no resource, or too many are watched."""
        uris = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        stream = object()
        try:
            for uri in uris:
                await self._begin(request, uri, stream)
            return await self._streams(request, params)
        finally:
            for uri in uris:
                self._end(uri, stream)

    def close(self) -> None:
        """End all streams of `subscriptions/listen`, each with its last frame."""
        self._streams.close()

    async def _begin(self, request: Request, uri: str, watcher: object) -> None:
        """Add `watcher` to the watchers of a resource. Raises MCPError if nothing can be at the
        URI, or if too many resources are watched."""
        if uri not in self._watched:
            conversations = self._resolve(request).conversations
            try:
                seen = await revision(conversations, uri)
            except MemoryServerError as error:
                raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from error
            if len(self._watched) >= MOST_SUBSCRIPTIONS:
                too_many = f"At most {MOST_SUBSCRIPTIONS:,} resources can be watched; end a subscription first."
                raise MCPError(types.INVALID_PARAMS, too_many)
            self._watched.setdefault(uri, _WatchedUri(conversations, seen))
        self._watched[uri].watchers.add(watcher)

    def _end(self, uri: str, watcher: object) -> None:
        watched = self._watched.get(uri)
        if watched is None:
            return
        watched.watchers.discard(watcher)
        if not watched.watchers:
            del self._watched[uri]

    async def watch(self, seconds: float = LOOK_SECONDS) -> None:
        """Look again and again until this is cancelled, using at most a tenth of the time."""
        while True:
            began = anyio.current_time()
            await self.look()
            look_seconds = anyio.current_time() - began
            await anyio.sleep(max(seconds, 9 * look_seconds))

    async def look(self) -> None:
        """Tell the watchers of each resource that has changed since the last look; any that cannot be read is logged
        and looked at again the next time."""
        for uri, watched in tuple(self._watched.items()):
            try:
                current = await revision(watched.conversations, uri)
            except MemoryServerError as error:
                log.warning("could not look for changes of %s: %s", uri, error)
                continue
            if watched.seen == current:
                continue
            watched.seen = current
            await self._bus.publish(ResourceUpdated(uri=uri))
            for watcher in tuple(watched.watchers):
                if isinstance(watcher, ServerSession):
                    await self._tell(watcher, uri)

    async def _tell(self, session: ServerSession, uri: str) -> None:
        """Tell a session of the handshake era that a resource has changed; without its client, it watches no more."""
        try:
            await session.send_resource_updated(uri)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._end(uri, session)

"""One process that serves HTTP: the routes behind the middleware, uvicorn, and a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import h11
import orjson
import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from languages import ENGLISH, _, speaking
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.failures import failure_text
from memory_server.kernel.meter import BOUNDS_MS, Meter
from memory_server.kernel.request_body import replaying
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge.sessions.ids import Begun
from memory_server.serving.fair_threads import FOR, HOOKS
from memory_server.serving.http import rest
from memory_server.serving.http.authentication import entrance, host_of
from memory_server.serving.http.middleware import (
    LOOPBACK,
    MOST_HEAD_BYTES,
    PAGE,
    Enter,
    Middleware,
    is_modern,
)
from memory_server.serving.http.principals import Tokens, caller_of, has_entered
from memory_server.serving.http.rate_limits import RateLimiter
from memory_server.serving.http.refusals import HttpError
from memory_server.serving.http.tenants import Opener, Tenants
from memory_server.serving.stdio.runner import on_signals
from memory_server.tools.base.tool import Tool


@dataclass(eq=False)  # a registry keeps it in a set
class _Collector:
    meter: Meter

    def collect(self) -> Iterator[Any]:
        """Yield the metrics: times and errors of calls by tool, and a gauge for each family of
        counters."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        times = HistogramMetricFamily(
            "memory_server_call_seconds", "Time of calls", labels=["tool"]
        )
        errors = CounterMetricFamily(
            "memory_server_call_errors", "Calls that were refused or failed", labels=["tool"]
        )
        # Prometheus wants counts that include all smaller times.
        bounds = [*(str(bound / 1000) for bound in BOUNDS_MS), "+Inf"]
        for name, calls in self.meter.calls.items():
            times.add_metric(
                [name],
                list(zip(bounds, accumulate(calls.counts), strict=True)),
                calls.sum_ms / 1000,
            )
            errors.add_metric([name], calls.errors)

        yield times
        yield errors
        for family, numbers in self.meter.figures().items():
            gauge = GaugeMetricFamily(
                f"memory_server_{family}", f"Counters of {family}", labels=["name"]
            )
            for name, number in numbers.items():
                gauge.add_metric([name], number)
            yield gauge


def _figures(meter: Meter) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that answers `/metrics` with the figures of the meter, in the form of Prometheus."""

    async def answer(request: Request) -> Response:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(_Collector(meter))
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

    return answer


if TYPE_CHECKING:
    from memory_server.config.settings import HttpSettings

log = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""How long the head of a request may take."""
MOST_CONNECTIONS = 1_000
MOST_STRANGERS = 0.9
"""Share of them on which no request was let in yet; beyond it, the connection that waits longest is closed."""
SESSION = "mcp-session-id"
MOST_SESSIONS = 1_000
"""Most sessions of a tenant; the least recently used session is dropped."""
KEEP_ALIVE_SECONDS = 5
UNREAD_SECONDS = 1.0
"""How long a connection stays whose request was answered before its body came."""
UNWRITTEN_SECONDS = 10.0
"""How long a connection stays whose client does not read."""
CALL_SECONDS = 5
"""How long calls have to end when the process ends."""
STORE_SECONDS = 1.0
"""How long the store has to answer for `/readyz`."""


Limits = Mapping[str | None, RateLimiter]
MakePage = Callable[[Tenants, Enter, Limits], ASGIApp]
"""Makes the page for people, below `PAGE`, of who may enter and what each tenant may do."""


@frozen
class HttpServer:
    """What a process serves. `look` returns when the store answers; `warm` prepares the first answers. `say` gets the
    address. With `sessions`, tools of this toolset are offered, so headers may name users. `files` is how many files
    and connections may be open, half of which are for connections. If it is `read_only`, nothing can be changed with
    any token. `exchanges`: whole conversations may be imported and exported. `page` is None without a page."""

    settings: HttpSettings
    tokens: Tokens | None
    opener: Opener
    tools: Mapping[str, Tool]
    max_bytes: int
    meter: Meter
    look: Callable[[], Awaitable[object]]
    warm: Callable[[], Coroutine[object, object, None]]
    say: Callable[[str], None]
    sessions: bool
    files: int
    read_only: bool
    exchanges: bool
    page: MakePage | None = None


class _Protocol(H11Protocol):
    """uvicorn's protocol with timeouts for slow heads and for clients that do not read: uvicorn waits for ever; this
    one does not."""

    _late: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def __init__(self, strangers: dict[_Protocol, None], **options: Any) -> None:
        super().__init__(**options)
        self._strangers = strangers
        self._had_entered = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._strangers[self] = None
        most_connections = self.config.limit_concurrency or MOST_CONNECTIONS
        _make_room(self._strangers, int(MOST_STRANGERS * most_connections))
        self._late = self.loop.call_later(HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """Take bytes from a client, and close the connection if the head of a request, once begun, is not whole within
        HEAD_SECONDS."""
        super().data_received(data)
        if (
            self.conn.their_state is not h11.IDLE
        ):  # there is a whole head; who reads the body bounds its time
            self._stop_head_timer()
        elif self._late is None and self.conn.trailing_data[0]:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def on_response_complete(self) -> None:
        self._had_entered = self.was_let_in()
        super().on_response_complete()
        if (
            self.conn.their_state is h11.SEND_BODY
        ):  # the rest stays unread; whatever still comes, this is the end
            self.loop.call_later(UNREAD_SECONDS, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(UNWRITTEN_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_stall_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_stall_timer()
        self._strangers.pop(self, None)
        super().connection_lost(exc)

    def was_let_in(self) -> bool:
        """Tell whether a request of this connection was let in, also a request that is not answered yet."""
        scope = cast("Scope | None", self.scope)
        if self._had_entered:
            return True
        return scope is not None and has_entered(scope)

    def dismiss(self) -> None:
        """Abort the connection at once, so that there is room for others."""
        del self._strangers[self]
        self.connections.discard(self)  # uvicorn counts it until the event loop comes to its end
        self.transport.abort()

    def _stop_stall_timer(self) -> None:
        """Stop the timer that would abort a connection whose client does not read."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _stop_head_timer(self) -> None:
        """Stop the timer that would close a connection without a request."""
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _make_room(strangers: dict[_Protocol, None], most: int) -> None:
    """Close the connections that wait longest, as long as there are more than `most` on which no request was let in:
    neither a whole head nor an unfinished body keeps a place."""
    while len(strangers) > most:
        oldest = next(iter(strangers))
        if oldest.was_let_in():
            del strangers[oldest]
        else:
            oldest.dismiss()


class _Server(uvicorn.Server):
    """Signals are this program's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@frozen
class _Mcp:
    """`POST /mcp`, which goes to the session manager of the caller's tenant, and `DELETE /mcp`, which ends a session.
    `begun`: who is meant in which session, by tenant and `Mcp-Session-Id` of the handshake era. It is None, without
    sessions, if users cannot be named."""

    tenants: Tenants
    begun: defaultdict[str | None, dict[str, Begun]] | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of MCP with the memories of its caller; where sessions are kept, DELETE
        ends one. Raises HttpError if the session is unknown, or too many tenants are busy."""
        headers = Headers(scope=scope)
        if self.begun is not None and scope["method"] == "DELETE":
            sessions = self.begun[caller_of(scope).tenant]
            if sessions.pop(headers.get(SESSION, ""), None) is None:
                raise _no_session()
            await Response(status_code=204)(scope, receive, send)
            return
        if self.begun is not None and not is_modern(headers):
            receive, send = await self._in_session(
                self.begun, headers.get(SESSION), scope, receive, send
            )
        async with self.tenants.used(caller_of(scope)) as tenant:
            await tenant.manager.handle_request(scope, receive, send)

    async def _in_session(
        self,
        begun: defaultdict[str | None, dict[str, Begun]],
        session_id: str | None,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> tuple[Receive, Send]:
        """Give the caller the identity of its session. The answer to `initialize` names a new session, for which the
        oldest of too many is forgotten. Raises HttpError: the session is unknown."""
        caller = caller_of(scope)
        sessions = begun[caller.tenant]
        if session_id is not None:
            if session_id not in sessions:
                raise _no_session()
            session = sessions.pop(session_id)
            sessions[session_id] = session  # the session that was used last goes last
            wire = replace(caller.wire, lasts=True, begun=session)
            replace(caller, wire=wire).enter(scope)
            return receive, send

        # A caller without a session can only begin one.
        body = await Request(scope, receive).body()
        receive = replaying(body, receive)
        if not _is_initialize(body):
            return receive, send

        new_id = secrets.token_urlsafe(24)

        async def naming(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                MutableHeaders(scope=message)[SESSION] = new_id
                sessions[new_id] = Begun(headers=caller.wire.headers)
                if len(sessions) > MOST_SESSIONS:
                    oldest_id = next(iter(sessions))
                    del sessions[oldest_id]
            await send(message)

        return receive, naming


def _no_session() -> HttpError:
    sentence = "There is no such session any more; send `initialize` again."
    return HttpError(404, "session", sentence)


def _is_initialize(body: bytes) -> bool:
    """Tell whether a body is the request `initialize`; what is not JSON is not."""
    if b'"initialize"' not in body:  # parse no other call twice
        return False
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:  # the SDK refuses it
        return False
    return isinstance(message, dict) and message.get("method") == "initialize"


async def serve(node: HttpServer, address: tuple[str, int]) -> None:
    """Serve until a signal asks for the end. Raises InvalidInput: the address or the settings cannot be used."""
    settings = node.settings
    stop = asyncio.Event()
    logging.getLogger("mcp").setLevel(
        logging.WARNING
    )  # it has lines for each request, and so has the middleware
    enter, extras = entrance(settings, node.tokens, loopback=address[0] in (*LOOPBACK, "::1"))
    tenants = Tenants(node.opener, settings.open_tenants, settings.tenant_idle_minutes * 60)
    with speaking(ENGLISH):
        warming = asyncio.create_task(node.warm())

    async def ready(request: Request) -> Response:
        FOR.set(HOOKS)
        answers = warming.done() and not stop.is_set()
        if answers:
            try:
                await asyncio.wait_for(node.look(), STORE_SECONDS)
            except Exception as error:
                log.warning("the store does not answer: %s", failure_text(error))
                answers = False
        if not answers:
            return JSONResponse({"status": "not ready"}, 503)
        return JSONResponse({"status": "ok"}, 200)

    sessions: defaultdict[str | None, dict[str, Begun]] | None = None
    methods = ["POST"]
    if node.sessions:
        sessions = defaultdict(dict)
        methods.append("DELETE")

    app = Router(
        [
            Route("/mcp", _Mcp(tenants, sessions), methods=methods),
            *rest.routes(
                node.tools,
                tenants,
                node.max_bytes,
                read_only=node.read_only,
                exchanges=node.exchanges,
            ),
            Route("/healthz", JSONResponse({"status": "ok"}), methods=["GET"]),
            Route("/readyz", ready),
            Route("/metrics", _figures(node.meter)),
            *extras.routes,
        ],
        redirect_slashes=False,
    )
    own_hosts = [host_of(name) for name in words_between_commas(settings.hosts or "")]
    own_origins = [
        origin.lower().rstrip("/") for origin in words_between_commas(settings.origins or "")
    ]
    limits = defaultdict[str | None, RateLimiter](
        partial(RateLimiter, settings.requests_per_minute, settings.concurrent)
    )
    page: tuple[str, ASGIApp] | None = None
    if node.page is not None:
        page = (PAGE, node.page(tenants, enter, limits))

    middleware = Middleware(
        app,
        enter,
        limits,
        public=("/healthz", "/readyz", rest.OPENAPI, *(route.path for route in extras.routes)),
        hosts=(*LOOPBACK, address[0].lower(), *own_hosts, *extras.hosts),
        origins=(*own_origins, *extras.origins),
        challenge=extras.challenge,
        sessions=node.sessions,
        beside=page,
    )
    listener = listening(*address)
    try:
        await _run(middleware, listener, stop, tenants, node)
    finally:
        listener.close()
        warming.cancel()
        await asyncio.gather(warming, return_exceptions=True)
        await tenants.aclose()


async def _run(
    middleware: Middleware,
    listener: socket.socket,
    stop: asyncio.Event,
    tenants: Tenants,
    node: HttpServer,
) -> None:
    """Say where the server listens, and answer requests until `stop` is set; then give open calls
    `drain_seconds` before the streams of the tenants end."""
    host, port = listener.getsockname()[:2]
    if ":" in host:
        host = f"[{host}]"

    async def drained() -> None:
        await asyncio.sleep(node.settings.drain_seconds)
        tenants.end_streams()

    node.say(_("serving MCP on http://{host}:{port}/mcp", host, port))
    if node.page is not None:
        node.say(_("the page is at http://{host}:{port}/web/", host, port))
    await run_app(middleware, listener, stop, node.files, drained)


async def run_app(
    app: ASGIApp,
    listener: socket.socket,
    stop: asyncio.Event,
    files: int,
    ending: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Answer requests to `app` on `listener` until `stop` is set, by a signal too; then, after `ending`, end."""
    config = uvicorn.Config(
        app,
        http=partial(_Protocol, {}),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=min(MOST_CONNECTIONS, files // 2),
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=CALL_SECONDS,
    )
    server = _Server(config)
    on_signals(stop.set)
    with speaking(ENGLISH):  # the language of each request, too
        serving = asyncio.create_task(server.serve([listener]))

    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    # A signal, or the caller, asked for the end while requests may be running.
    stopping.cancel()
    if not serving.done():
        if ending is not None:
            await ending()
        server.should_exit = True

    await serving


def listening(host: str, port: int) -> socket.socket:
    """Open a socket that listens at this address. Raises InvalidInput: it is not possible there."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            "Cannot listen on {host}:{port}: {said}; choose another address.", host, port, reason
        ) from error
    # asyncio does this only for sockets that name their protocol; without it an answer waits 40 ms for the client.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address_of(text: str) -> tuple[str, int]:
    """Split `[HOST:]PORT` into host, by default 127.0.0.1, and port. Raises InvalidInput: it is not an address."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and int(port) <= 65_535
    if not is_port or (colon and not host):
        raise InvalidInput(
            "`{text}` is not an address; write a port such as 8460, or 127.0.0.1:8460.", text
        )
    return host or "127.0.0.1", int(port)

"""What every request passes first, in this order: Host, Origin, token, rate, body.

Only the head of a request is read before its token is checked. One line of the log says each request's method, route,
status and time, and never a query, token, id or name.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import cached_property

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.failures import failure_text, request_id
from memory_server.kernel.json_text import MOST_VALUES, crowded
from memory_server.kernel.link import MOST_FOLDER_CHARS
from memory_server.kernel.request_body import BodyRefused, replaying, whole_body
from memory_server.kernel.values import dataclass
from memory_server.knowledge.projects import Project, public_key
from memory_server.serving.fair_threads import FOR
from memory_server.serving.http.principals import (
    CONVERSATION,
    FOLDER,
    OPERATOR,
    PROJECT,
    READ,
    SESSION,
    Principal,
    named_in,
    timezone_in,
    wire_from,
)
from memory_server.serving.http.rate_limits import LARGE_BYTES, RateLimiter
from memory_server.serving.http.refusals import HttpError, refused_for

log = logging.getLogger(__name__)

MOST_HEAD_BYTES = 16 * 1024
"""Bytes of the names and values of a request's headers."""
MOST_BYTES = 4 * 1024 * 1024
"""Bytes of a request's body."""
BODY_SECONDS = 30.0
"""How long a whole body may take."""
TOO_MANY_SECONDS = 0.1
"""How long a request waits that is one too many: refusing as fast as a flood asks would slow everybody."""
AGAIN_SECONDS = 1.0
"""How often the token of an open stream is looked at again."""
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_OPERATORS = "/metrics"
PAGE = "/web"
_LOGGED_ROUTES = ("/mcp", "/v1", "/healthz", "/readyz", _OPERATORS, "/.well-known", PAGE)
"""Beginnings of paths that the log names; others may have an id or a name in them."""

Enter = Callable[[str | None], Awaitable[Principal | None]]
"""Returns the caller for a token, or for a request without a token. Returns None if it is not valid."""


@dataclass(frozen=True)
class Middleware:
    """Passes allowed requests to `app`: every request to a `public` path; other requests only with a token that `enter`
    accepts. `limits` has the limits of each tenant, `hosts` names without a port. `challenge` is added to the header
    WWW-Authenticate. With `sessions`, headers may name users within a tenant."""

    app: ASGIApp
    enter: Enter
    limits: Mapping[str | None, RateLimiter]
    public: Collection[str]
    hosts: Collection[str]
    origins: Collection[str]
    challenge: str = ""
    sessions: bool = False
    beside: tuple[str, ASGIApp] | None = None
    """A path, and the app of all that is below it, which lets people in by itself."""

    @cached_property
    def _checked_app(self) -> ASGIApp:
        """Return the app after the first checks; if other origins are allowed, its answers have the
        headers of CORS."""
        if not self.origins:
            return self._serve_or_refuse
        headers = ["retry-after", "www-authenticate"]
        return CORSMiddleware(
            self._serve_or_refuse,
            list(self.origins),
            ["GET", "POST"],
            ["*"],
            allow_private_network=True,  # a page on another machine's loopback; its origin is named in the settings
            expose_headers=headers,
            max_age=3600,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and write its line of the log. A failure is answered with 500, unless
        an answer has begun: then it is raised. A request that is cancelled before its answer gets
        503."""
        began = time.monotonic()
        status = 0
        scope["app"] = self.app  # so Starlette raises for an unknown path

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        headers = Headers(scope=scope)
        try:
            answerer: ASGIApp = self._refusal(headers) or self._app_for(scope)
            await answerer(scope, receive, noted)
        except asyncio.CancelledError:  # the process ends first
            if not status:
                refused = HttpError(
                    503, "busy", "The server is ending; ask again.", {"retry-after": "1"}
                )
                await refused.response()(scope, receive, noted)
            raise
        except Exception as error:
            failed_request = request_id()
            log.exception("a request failed, request %s: %s", failed_request, failure_text(error))
            # The head of the answer is sent already, so only the connection can tell of the error.
            if status:
                raise
            sentence = (
                f"The request failed inside the server; its log says why, under {failed_request}."
            )
            await HttpError(500, "server", sentence).response()(scope, receive, noted)
        finally:
            route = _logged_route(scope["path"], status)
            milliseconds = (time.monotonic() - began) * 1000
            log.info("%s %s %s %.0f ms", scope["method"], route, status or "-", milliseconds)

    def _app_for(self, scope: Scope) -> ASGIApp:
        """Return the app that answers: the app beside for the paths below its prefix, or else the app inside."""
        if self.beside is None or not scope["path"].startswith(f"{self.beside[0]}/"):
            return self._checked_app
        return self.beside[1]

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        """Refuse a request that may come from a page that was made to call this address. Return None for any other
        request."""
        head_bytes = sum(len(name) + len(value) for name, value in headers.raw)
        if head_bytes > MOST_HEAD_BYTES:
            return HttpError(431, "size", "The head of the request is too large.").response()

        # A proxy and this server could disagree where such a body ends.
        if "transfer-encoding" in headers and "content-length" in headers:
            sentence = "Send Content-Length or Transfer-Encoding, and not both."
            return HttpError(400, "form", sentence, {"connection": "close"}).response()

        host = headers.get("host", "").lower()
        host_match = _HOST.fullmatch(host)
        if host_match is None or host_match[1] not in self.hosts:
            return HttpError(
                421, "host", "This server does not have that name; see the setting http.hosts."
            ).response()

        origin = headers.get("origin")
        own = (f"http://{host}", f"https://{host}")
        if origin is None or origin.lower() in (*self.origins, *own):
            return None

        # The page may read this sentence, which is the same for everybody, and so say what to set.
        readable = {"access-control-allow-origin": origin, "vary": "Origin"}
        sentence = "Pages of that origin may not call; see the setting http.origins."
        return HttpError(403, "origin", sentence, readable).response()

    async def _serve_or_refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to `app`: on a public path from all callers, on others from callers with a token. A refusal
        becomes a response."""
        is_public = scope["path"] in self.public and scope["method"] in ("GET", "HEAD")
        try:
            if is_public:
                await self.app(scope, receive, send)
            else:
                await self._serve_caller(scope, receive, send)
        except HTTPException as error:  # Starlette knows no such path or method
            sentence = "There is no such path, or it does not take this method."
            if scope["path"].endswith("/"):  # some clients add it
                sentence = "There is no such path; leave out the `/` at its end."
            refusal = HttpError(error.status_code, "path", sentence, headers=error.headers)
            await refusal.response()(scope, receive, send)
        except (HttpError, MemoryServerError) as error:
            refusal = refused_for(error)
            if refusal.status == 429:
                await asyncio.sleep(TOO_MANY_SECONDS)
            await refusal.response()(scope, receive, send)

    async def _serve_caller(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the caller by the token, read the whole body within the limits of the tenant, and pass both to `app`.
        Raises HttpError, MemoryServerError: the request is refused."""
        headers = Headers(scope=scope)
        token = _bearer(headers)
        caller = await self._authenticated(token, scope["path"])
        caller.enter(scope)  # its connection is not a stranger's while the body comes
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise HttpError(415, "form", "Send the body as it is, without `Content-Encoding`.")

        kind = "calls"
        if scope["path"] == "/mcp" and _is_listening(headers):
            kind = "streams"

        limits = self.limits[caller.tenant]
        async with limits.request(kind), AsyncExitStack() as turns:
            caller = self._described(caller, headers)
            FOR.set(caller.tenant)
            if kind == "calls" and _is_large(headers):
                await turns.enter_async_context(limits.large)

            body = await _whole_body(headers, receive)
            if kind == "calls":
                # A call waits for its turn only when its body is there: a slow client must not hold up others.
                await turns.enter_async_context(limits.turn(len(body)))

            if crowded(body):
                sentence = f"The body has more than {MOST_VALUES:,} values; send less at a time."
                raise HttpError(413, "size", sentence)

            replace(caller, size=len(body)).enter(scope)
            call = self.app(scope, replaying(body, receive), send)
            if kind == "streams":
                await self._while_let_in(token, call)
            else:
                await call

    async def _authenticated(self, token: str | None, path: str) -> Principal:
        """Return the caller with this token. Raises HttpError: the token is not valid, or its scopes do not allow
        this path."""
        caller = await self.enter(token)
        if caller is None:
            sentence = "Send a valid token in the header `Authorization: Bearer …`."
            raise HttpError(401, "token", sentence, self._asking("invalid_token"))
        needed_scope = OPERATOR if path == _OPERATORS else READ
        if needed_scope not in caller.scopes:
            sentence = f"This token has no scope `{needed_scope}`."
            raise HttpError(403, "scope", sentence, self._asking("insufficient_scope"))
        return caller

    def _described(self, caller: Principal, headers: Headers) -> Principal:
        """Return the caller with what the headers say about this request. Raises InvalidInput: a header cannot be
        used."""
        usual = named_in(headers, CONVERSATION)
        session = named_in(headers, SESSION) or caller.session
        wire = wire_from(headers, sessions=self.sessions)
        folder = named_in(headers, FOLDER, MOST_FOLDER_CHARS)
        project_key = named_in(headers, PROJECT, MOST_FOLDER_CHARS)
        if project_key is not None:
            project_key = public_key(project_key)  # an older client may send a token in it

        timezone = timezone_in(headers) or caller.timezone
        return replace(
            caller,
            name=caller.session,
            usual=usual,
            session=session,
            wire=wire,
            folder=folder,
            project=None if project_key is None else Project(project_key),
            timezone=timezone,
        )

    async def _while_let_in(self, token: str | None, call: Awaitable[None]) -> None:
        """Carry a stream until it ends. Every AGAIN_SECONDS its token is checked again, and the
        stream is cancelled if the token is not valid any more."""
        stream = asyncio.ensure_future(call)
        try:
            while True:
                ended, _running = await asyncio.wait([stream], timeout=AGAIN_SECONDS)
                if ended:
                    break
                with suppress(
                    HttpError
                ):  # the keys of tokens are not available now, and an answer has begun
                    if await self.enter(token) is None:
                        return
            await stream
        finally:
            stream.cancel()
            await asyncio.gather(stream, return_exceptions=True)

    def _asking(self, error: str) -> Mapping[str, str]:
        return {"www-authenticate": f'Bearer error="{error}"{self.challenge}'}


def _bearer(headers: Headers) -> str | None:
    """Return the bearer token of a request. Return None without one, or with several `Authorization` headers."""
    values = headers.getlist("authorization")
    if len(values) != 1:
        return None
    scheme, _, token = values[0].partition(" ")
    if scheme.lower() != "bearer":
        return None
    return token.strip()


def _logged_route(path: str, status: int) -> str:
    """Return the beginning of a path for the log: what follows may be an id or a name. The path of a tool that was
    called is shown to its end."""
    route = "/".join(path.split("/", 2)[:2])
    if status == 200 and route == "/v1":
        return path  # a path that does not name a tool gets 404
    if route in _LOGGED_ROUTES:
        return route
    return "/…"


def is_modern(headers: Headers) -> bool:
    """Tell whether a request of MCP is of an era without handshake and sessions."""
    return headers.get("mcp-protocol-version", "") not in (*HANDSHAKE_PROTOCOL_VERSIONS, "")


def _is_listening(headers: Headers) -> bool:
    """Tell whether a request of MCP is a stream that listens; it lasts long, so it does not count as a call. The SDK
    refuses a request whose headers say something else than its body, except in the handshake era."""
    return is_modern(headers) and headers.get("mcp-method") == "subscriptions/listen"


def _is_large(headers: Headers) -> bool:
    """Tell whether the body is large, or may be."""
    length = headers.get("content-length", "")
    return "transfer-encoding" in headers or (length.isdecimal() and int(length) > LARGE_BYTES)


async def _whole_body(headers: Headers, receive: Receive) -> bytes:
    """Receive the whole body. Raises HttpError if it is too large (413), too slow (408) or
    incomplete (400)."""
    try:
        return await whole_body(
            receive, headers.get("content-length", ""), MOST_BYTES, BODY_SECONDS
        )
    except BodyRefused as refused:
        match refused.reason:
            case "size":
                sentence = f"The body has more than {MOST_BYTES:,} bytes; send less at a time."
                raise HttpError(413, "size", sentence) from None
            case "time":
                raise HttpError(
                    408, "time", f"The body did not come within {BODY_SECONDS:g} seconds."
                ) from None
            case "gone":
                raise HttpError(400, "size", "The body ended before its end.") from None

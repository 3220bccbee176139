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
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.failures import failure_text, request_id
from memory_server.kernel.link import MOST_FOLDER_CHARS
from memory_server.kernel.nesting import MOST_VALUES, crowded
from memory_server.kernel.request_body import BodyRefused, replaying, whole_body
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
_OPERATORS, PAGE = "/metrics", "/web"

Enter = Callable[[str | None], Awaitable[Principal | None]]
"""Gives the caller with this token, which may be missing; None: nobody enters with it."""


@dataclass(frozen=True)
class Middleware:
    """Passes allowed requests to `app`: every request to a `public` path; other requests only with a token that `enter`
    accepts. `limits`: those of each tenant. `hosts` are names without a port. `challenge`: more of the header
    WWW-Authenticate. `sessions`: headers may name users within a tenant."""

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
    def _inside(self) -> ASGIApp:
        if not self.origins:
            return self._authorized
        headers = ["retry-after", "www-authenticate"]
        return CORSMiddleware(
            self._authorized,
            list(self.origins),
            ["GET", "POST"],
            ["*"],
            allow_private_network=True,  # a page on another machine's loopback; its origin is named in the settings
            expose_headers=headers,
            max_age=3600,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status, scope["app"] = time.monotonic(), 0, self.app  # so Starlette raises for an unknown path

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        headers = Headers(scope=scope)
        try:
            await (self._refusal(headers) or self._within(scope))(scope, receive, noted)
        except asyncio.CancelledError:  # the process ends first
            if not status:
                refused = HttpError(503, "busy", "The server is ending; ask again.", {"retry-after": "1"})
                await refused.response()(scope, receive, noted)
            raise
        except Exception as error:
            request = request_id()
            log.exception("a request failed, request %s: %s", request, failure_text(error))
            if status:
                raise
            said = f"The request failed inside the server; its log says why, under {request}."
            await HttpError(500, "server", said).response()(scope, receive, noted)
        finally:
            route = "/".join(scope["path"].split("/", 2)[:2])
            known = route if route in ("/mcp", "/v1", "/healthz", "/readyz", _OPERATORS, "/.well-known", PAGE) else "/…"
            if status == 200 and known == "/v1":
                known = scope["path"]  # with the name of a tool; what is no tool gets 404
            milliseconds = (time.monotonic() - began) * 1000
            log.info("%s %s %s %.0f ms", scope["method"], known, status or "-", milliseconds)

    def _within(self, scope: Scope) -> ASGIApp:
        if self.beside is None or not scope["path"].startswith(f"{self.beside[0]}/"):
            return self._inside
        return self.beside[1]

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        """What a page that was made to call this address gets."""
        if sum(len(name) + len(value) for name, value in headers.raw) > MOST_HEAD_BYTES:
            return HttpError(431, "size", "The head of the request is too large.").response()
        if "transfer-encoding" in headers and "content-length" in headers:
            said = "Send Content-Length or Transfer-Encoding, and not both."
            return HttpError(400, "form", said, {"connection": "close"}).response()
        host = headers.get("host", "").lower()
        named = _HOST.fullmatch(host)
        if named is None or named[1] not in self.hosts:
            return HttpError(421, "host", "This server does not have that name; see the setting http.hosts.").response()
        origin = headers.get("origin")
        own = (f"http://{host}", f"https://{host}")
        if origin is None or origin.lower() in (*self.origins, *own):
            return None
        # The page may read this sentence, which is the same for everybody, and so say what to set.
        told = {"access-control-allow-origin": origin, "vary": "Origin"}
        said = "Pages of that origin may not call; see the setting http.origins."
        return HttpError(403, "origin", said, told).response()

    async def _authorized(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            is_public = scope["path"] in self.public and scope["method"] in ("GET", "HEAD")
            await (self.app if is_public else self._let_in)(scope, receive, send)
        except HTTPException as error:
            said = "There is no such path, or it does not take this method."
            await HttpError(error.status_code, "path", said, error.headers).response()(scope, receive, send)
        except (HttpError, MemoryServerError) as error:
            refused = refused_for(error)
            if refused.status == 429:
                await asyncio.sleep(TOO_MANY_SECONDS)
            await refused.response()(scope, receive, send)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        token = _bearer(headers)
        caller = await self.enter(token)
        if caller is None:
            said = "Send a valid token in the header `Authorization: Bearer …`."
            raise HttpError(401, "token", said, self._asking("invalid_token"))
        needed = OPERATOR if scope["path"] == _OPERATORS else READ
        if needed not in caller.scopes:
            said = f"This token has no scope `{needed}`."
            raise HttpError(403, "scope", said, self._asking("insufficient_scope"))
        caller.enter(scope)  # its connection is no stranger's while the body comes
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise HttpError(415, "form", "Send the body as it is, without `Content-Encoding`.")
        kind = _kind(headers) if scope["path"] == "/mcp" else "calls"
        limits = self.limits[caller.tenant]
        async with limits.request(kind):
            usual, session = named_in(headers, CONVERSATION), named_in(headers, SESSION) or caller.session
            wire, folder = wire_from(headers, sessions=self.sessions), named_in(headers, FOLDER, MOST_FOLDER_CHARS)
            project = named_in(headers, PROJECT, MOST_FOLDER_CHARS)
            caller = replace(caller, name=caller.session, usual=usual, session=session, wire=wire)
            caller = replace(caller, folder=folder, project=project)
            FOR.set(caller.tenant)
            async with limits.large() if kind == "calls" and _is_large(headers) else nullcontext():
                body = await _whole_body(headers, receive)
                async with limits.turn(len(body)) if kind == "calls" else nullcontext():
                    if crowded(body):
                        said = f"The body has more than {MOST_VALUES:,} values; send less at a time."
                        raise HttpError(413, "size", said)
                    replace(caller, size=len(body)).enter(scope)
                    call = self.app(scope, replaying(body, receive), send)
                    await (self._while_let_in(token, call) if kind == "streams" else call)

    async def _while_let_in(self, token: str | None, call: Awaitable[None]) -> None:
        """A stream, which ends when its token does not count any more."""
        stream = asyncio.ensure_future(call)
        try:
            while not (await asyncio.wait([stream], timeout=AGAIN_SECONDS))[0]:
                with suppress(HttpError):  # the keys of tokens are not available now, and an answer has begun
                    if await self.enter(token) is None:
                        return
            await stream
        finally:
            stream.cancel()
            await asyncio.gather(stream, return_exceptions=True)

    def _asking(self, error: str) -> Mapping[str, str]:
        return {"www-authenticate": f'Bearer error="{error}"{self.challenge}'}


def _bearer(headers: Headers) -> str | None:
    given = headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else None


def is_modern(headers: Headers) -> bool:
    """Whether a request of MCP is of an era without handshake and sessions."""
    return headers.get("mcp-protocol-version", "") not in (*HANDSHAKE_PROTOCOL_VERSIONS, "")


def _kind(headers: Headers) -> str:
    """Streams that listen last long, so they do not count as calls. The SDK refuses a request whose headers say
    something else than its body, except in the handshake era."""
    return "streams" if is_modern(headers) and headers.get("mcp-method") == "subscriptions/listen" else "calls"


def _is_large(headers: Headers) -> bool:
    """Whether the body is large, or may be."""
    length = headers.get("content-length", "")
    return "transfer-encoding" in headers or (length.isdecimal() and int(length) > LARGE_BYTES)


async def _whole_body(headers: Headers, receive: Receive) -> bytes:
    try:
        return await whole_body(receive, headers.get("content-length", ""), MOST_BYTES, BODY_SECONDS)
    except BodyRefused as refused:
        match refused.reason:
            case "size":
                said = f"The body has more than {MOST_BYTES:,} bytes; send less at a time."
                raise HttpError(413, "size", said) from None
            case "time":
                raise HttpError(408, "time", f"The body did not come within {BODY_SECONDS:g} seconds.") from None
            case "gone":
                raise HttpError(400, "size", "The body ended before its end.") from None

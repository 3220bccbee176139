"""Who may see the page: the names of this machine, a link that works once, a cookie, and changes only from a page of
the same origin. Every answer forbids what the page does not need."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from http.cookies import CookieError, SimpleCookie
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINK_SECONDS = 600.0
"""How long the link works, once."""
MOST_BYTES = 2 * 1024 * 1024
"""Of the body of a form."""
_MOST_TOKEN_BYTES, _MOST_COOKIES, _SLOWLY_SECONDS = 4_096, 1_000, 0.5
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
Refuse = Callable[[Request, int, str], Awaitable[Response]]
"""Makes the page that says why a request is refused: status, and the name of the reason."""


class Gate(Protocol):
    """Lets readers in."""

    async def enter(self, request: Request) -> Response | None:
        """The answer to a request that asks to be let in; None: it is not allowed."""

    async def knows(self, cookie: str, scope: Scope) -> bool:
        """Whether this is the cookie of somebody who was let in; notes in `scope` whose memories they see."""


class OneTimeLink:
    """Lets in who has the link that the command printed, once and within ten minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.key = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._clock, self._until = clock, clock() + LINK_SECONDS

    async def enter(self, request: Request) -> Response | None:
        given = request.query_params.get("key", "")
        if self._clock() > self._until or not hmac.compare_digest(given.encode(), self.key.encode()):
            return None
        self._until = float("-inf")
        answer = RedirectResponse("./", 303)
        answer.set_cookie(request.scope["cookie"], self._cookie, httponly=True, samesite="strict", path="/")
        return answer

    async def knows(self, cookie: str, scope: Scope) -> bool:
        return hmac.compare_digest(cookie.encode(), self._cookie.encode())


class Caller(Protocol):
    """Whose memories a token shows, and whether it may change them."""

    @property
    def tenant(self) -> str | None: ...
    @property
    def scopes(self) -> Collection[str]: ...
    def enter(self, scope: Scope) -> None: ...


class TokenForm:
    """Lets in who types a token into the form, for as long as `allowed` gives somebody for it and this process runs."""

    def __init__(self, allowed: Callable[[str | None], Awaitable[Caller | None]]) -> None:
        self._allowed = allowed
        self._tokens: dict[str, str] = {}

    async def enter(self, request: Request) -> Response | None:
        if request.method != "POST":
            return None
        body = (await request.body())[:_MOST_TOKEN_BYTES].decode("ascii", "replace")
        token = parse_qs(body).get("token", [""])[0].strip()
        caller = await self._allowed(token)
        if caller is None or "read" not in caller.scopes:
            await asyncio.sleep(_SLOWLY_SECONDS)
            return None
        made = secrets.token_urlsafe(32)
        self._tokens[made] = token
        if len(self._tokens) > _MOST_COOKIES:
            del self._tokens[next(iter(self._tokens))]
        answer, secure = RedirectResponse("./", 303), request.headers.get("host", "").rpartition(":")[0] not in LOOPBACK
        name = request.scope["cookie"]
        answer.set_cookie(name, made, httponly=True, samesite="strict", secure=secure, path="/")
        return answer

    async def knows(self, cookie: str, scope: Scope) -> bool:
        token = self._tokens.get(cookie)
        caller = None if token is None else await self._allowed(token)
        if caller is None:
            return False
        caller.enter(scope)
        return True


class Guard:
    """Passes to `app` what `gate` lets in. `hosts`: names without a port (None: somebody else has looked)."""

    def __init__(self, app: ASGIApp, gate: Gate, refuse: Refuse, hosts: Collection[str] | None) -> None:
        self._app, self._gate, self._refuse, self._hosts = app, gate, refuse, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        request = Request(scope, receive)
        host, port = _split(request.headers.get("host", ""))
        scope["cookie"] = f"memory-page-{port}"
        answer: ASGIApp
        if self._hosts is not None and host not in self._hosts:
            answer = await self._refuse(request, 421, "host")
        elif scope["method"] not in ("GET", "HEAD") and not _same_origin(request.headers):
            answer = await self._refuse(request, 403, "origin")
        elif int(request.headers.get("content-length", "0") or 0) > MOST_BYTES:
            answer = await self._refuse(request, 413, "size")
        else:
            answer = await self._within(request)
        await answer(scope, receive, guarded)

    async def _within(self, request: Request) -> ASGIApp:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if path.startswith("/static/"):
            return self._app
        if path == "/enter":
            return await self._gate.enter(request) or await self._refuse(request, 401, "link")
        cookie = _cookie(request.headers, request.scope["cookie"])
        if cookie and await self._gate.knows(cookie, request.scope):
            return self._app
        return await self._refuse(request, 401, "cookie")


def _split(host: str) -> tuple[str, str]:
    name, colon, port = host.lower().rpartition(":")
    return (name, port) if colon and port.isdecimal() else (host.lower(), "80")


def _same_origin(headers: Headers) -> bool:
    """Whether a form of this very page asks: the browser says so, or its origin is ours."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(headers.get("origin", ""))
    return origin.scheme in ("http", "https") and origin.netloc.lower() == headers.get("host", "").lower()


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value

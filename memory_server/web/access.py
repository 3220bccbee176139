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

from memory_server.kernel.request_body import BodyRefused, replaying, whole_body

LINK_SECONDS = 600.0
"""How long the link works, once."""
MOST_BYTES = 2 * 1024 * 1024
"""Bytes of the body of a form of a reader who was let in."""
BODY_SECONDS = 30.0
"""How long the body of a form may take."""
_MOST_TOKEN_BYTES = 4_096
"""Bytes of the form in which a token is typed, which everybody may send."""
_MOST_COOKIES = 1_000
_SLOWLY_SECONDS = 0.5
"""How long the answer to a wrong token takes."""
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
_BODY_STATUS = {"size": 413, "time": 408, "gone": 400}
Refuse = Callable[[Request, int, str], Awaitable[Response]]
"""Makes the page that says why a request is refused: status, and the name of the reason."""


class Gate(Protocol):
    """Lets readers in."""

    @property
    def front(self) -> str:
        """The path below which everybody gets the form for a token and its style, without a slash at its end."""

    def base_of(self, cookie: str) -> str:
        """Return the path below which the page of this cookie is, without a slash at its end. The cookie is only for
        this path, which cannot be guessed, because cookies do not know ports: another program on this machine must
        not get it."""

    @property
    def door(self) -> str:
        """The path of the request that asks to be let in."""

    async def enter(self, request: Request) -> Response | None:
        """Return the answer to a request that asks to be let in, or None if it is not allowed."""

    async def knows(self, cookie: str, scope: Scope) -> bool:
        """Tell whether this is the cookie of a reader who was let in. Notes in `scope` whose memories they see."""


class Caller(Protocol):
    """Whose memories a token shows, and whether it may change them."""

    @property
    def tenant(self) -> str | None: ...
    @property
    def scopes(self) -> Collection[str]: ...
    def enter(self, scope: Scope) -> None: ...


class OneTimeLink:
    """Lets in who has the link that the command printed, once and within ten minutes, as `caller`. The page is below
    a path that cannot be guessed. It is not in the link, which other users of the machine may see in the list of
    processes, but in the answer to it. Programs that only look at the link, such as programs that show where it
    leads, do not use it up."""

    front, door = "", "/enter"

    def __init__(self, caller: Caller, clock: Callable[[], float] = time.monotonic) -> None:
        self.key = secrets.token_urlsafe(32)
        self.base = f"/{secrets.token_urlsafe(32)}"
        self._caller = caller
        self._cookie = secrets.token_urlsafe(32)
        self._clock = clock
        self._until = clock() + LINK_SECONDS

    def base_of(self, cookie: str) -> str:
        return self.base

    async def enter(self, request: Request) -> Response | None:
        """Let in who sends the key, once. Return None for a wrong key, after ten minutes, or for
        another method. HEAD gets an empty answer and a prefetch 503; neither uses up the link."""
        if request.method not in ("GET", "HEAD"):
            return None
        sent_key = request.query_params.get("key", "")
        if self._clock() > self._until or not hmac.compare_digest(
            sent_key.encode(), self.key.encode()
        ):
            return None
        if request.method == "HEAD":
            return Response()
        if _is_prefetch(request.headers):
            return Response(
                status_code=503
            )  # a browser throws this away, and asks again when its user goes there
        self._until = float("-inf")
        return _let_in(request, self.base, self._cookie, secure=False)

    async def knows(self, cookie: str, scope: Scope) -> bool:
        """As `Gate.knows`: the reader sees the memories of the one caller."""
        if not hmac.compare_digest(cookie.encode(), self._cookie.encode()):
            return False
        self._caller.enter(scope)
        return True


class TokenForm:
    """Lets in who types a token into the form below `front`, for as long as `allowed` gives a caller for it and this
    process runs. Each cookie has a page below a path of its own."""

    def __init__(
        self, allowed: Callable[[str | None], Awaitable[Caller | None]], front: str
    ) -> None:
        self.front = front
        self.door = f"{front}/enter"
        self._allowed = allowed
        self._tokens: dict[str, str] = {}
        self._path_key = secrets.token_bytes(32)

    def base_of(self, cookie: str) -> str:
        name = hmac.digest(self._path_key, cookie.encode(errors="replace"), "sha256").hex()
        return f"{self.front}/{name}"

    async def enter(self, request: Request) -> Response | None:
        """Let in who sends a token that may read, with a new cookie; the oldest cookie goes if
        there are too many. Return None for another method, or after a pause for a token that is not
        allowed."""
        if request.method != "POST":
            return None
        body = (await request.body()).decode("ascii", "replace")
        token = parse_qs(body).get("token", [""])[0].strip()
        caller = await self._allowed(token)
        if caller is None or "read" not in caller.scopes:
            await asyncio.sleep(_SLOWLY_SECONDS)
            return None
        cookie = secrets.token_urlsafe(32)
        self._tokens[cookie] = token
        if len(self._tokens) > _MOST_COOKIES:
            oldest_cookie = next(iter(self._tokens))
            del self._tokens[oldest_cookie]
        host, _port = _split(request.headers.get("host", ""))
        return _let_in(request, self.base_of(cookie), cookie, secure=host not in LOOPBACK)

    async def knows(self, cookie: str, scope: Scope) -> bool:
        """As `Gate.knows`: the token of the cookie must still be allowed."""
        token = self._tokens.get(cookie)
        caller = None if token is None else await self._allowed(token)
        if caller is None:
            return False
        caller.enter(scope)
        return True


def _let_in(request: Request, base: str, cookie: str, *, secure: bool) -> Response:
    """Return the redirect to the first page that sets the cookie."""
    answer = RedirectResponse(f"{base}/", 303)
    name = request.scope["cookie"]
    answer.set_cookie(
        name, cookie, httponly=True, samesite="strict", secure=secure, path=f"{base}/"
    )
    return answer


class Guard:
    """Passes to `app` what `gate` lets in. `hosts`: names without a port (None: they were looked at before)."""

    def __init__(
        self, app: ASGIApp, gate: Gate, refuse: Refuse, hosts: Collection[str] | None
    ) -> None:
        self._app, self._gate, self._refuse, self._hosts = app, gate, refuse, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with HEADERS in each answer. Refuse it with 421 if its host is not
        ours, or with 403 if it is a change that does not come from a page of the same origin."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        request = Request(scope, receive)
        host, port = _split(request.headers.get("host", ""))
        scope["cookie"] = f"memory-page-{port}"
        if self._hosts is not None and host not in self._hosts:
            answer: ASGIApp = await self._refuse(request, 421, "host")
        elif scope["method"] not in ("GET", "HEAD") and not _same_origin(request.headers):
            answer = await self._refuse(request, 403, "origin")
        else:
            answer = await self._app_for(request, receive)
        await answer(scope, receive, guarded)

    async def _app_for(self, request: Request, receive: Receive) -> ASGIApp:
        """Return what answers: the page for a reader who was let in, otherwise a refusal; at the
        door, what lets a reader in. No body is received before it is known how long it may be."""
        path = request.scope["path"]
        if path == self._gate.door:
            return await self._received(request, receive, _MOST_TOKEN_BYTES, self._entering)
        cookie = _cookie(request.headers, request.scope["cookie"])
        base = self._gate.base_of(cookie)
        inside = path.startswith(f"{base}/")
        request.scope["root_path"] = base if inside else self._gate.front
        if path.removeprefix(request.scope["root_path"]).startswith("/static/"):
            return self._app
        if not inside or not cookie or not await self._gate.knows(cookie, request.scope):
            return await self._refuse(request, 401, "cookie")
        return await self._received(request, receive, MOST_BYTES, self._app_with_body)

    async def _entering(self, request: Request) -> ASGIApp:
        return await self._gate.enter(request) or await self._refuse(request, 401, "link")

    async def _app_with_body(self, request: Request) -> ASGIApp:
        """Return the app, as it reads the body that was received here."""

        async def app(scope: Scope, _receive: Receive, send: Send) -> None:
            await self._app(scope, request.receive, send)

        return app

    async def _received(
        self,
        request: Request,
        receive: Receive,
        most_bytes: int,
        answer: Callable[[Request], Awaitable[ASGIApp]],
    ) -> ASGIApp:
        """Return what `answer` says to the request with its body, which is received here. Return a
        refusal if it has more than `most_bytes` or comes too slowly. GET and HEAD have no body."""
        if request.method in ("GET", "HEAD"):
            return await answer(request)
        try:
            body = await whole_body(
                receive, request.headers.get("content-length", ""), most_bytes, BODY_SECONDS
            )
        except BodyRefused as refused:
            return await self._refuse(request, _BODY_STATUS[refused.reason], refused.reason)
        return await answer(Request(request.scope, replaying(body, receive)))


def _split(host: str) -> tuple[str, str]:
    name, colon, port = host.lower().rpartition(":")
    return (name, port) if colon and port.isdecimal() else (host.lower(), "80")


def _same_origin(headers: Headers) -> bool:
    """Tell whether a form of this very page asks: the browser says so, or its origin is ours."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(headers.get("origin", ""))
    return (
        origin.scheme in ("http", "https")
        and origin.netloc.lower() == headers.get("host", "").lower()
    )


def _is_prefetch(headers: Headers) -> bool:
    """Tell whether a browser asks for a page to which its user has not gone yet, and may never go."""
    return any(
        "prefetch" in headers.get(name, "").lower() for name in ("sec-purpose", "purpose", "x-moz")
    )


def _cookie(headers: Headers, name: str) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value

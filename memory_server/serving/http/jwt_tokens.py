"""Entering with JWTs of an identity provider (RFC 9068), and the document that names it to clients (RFC 9728)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

import jwt
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.routing import Route

from memory_server.conversations.model import MAX_ID_CHARS, conversation_id_of
from memory_server.kernel.errors import InvalidInput
from memory_server.serving.http.middleware import Enter
from memory_server.serving.http.principals import OPERATOR, READ, WRITE, Principal
from memory_server.serving.http.refusals import HttpError

if TYPE_CHECKING:
    from memory_server.config.http_settings import HttpSettings, JwtSettings

log = logging.getLogger(__name__)

KEPT_SECONDS = 300.0
"""How long the provider's keys are kept."""
AGAIN_SECONDS = 10.0
"""Time between two looks for keys, at least: tokens with made-up keys must not make the provider busy."""
FETCH_SECONDS = 5.0
"""Of silence; a whole look takes at most twice as long, as a provider may send its keys byte by byte."""
MOST_BYTES = 1024 * 1024
"""Of keys, which are a few kilobytes."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None: ...


class _Keys:
    """The provider's keys, at a URL or in a file."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._known: jwt.PyJWKSet | None = None
        self._good_until = self._next_look = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._fetch: Future[Any] | None = None

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key with this id. One that is not known is looked up again, in one look for all who wait; one that is
        known counts while a look goes on."""
        held, now = self._held(key_id), time.monotonic()
        if held is None or now >= self._good_until:
            if self._looking is None and now >= self._next_look:
                self._looking = asyncio.create_task(self._look())
            if held is None and self._looking is not None:
                await asyncio.shield(self._looking)
        if self._known is None:
            raise HttpError(503, "busy", "The signing keys are not available; try again.", {"retry-after": "10"})
        return self._held(key_id)

    def _held(self, key_id: str | None) -> jwt.PyJWK | None:
        keys = [] if self._known is None else self._known.keys
        if key_id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == key_id), None)

    async def _look(self) -> None:
        try:
            # A thread of its own, and only one: those of asyncio would be used up by a provider that never ends, and
            # would keep the process from ending.
            if self._fetch is None or self._fetch.done():
                fetch: Future[Any] = Future()
                fetch.set_running_or_notify_cancel()
                threading.Thread(target=self._run, args=[fetch], name="keys of tokens", daemon=True).start()
                self._fetch = fetch
            async with asyncio.timeout(2 * FETCH_SECONDS):
                self._known = jwt.PyJWKSet.from_dict(await asyncio.wrap_future(self._fetch))
        except Exception as error:  # whatever a provider may send; the old keys go on
            log.warning("The keys of tokens are not available: %s", str(error) or type(error).__name__)
        else:
            self._good_until = time.monotonic() + KEPT_SECONDS
        finally:
            self._looking, self._next_look = None, time.monotonic() + AGAIN_SECONDS

    def _run(self, fetch: Future[Any]) -> None:
        try:
            fetch.set_result(json.loads(self._fetched()))
        except Exception as error:
            if isinstance(error, HTTPError):
                error.close()  # it is the answer too
            fetch.set_exception(error)

    def _fetched(self) -> bytes:
        if not self._place.startswith(("https://", "http://")):
            return Path(self._place).expanduser().read_bytes()
        deadline, content = time.monotonic() + 2 * FETCH_SECONDS, bytearray()
        # HTTP_PROXY is not for a provider on this machine.
        here = urlsplit(self._place).hostname in ("localhost", "127.0.0.1", "::1")
        opener = build_opener(_NoRedirects, ProxyHandler({} if here else None))
        with opener.open(self._place, timeout=FETCH_SECONDS) as answer:
            while part := answer.read1(65_536):
                content += part
                if len(content) > MOST_BYTES:
                    raise ValueError(f"its answer is longer than {MOST_BYTES:,} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError
        return bytes(content)


def entrance(settings: HttpSettings) -> tuple[Enter, Sequence[Route], str]:
    """The way to enter, the routes that tell of it, and what a refusal adds. Raises InvalidInput: a setting is
    missing."""
    given = settings.jwt
    if given.jwks is None:
        raise InvalidInput("http.jwt.issuer needs http.jwt.jwks, the URL or file of the provider's keys.")
    if given.issuer is None or settings.public_url is None:
        raise InvalidInput("http.jwt.issuer needs http.public_url, the URL at which clients see this server.")
    public = settings.public_url.rstrip("/")
    resource = AnyHttpUrl(f"{public}/mcp")
    scopes = [scope for scope in (given.read_scope, given.write_scope) if scope]
    routes = create_protected_resource_routes(resource, [AnyHttpUrl(given.issuer)], scopes or None, "Memory")
    more = f', resource_metadata="{build_resource_metadata_url(resource)}"'
    audience = [public, f"{public}/mcp", f"{public}/"] if given.audience is None else [given.audience]
    return _by_jwt(given, audience, _Keys(given.jwks)), routes, more


def _by_jwt(given: JwtSettings, audience: list[str], keys: _Keys) -> Enter:
    algorithms = (given.algorithms or "").split(",")
    told = False

    async def enter(token: str | None) -> Principal | None:
        nonlocal told
        try:
            head = jwt.get_unverified_header(token or "")
            key = await keys.find(head.get("kid")) if head.get("alg") in algorithms else None
            if key is None:
                return None
            claims = jwt.decode(
                token or "",
                key,
                algorithms=algorithms,
                audience=audience,
                issuer=given.issuer,
                options={"require": ["exp", "iss", "aud", given.tenant_claim]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            log.debug("a token is refused: %s", error)
            return None
        tenant = claims[given.tenant_claim]
        try:
            name = conversation_id_of(tenant) if isinstance(tenant, str) else None
        except InvalidInput:
            name = None
        if name is None or name != tenant:  # of two that differ in their normal form, each could enter as the other
            if not told:
                log.warning("the claim %s of a token cannot be the name of a tenant", given.tenant_claim)
                told = True
            return None
        return Principal(name, _scopes(given, claims.get("scope", claims.get("scp", ""))), session=_session(claims))

    return enter


def _session(claims: Mapping[str, Any]) -> str | None:
    """The session of a token (OpenID Connect), or the client that it was made for (RFC 9068)."""
    named = (claims.get(name) for name in ("sid", "client_id", "azp"))
    session = next((name for name in named if isinstance(name, str) and name.isprintable() and name), None)
    if session is None or len(session) <= MAX_ID_CHARS:
        return session
    return hashlib.sha256(session.encode()).hexdigest()  # the beginnings of two long ones may be the same


def _scopes(settings: JwtSettings, claimed: object) -> frozenset[str]:
    given = claimed.split() if isinstance(claimed, str) else claimed if isinstance(claimed, list) else ()
    held = {scope for scope in given if isinstance(scope, str)}
    wanted = {READ: settings.read_scope, WRITE: settings.write_scope}
    allowed = {scope for scope, needed in wanted.items() if needed is None or needed in held}
    return frozenset(allowed | ({OPERATOR} if settings.operator_scope in held else set()))

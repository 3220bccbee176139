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
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, build_opener

import jwt
from mcp.server.auth.routes import cors_middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from memory_server.conversations.model import MAX_ID_CHARS, conversation_id_of
from memory_server.kernel.errors import InvalidInput
from memory_server.serving.http.middleware import Enter
from memory_server.serving.http.principals import OPERATOR, READ, WRITE, Principal
from memory_server.serving.http.refusals import HttpError

if TYPE_CHECKING:
    from memory_server.config.settings import HttpSettings, JwtSettings

log = logging.getLogger(__name__)

KEPT_SECONDS = 300.0
"""How long the provider's keys are kept."""
AGAIN_SECONDS = 10.0
"""Time between two looks for keys, at least: tokens with made-up keys must not make the provider busy."""
FETCH_SECONDS = 5.0
"""The longest silence; a whole look takes at most twice as long, as a provider may send its keys byte by byte."""
MOST_BYTES = 1024 * 1024
"""The largest set of keys; a usual set has a few kilobytes."""
_PIECE = 65_536
"""Bytes that are read at once."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None: ...


class _Keys:
    """The provider's keys, at a URL or in a file."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._key_set: jwt.PyJWKSet | None = None
        self._good_until = float("-inf")
        self._next_look = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._fetch: Future[Any] | None = None

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """Find the key with this id. A missing key is looked up at the provider again, in one look
        for all who wait; a key that is here counts while a look goes on. Return None if the
        provider does not have it. Raises HttpError if no keys could be fetched yet."""
        key = self._key_with(key_id)
        now = time.monotonic()
        if key is None or now >= self._good_until:
            if self._looking is None and now >= self._next_look:
                self._looking = asyncio.create_task(self._fetch_keys())
            if key is None and self._looking is not None:
                await asyncio.shield(self._looking)
        if self._key_set is None:
            raise HttpError(
                503, "busy", "The signing keys are not available; try again.", {"retry-after": "10"}
            )
        return self._key_with(key_id)

    def _key_with(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return the key with this id from the last look; without an id, the only key. Return None
        if the key is not there, or if several are there and no id is given."""
        if self._key_set is None:
            return None
        keys = self._key_set.keys
        if key_id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == key_id), None)

    async def _fetch_keys(self) -> None:
        """Fetch the keys of the provider in a thread, for KEPT_SECONDS. If that fails or takes too
        long, the log says so and the old keys stay. The next look is AGAIN_SECONDS later at the
        earliest."""
        try:
            # A thread of its own, and only one: the threads of asyncio would be used up by a provider that never
            # ends, and would keep the process from ending.
            if self._fetch is None or self._fetch.done():
                fetch: Future[Any] = Future()
                fetch.set_running_or_notify_cancel()
                threading.Thread(
                    target=self._run, args=[fetch], name="keys of tokens", daemon=True
                ).start()
                self._fetch = fetch

            async with asyncio.timeout(2 * FETCH_SECONDS):
                document = await asyncio.wrap_future(self._fetch)

            self._key_set = jwt.PyJWKSet.from_dict(document)
        except Exception as error:  # whatever a provider may send; the old keys go on
            log.warning(
                "The keys of tokens are not available: %s", str(error) or type(error).__name__
            )
        else:
            self._good_until = time.monotonic() + KEPT_SECONDS
        finally:
            self._looking = None
            self._next_look = time.monotonic() + AGAIN_SECONDS

    def _run(self, fetch: Future[Any]) -> None:
        """Fetch the keys, and put them or the error into `fetch`."""
        try:
            fetch.set_result(json.loads(self._fetched()))
        except Exception as error:
            if isinstance(error, HTTPError):
                error.close()  # it is the answer too
            fetch.set_exception(error)

    def _fetched(self) -> bytes:
        """Read the document of keys, from a file or over HTTP. Raises ValueError if it is longer
        than MOST_BYTES, TimeoutError if it comes too slowly, and OSError if it does not come."""
        if not self._location.startswith(("https://", "http://")):
            return Path(self._location).expanduser().read_bytes()
        deadline = time.monotonic() + 2 * FETCH_SECONDS
        content = bytearray()
        with self._opener().open(self._location, timeout=FETCH_SECONDS) as answer:
            while True:
                piece = answer.read1(_PIECE)
                if not piece:
                    return bytes(content)
                content += piece
                if len(content) > MOST_BYTES:
                    raise ValueError(f"its answer is longer than {MOST_BYTES:,} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError

    def _opener(self) -> OpenerDirector:
        """HTTP without redirects, and past HTTP_PROXY if the provider is on this machine."""
        is_on_this_machine = urlsplit(self._location).hostname in ("localhost", "127.0.0.1", "::1")
        proxies: dict[str, str] | None = None  # None for the proxies of the environment
        if is_on_this_machine:
            proxies = {}
        return build_opener(_NoRedirects, ProxyHandler(proxies))


def entrance(settings: HttpSettings) -> tuple[Enter, Sequence[Route], str]:
    """Return the way to enter, the routes that tell of it, and what a refusal adds. Raises InvalidInput: a setting is
    missing."""
    provider = settings.jwt
    if provider.jwks is None:
        raise InvalidInput(
            "http.jwt.issuer needs http.jwt.jwks, the URL or file of the provider's keys."
        )

    if provider.issuer is None or settings.public_url is None:
        raise InvalidInput(
            "http.jwt.issuer needs http.public_url, the URL at which clients see this server."
        )

    # Clients may name this server with or without the last slash, and by its path /mcp.
    public = settings.public_url.rstrip("/")
    parts = urlsplit(public)
    path = f"/.well-known/oauth-protected-resource{parts.path}/mcp"
    challenge = f', resource_metadata="{parts.scheme}://{parts.netloc}{path}"'
    route = _resource_metadata(path, f"{public}/mcp", provider)
    audience = [public, f"{public}/", f"{public}/mcp", f"{public}/mcp/"]
    if provider.audience is not None:
        audience = [provider.audience]

    return _by_jwt(provider, audience, _Keys(provider.jwks)), [route], challenge


def _resource_metadata(path: str, resource: str, provider: JwtSettings) -> Route:
    """Make the route of the document that names the provider to clients. It has the URLs of the settings to the
    letter: clients compare the issuer with what they got (RFC 8414, section 3.3), and the models of the SDK add a
    slash to a URL without a path."""
    metadata: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": [provider.issuer],
        "resource_name": "Memory",
        "bearer_methods_supported": ["header"],
    }
    scopes = [scope for scope in (provider.read_scope, provider.write_scope) if scope]
    if scopes:
        metadata["scopes_supported"] = scopes

    async def answer(_request: Request) -> JSONResponse:
        return JSONResponse(metadata, headers={"Cache-Control": "public, max-age=3600"})

    methods = ["GET", "OPTIONS"]
    return Route(path, endpoint=cors_middleware(answer, methods), methods=methods)


def _by_jwt(settings: JwtSettings, audience: list[str], keys: _Keys) -> Enter:
    """Return a function that checks a JWT and gives its principal, or None if the token is refused
    or names no usable tenant. That function raises HttpError while no keys are there."""
    algorithms = (settings.algorithms or "").split(",")
    has_warned = False

    async def claims_of(token: str) -> Mapping[str, Any] | None:
        """Return the claims of a token that the provider signed for this server, or None if it is refused."""
        try:
            head = jwt.get_unverified_header(token)
            if head.get("alg") not in algorithms:
                return None

            key = await keys.find(head.get("kid"))
            if key is None:
                return None

            return jwt.decode(
                token,
                key,
                algorithms=algorithms,
                audience=audience,
                issuer=settings.issuer,
                options={"require": ["exp", "iss", "aud", settings.tenant_claim]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            log.debug("a token is refused: %s", error)
            return None

    async def enter(token: str | None) -> Principal | None:
        """Return the principal of a token, or None if it is refused or names no usable tenant."""
        nonlocal has_warned
        claims = await claims_of(token or "")
        if claims is None:
            return None
        tenant = _tenant_name(claims[settings.tenant_claim])
        if tenant is None:
            # Once: a wrong setting would fill the log with every request.
            if not has_warned:
                log.warning(
                    "the claim %s of a token cannot be the name of a tenant", settings.tenant_claim
                )
                has_warned = True
            return None
        scopes = _scopes(settings, claims.get("scope", claims.get("scp", "")))
        return Principal(tenant, scopes, session=_session(claims))

    return enter


def _tenant_name(claim: object) -> str | None:
    """Return the tenant that a claim names, or None if it cannot be the name of a tenant. A name that is not in its
    normal form is refused: if two names have the same normal form, each could enter as the other."""
    if not isinstance(claim, str):
        return None
    try:
        name = conversation_id_of(claim)
    except InvalidInput:
        return None
    if name != claim:
        return None
    return name


def _session(claims: Mapping[str, Any]) -> str | None:
    """Return the session of a token (OpenID Connect), or the client that it was made for (RFC
    9068), or None if it names neither."""
    for claim in ("sid", "client_id", "azp"):
        session = claims.get(claim)
        if isinstance(session, str) and session and session.isprintable():
            if len(session) <= MAX_ID_CHARS:
                return session
            # Not its beginning: two long names may begin alike.
            return hashlib.sha256(session.encode()).hexdigest()
    return None


def _scopes(settings: JwtSettings, claim: object) -> frozenset[str]:
    """Return what a token allows: a scope that the settings do not ask for is allowed to every token, but for
    operators."""
    claimed: set[str] = set()
    if isinstance(claim, str):
        claimed.update(claim.split())
    elif isinstance(claim, list):
        claimed.update(scope for scope in claim if isinstance(scope, str))
    allowed: set[str] = set()
    if settings.read_scope is None or settings.read_scope in claimed:
        allowed.add(READ)
    if settings.write_scope is None or settings.write_scope in claimed:
        allowed.add(WRITE)
    if settings.operator_scope in claimed:
        allowed.add(OPERATOR)
    return frozenset(allowed)

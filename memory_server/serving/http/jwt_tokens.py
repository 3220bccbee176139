"""Entering with JWTs of an identity provider (RFC 9068), and the document that names it to clients (RFC 9728)."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.routing import Route

from memory_server.core.errors import InvalidInput
from memory_server.core.model import conversation_id_of
from memory_server.serving.http.callers import OPERATOR, READ, WRITE, Caller
from memory_server.serving.http.door import Enter
from memory_server.serving.http.refusals import Refused

if TYPE_CHECKING:
    from memory_server.config.http_settings import HttpSettings, JwtSettings

log = logging.getLogger(__name__)

KEPT_SECONDS = 300.0
"""How long the provider's keys are kept."""
AGAIN_SECONDS = 10.0
"""Time between two looks for keys, at least: tokens with made-up keys must not make the provider busy."""
FETCH_SECONDS = 5.0


class _Keys:
    """The provider's keys, at a URL or in a file."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._known: jwt.PyJWKSet | None = None
        self._good_until = self._next_look = float("-inf")
        self._looking = asyncio.Lock()

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key with this id; one that is not known is looked up again."""
        if time.monotonic() >= self._good_until or self._held(key_id) is None:
            async with self._looking:
                if time.monotonic() >= self._next_look:
                    await self._look()
        if self._known is None:
            raise Refused(503, "busy", "The keys of the tokens cannot be had now; try again.", {"retry-after": "10"})
        return self._held(key_id)

    def _held(self, key_id: str | None) -> jwt.PyJWK | None:
        keys = [] if self._known is None else self._known.keys
        if key_id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == key_id), None)

    async def _look(self) -> None:
        self._next_look = time.monotonic() + AGAIN_SECONDS
        try:
            async with asyncio.timeout(2 * FETCH_SECONDS):  # a provider may send its keys byte by byte
                self._known = jwt.PyJWKSet.from_dict(await asyncio.to_thread(self._fetched))
        except (jwt.PyJWTError, OSError, ValueError) as error:
            log.warning("the keys of the tokens cannot be had: %s", error)  # the old ones go on
        else:
            self._good_until = time.monotonic() + KEPT_SECONDS

    def _fetched(self) -> dict[str, Any]:
        if self._place.startswith(("https://", "http://")):
            client = jwt.PyJWKClient(self._place, cache_jwk_set=False, timeout=FETCH_SECONDS)
            fetched: dict[str, Any] = client.fetch_data()
            return fetched
        read: dict[str, Any] = json.loads(Path(self._place).expanduser().read_bytes())
        return read


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

    async def enter(token: str | None) -> Caller | None:
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
        if name is None:
            if not told:
                log.warning("the claim %s of a token cannot be the name of a tenant", given.tenant_claim)
                told = True
            return None
        return Caller(name, _scopes(given, claims.get("scope", claims.get("scp", ""))))

    return enter


def _scopes(given: JwtSettings, claimed: object) -> frozenset[str]:
    held = set(claimed.split() if isinstance(claimed, str) else claimed if isinstance(claimed, list) else ())
    wanted = {READ: given.read_scope, WRITE: given.write_scope}
    allowed = {scope for scope, needed in wanted.items() if needed is None or needed in held}
    return frozenset(allowed | ({OPERATOR} if given.operator_scope in held else set()))

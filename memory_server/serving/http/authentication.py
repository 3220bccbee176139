"""The ways to enter: a single token, a file of tokens, JWTs, or without a token. A server has exactly one way."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.routing import Route

from languages import N_, _
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import frozen
from memory_server.serving.http.middleware import Enter
from memory_server.serving.http.principals import ALL, Principal, Tokens

if TYPE_CHECKING:
    from memory_server.config.settings import HttpSettings

log = logging.getLogger(__name__)

LEAST_CHARS = 32
"""Characters of `http.token`."""
_HOW = N_("run `memory-server tokens add NAME`, or set http.token in the environment")


@frozen
class AuthExtras:
    """What a way to enter adds to the server."""

    routes: Sequence[Route] = ()
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    challenge: str = ""


def host_of(name: str) -> str:
    """Return a name as the header `Host` has it: in small letters, without a port."""
    return re.sub(r":\d+$", "", name.lower())


def entrance(
    settings: HttpSettings, tokens: Tokens | None, *, loopback: bool
) -> tuple[Enter, AuthExtras]:
    """Return the function that lets a caller enter in the one way that the settings choose, and the host, origin and
    routes that it adds. Raises InvalidInput if no way or several ways are set, or it cannot be used."""
    ways: list[str] = []
    if settings.token is not None:
        ways.append("http.token")
    if tokens is not None:
        ways.append("a file of tokens")
    if settings.jwt.issuer is not None:
        ways.append("http.jwt.issuer")
    if settings.open:
        ways.append("http.open")
    if not ways:
        raise InvalidInput("No authentication is configured; {how}.", _(_HOW))
    if len(ways) > 1:
        raise InvalidInput("Both {ways} are set; keep only one of them.", " and ".join(ways))

    if settings.open and not loopback:
        raise InvalidInput(
            "http.open gives access without a token, so it works only on 127.0.0.1; {how}.", _(_HOW)
        )

    if not loopback:
        log.warning(
            "listening beyond this machine: tokens travel as they are, unless a proxy with TLS is in front"
        )

    # A proxy calls this server by the name that clients know.
    public = urlsplit(settings.public_url or "")
    extras = AuthExtras()
    if public.netloc:
        origin = f"{public.scheme}://{public.netloc}".lower()
        extras = AuthExtras(hosts=[host_of(public.netloc)], origins=[origin])

    if tokens is not None:
        tokens.tokens()  # raises InvalidInput at the start and not at the first request
        return _by_file(tokens), extras

    if settings.jwt.issuer is not None:
        from memory_server.serving.http import jwt_tokens

        enter, routes, challenge = jwt_tokens.entrance(settings)
        return enter, replace(extras, routes=routes, challenge=challenge)

    return _by_token(settings.token), extras


def _by_token(secret: str | None) -> Enter:
    """Let all callers with this token enter, or without a token all callers. Raises InvalidInput if
    the token of the settings is shorter than LEAST_CHARS."""
    if secret is not None and len(secret) < LEAST_CHARS:
        raise InvalidInput(
            "http.token has fewer than {chars} characters; choose a long random one.", LEAST_CHARS
        )

    async def enter(token: str | None) -> Principal | None:
        if secret is None or hmac.compare_digest((token or "").encode(), secret.encode()):
            return Principal(None, ALL)
        return None

    return enter


def _by_file(tokens: Tokens) -> Enter:
    """Return a function that finds the principal of a token in a file of tokens, and gives None if
    the token is missing or allows nothing."""

    async def enter(token: str | None) -> Principal | None:
        if token is None:
            return None
        access = tokens.find(token)
        if access is None:
            return None
        return Principal(
            access.tenant, frozenset(access.scopes), session=access.name, timezone=access.timezone
        )

    return enter

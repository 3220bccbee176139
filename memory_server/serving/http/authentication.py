"""The ways to enter: one token, a file of tokens, JWTs, or nobody asks. A server has exactly one of them."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.routing import Route

from memory_server.kernel.errors import InvalidInput
from memory_server.serving.http.middleware import Enter
from memory_server.serving.http.principals import ALL, Principal, Tokens
from sandbox.locale import _

if TYPE_CHECKING:
    from memory_server.config.http_settings import HttpSettings

log = logging.getLogger(__name__)

LEAST_CHARS = 32
"""Characters of `http.token`."""
_HOW = _("run `memory-server tokens add NAME`, or set http.token in the environment")


@dataclass(frozen=True, slots=True)
class AuthExtras:
    """What a way to enter adds to the server."""

    routes: Sequence[Route] = ()
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    challenge: str = ""


def names_in(given: str | None) -> list[str]:
    """The names of a list with commas."""
    return [name for part in (given or "").split(",") if (name := part.strip())]


def host_of(name: str) -> str:
    """A name as the header `Host` has it: in small letters, without a port."""
    return re.sub(r":\d+$", "", name.lower())


def entrance(settings: HttpSettings, tokens: Tokens | None, *, loopback: bool) -> tuple[Enter, AuthExtras]:
    """The way to enter that is set. Raises InvalidInput: there is none, or more than one, or it cannot be used."""
    given = {
        "http.token": settings.token is not None,
        "a file of tokens": tokens is not None,
        "http.jwt.issuer": settings.jwt.issuer is not None,
        "http.open": settings.open,
    }
    ways = [name for name, is_set in given.items() if is_set]
    if not ways:
        raise InvalidInput("No authentication is configured; {how}.", _HOW)
    if len(ways) > 1:
        raise InvalidInput("Both {ways} are given; keep one way to enter.", " and ".join(ways))
    if settings.open and not loopback:
        raise InvalidInput("http.open lets everybody in, so it works only on 127.0.0.1; {how}.", _HOW)
    if not loopback:
        log.warning("listening beyond this machine: tokens travel as they are, unless a proxy with TLS is in front")
    public = urlsplit(settings.public_url or "")
    seen = AuthExtras(
        hosts=[host_of(public.netloc)] if public.netloc else (),
        origins=[f"{public.scheme}://{public.netloc}".lower()] if public.netloc else (),
    )
    if tokens is not None:
        tokens.tokens()
        return _by_file(tokens), seen
    if settings.jwt.issuer is not None:
        from memory_server.serving.http import jwt_tokens

        enter, routes, challenge = jwt_tokens.entrance(settings)
        return enter, replace(seen, routes=routes, challenge=challenge)
    return _by_token(settings.token), seen


def _by_token(token: str | None) -> Enter:
    if token is not None and len(token) < LEAST_CHARS:
        raise InvalidInput("http.token has fewer than {chars} characters; choose a long random one.", LEAST_CHARS)

    async def enter(given: str | None) -> Principal | None:
        if token is None or hmac.compare_digest((given or "").encode(), token.encode()):
            return Principal(None, ALL)
        return None

    return enter


def _by_file(tokens: Tokens) -> Enter:
    async def enter(given: str | None) -> Principal | None:
        found = None if given is None else tokens.find(given)
        return None if found is None else Principal(found.tenant, frozenset(found.scopes), session=found.name)

    return enter

"""The settings of `serve --http`: the address, who may enter, and how much each tenant may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from languages import _
from memory_server.config.section import GIVEN, Names, Section
from memory_server.kernel.times import is_zone

_SIGNED_WITH_A_PAIR = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)


def _usable_algorithms(value: str) -> str:
    for name in value.split(","):
        if name not in _SIGNED_WITH_A_PAIR:
            raise ValueError(
                _(
                    "`{name}` is not one of {signed_with_a_pair}",
                    name,
                    ", ".join(_SIGNED_WITH_A_PAIR),
                )
            )
    return value


def _zones(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:  # in the environment
        return json.loads(value)
    except ValueError as error:
        raise ValueError(_('write it as JSON, such as {"alice": "Europe/Berlin"}')) from error


def _known_zones(value: dict[str, str]) -> dict[str, str]:
    for zone in value.values():
        if not is_zone(zone):
            raise ValueError(
                _("`{value}` is not an IANA time zone; write for example `Asia/Shanghai`", zone)
            )
    return value


class JwtSettings(Section):
    """JWTs of an identity provider: each names the tenant of its holder."""

    issuer: str | None = None
    """The `iss` of every token; turns JWTs on."""
    audience: str | None = None
    """The `aud` of every token; by default `http.public_url`, with or without `/mcp`."""
    jwks: str | None = None
    """The provider's keys: a URL that begins with https:// (or http://), or a file."""
    algorithms: Annotated[Names, AfterValidator(lambda value: _usable_algorithms(value or ""))] = (
        "RS256,ES256,EdDSA"
    )
    """Accepted algorithms, with commas between."""
    tenant_claim: str = "sub"
    """The claim that names the tenant."""
    read_scope: str | None = None
    """Scope that a token needs; by default none."""
    write_scope: str | None = None
    """Scope that changes need; by default none."""
    operator_scope: str | None = None
    """Scope that reading `/metrics` needs; by default no JWT can read it."""


class HttpSettings(Section):
    """`memory-server serve --http`: MCP and a plain call over HTTP, for one user or many."""

    listen: str = "127.0.0.1:8460"
    """`[HOST:]PORT` of `serve --http` if the command line gives none."""
    token: str | None = Field(None, repr=False)
    """The one token that allows everything, at least 32 characters. Set it in the environment."""
    tokens: Path | None = None
    """File of the tokens that `memory-server tokens` gives; by default `.memory-server/tokens.jsonl` in the data
    folder, if it exists."""
    open: bool = False
    """Whether anyone on this machine may call without a token; only on a loopback address."""
    public_url: str | None = Field(None, pattern=r"^https?://[^/?#@]+(/[^?#]*)?$")
    """URL at which clients see this server, such as https://memory.example.com."""
    hosts: Names = None
    """Further names that the header `Host` may have, with commas between."""
    origins: Names = None
    """Origins of web pages that may call, such as https://app.example.com, with commas between."""
    requests_per_minute: int = Field(3_000, ge=1)
    """Requests of a tenant per minute; a quarter of them at once. Earlier ones wait up to 10 seconds."""
    concurrent: int = Field(16, ge=1)
    """Calls of a tenant at the same time, and as many open streams. Up to 400 further calls wait."""
    trigger_searches: int = Field(1, ge=1)
    """Searches of triggers of a tenant at the same time; further ones wait."""
    tenant_mb: float = Field(0, ge=0)
    """MB of the files of a tenant above which nothing can be added; 0: no limit."""
    timezones: Annotated[dict[str, str], BeforeValidator(_zones), AfterValidator(_known_zones)] = (
        Field({})
    )
    """Time zones of tenants, if they differ from `timezone`: `{"alice": "Europe/Berlin"}`. A token and a call may name
    another one."""
    tenant_idle_minutes: float = Field(5, gt=0)
    """Minutes without a request after which a tenant leaves memory."""
    open_tenants: int = Field(1_000, ge=1)
    """Tenants in memory at the same time."""
    web: bool = False
    """Whether the server has the page `/web/`, which asks for a token and shows the memories of that token."""
    drain_seconds: float = Field(0, ge=0)
    """Seconds between the first signal to end and the end; meanwhile `/readyz` says 503 and calls are still
    answered."""
    jwt: JwtSettings = GIVEN

"""The settings of `serve --http`: the address, who may enter, and how much each tenant may do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from memory_server.config.section import GIVEN, Names, Section
from sandbox.locale import _

_SIGNED_WITH_A_PAIR = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


def _usable_algorithms(value: str) -> str:
    for name in value.split(","):
        if name not in _SIGNED_WITH_A_PAIR:
            raise ValueError(_("`{name}` is not one of {signed_with_a_pair}", name, ", ".join(_SIGNED_WITH_A_PAIR)))
    return value


class JwtSettings(Section):
    """Entering with JWTs of an identity provider: each says which tenant its holder is."""

    issuer: str | None = None
    """The `iss` of every token, which turns this way of entering on."""
    audience: str | None = None
    """The `aud` that is required; by default `http.public_url`, with or without `/mcp`."""
    jwks: str | None = None
    """The provider's keys: a URL that begins with https:// (or http://), or a file."""
    algorithms: Annotated[Names, AfterValidator(lambda value: _usable_algorithms(value or ""))] = "RS256,ES256,EdDSA"
    """Algorithms that are accepted, with commas between."""
    tenant_claim: str = "sub"
    """The claim that names the tenant."""
    read_scope: str | None = None
    """Scope without which nobody may enter; by default none is needed."""
    write_scope: str | None = None
    """Scope without which nothing can be changed; by default none is needed."""
    operator_scope: str | None = None
    """Scope with which `/metrics` can be read; by default nobody can."""


class HttpSettings(Section):
    """`memory-server serve --http`: MCP and a plain call over HTTP, for one user or many."""

    listen: str = "127.0.0.1:8460"
    """`[HOST:]PORT` of `serve --http` where the command line gives none."""
    token: str | None = Field(None, repr=False)
    """The one token with which everything can be done, at least 32 characters. Set it in the environment."""
    tokens: Path | None = None
    """File of the tokens that `memory-server tokens` gives; by default `.memory-server/tokens.jsonl` in the data
    folder, if it is there."""
    open: bool = False
    """Whether everybody on this machine may enter; only on a loopback address."""
    public_url: str | None = Field(None, pattern=r"^https?://[^/?#@]+(/[^?#]*)?$")
    """URL at which clients see this server, such as https://memory.example.com."""
    hosts: Names = None
    """Further names in the header `Host` that are answered, with commas between."""
    origins: Names = None
    """Origins of web pages that may call, such as https://app.example.com, with commas between."""
    requests_per_minute: int = Field(3_000, ge=1)
    """Requests of a tenant per minute; a quarter of them at once. Those that come sooner wait up to 10 seconds."""
    concurrent: int = Field(16, ge=1)
    """Calls of a tenant at the same time, and as many streams that listen. Up to 400 further calls wait."""
    trigger_searches: int = Field(1, ge=1)
    """Searches of triggers of a tenant at the same time; further ones wait."""
    tenant_mb: float = Field(0, ge=0)
    """MB of the files of a tenant above which nothing can be added; 0: no limit. Measured again before requests could
    have filled the room."""
    tenant_idle_minutes: float = Field(5, gt=0)
    """Minutes without a request after which a tenant leaves memory."""
    open_tenants: int = Field(1_000, ge=1)
    """Tenants that are in memory at the same time."""
    web: bool = False
    """Whether the page is at `/web/`, for those who type a token there; it shows the memories of that token."""
    drain_seconds: float = Field(0, ge=0)
    """Seconds between the first signal to end and the end, in which `/readyz` says 503 and calls are still answered."""
    jwt: JwtSettings = GIVEN

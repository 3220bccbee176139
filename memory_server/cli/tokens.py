"""Add, list and revoke the tokens for access over HTTP (`tokens`)."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime

from languages import N_, _
from memory_server.cli.terminal import hint, print_columns, say, time_text
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.streams import complain, confirmed, write
from memory_server.kernel.times import milliseconds
from memory_server.runtime.homes import StoredToken, TokenFile, home_of, tokens_at


async def tokens(settings: Settings, flags: Namespace) -> None:
    """Add a token and print it, list the tokens, or revoke one. Raises InvalidInput if a name is missing, in use or
    unknown."""
    path = settings.http.tokens or tokens_at(settings.folder)
    file = TokenFile(path.expanduser())
    if flags.erase and flags.action != "remove":
        raise InvalidInput("--erase works only with `tokens remove NAME`.")
    if flags.action == "list":
        _list(file, settings)
        return

    if flags.name is None:
        raise InvalidInput("Name the token: `memory-server tokens {action} NAME`.", flags.action)

    if flags.action == "remove":
        await _remove(file, settings, flags)
    else:
        _add(file, settings, flags)


def _list(file: TokenFile, settings: Settings) -> None:
    """Print a table of the tokens, never the tokens themselves, and the path of their file."""
    rows = [N_(("name", "tenant", "rights", "created", "ends", "time zone"))]
    for token in _tokens_of(file):
        tenant = token.tenant
        if tenant is None:
            tenant = _("(the data folder)")
        if token.expired:
            end = _("expired")
        else:
            end = _local(token.expires, settings)

        created = _local(token.created, settings)
        rows.append(
            (token.name, tenant, ",".join(token.scopes), created, end, token.timezone or "-")
        )

    if len(rows) > 1:
        print_columns(rows)
    else:
        say("There are no tokens yet; `memory-server tokens add NAME` makes one.")

    hint(
        "The tokens are in {path}; the setting http.tokens gives another server the same file.",
        file.path,
    )


async def _remove(file: TokenFile, settings: Settings, flags: Namespace) -> None:
    """Revoke a token; with --erase, first erase everything of its tenant. With --erase it raises
    InvalidInput if the token has no tenant, others share its tenant, or the user does not agree."""
    kept_tenant = None
    if flags.erase:
        tenant = _to_erase(file, flags)
        home = home_of(settings, lambda: 0)
        await asyncio.to_thread(home.erase_tenant, tenant)
        await home.aclose()
        say("Everything of {tenant} was erased.", tenant)
    else:
        kept_tenant = _tenant_without_other_tokens(file, flags.name)
    # Remove the token last: as long as it exists, the erasure can be repeated.
    file.remove(flags.name)
    say("The token {name} was revoked and no longer works.", flags.name)

    if kept_tenant is not None:
        hint(
            "{tenant} has no token now. Its memories stay; to erase them, make a new token and remove it with "
            "--erase.",
            kept_tenant,
        )


def _add(file: TokenFile, settings: Settings, flags: Namespace) -> None:
    """Add a token and print it; it cannot be printed later."""
    scopes = ["read"]
    if not settings.read_only:
        scopes.append("write")
    if flags.operator:
        scopes.append("operator")
    tenant = getattr(flags, "tenant", None)
    timezone = getattr(flags, "timezone", None)
    write(file.add(flags.name, tenant, scopes, flags.days, timezone=timezone))
    complain("this token is shown only now; give it to the client as `Authorization: Bearer …`")


def _tokens_of(file: TokenFile) -> Sequence[StoredToken]:
    if not file.path.exists():
        return ()
    return file.tokens()


def _tenant_without_other_tokens(file: TokenFile, name: str) -> str | None:
    """Return the tenant that only the token `name` can access, or None."""
    tenants = {token.name: token.tenant for token in _tokens_of(file)}
    tenant = tenants.pop(name, None)
    if tenant in tenants.values():
        return None
    return tenant


def _to_erase(file: TokenFile, flags: Namespace) -> str:
    """Return the tenant of a token, of which everything is erased. Raises InvalidInput if the token has no tenant,
    other tokens can access the tenant, or the user does not confirm."""
    tenants = {token.name: token.tenant for token in _tokens_of(file)}
    if flags.name not in tenants:
        raise InvalidInput(
            "There is no token `{name}`; `memory-server tokens list` shows all.", flags.name
        )

    tenant = tenants.pop(flags.name)
    if tenant is None:
        raise InvalidInput(
            "The token {name} has no tenant; `memory-server forget` erases single memories.",
            flags.name,
        )

    other_names = [name for name, other_tenant in tenants.items() if other_tenant == tenant]

    # The other tokens would open an empty tenant without a warning.
    if other_names:
        raise InvalidInput(
            "{others} can access {tenant} too; remove these tokens first.",
            ", ".join(other_names),
            tenant,
        )

    if flags.yes:
        return tenant
    question = _("Erase everything of {tenant} for good?", tenant)
    nobody_to_ask = _("Nothing was erased; add --yes to erase it.")
    if not confirmed(question, otherwise=nobody_to_ask):
        raise InvalidInput("Nothing was erased, and the token stays.")
    return tenant


def _local(time: str | None, settings: Settings) -> str:
    if time is None:
        return time_text(None, settings.zone)
    return time_text(milliseconds(datetime.fromisoformat(time)), settings.zone)

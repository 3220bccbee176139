"""`tokens`: who may enter over HTTP."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from datetime import datetime

from memory_server.cli.terminal import complain, confirmed, console, escape, hint, print_columns, time_text, write
from memory_server.config import Settings, home_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.times import milliseconds
from memory_server.storage.data_dir import tokens_at
from memory_server.storage.token_file import TokenFile
from sandbox.locale import _, term


async def tokens(settings: Settings, flags: Namespace) -> None:
    """Add a token and print it, list the tokens, or take one back. Raises InvalidInput: a name is missing, taken or not
    known."""
    place = settings.http.tokens or tokens_at(settings.folder)
    file = TokenFile(place.expanduser())
    if flags.action == "list":
        rows = [(_("name"), _("tenant"), _("may"), _("created"), _("ends"))]
        for token in file.tokens() if file.path.exists() else ():
            tenant = term("(the data folder)") if token.tenant is None else token.tenant
            until = term("expired") if token.expired else _local(token.expires, settings)
            rows.append((token.name, tenant, ",".join(token.scopes), _local(token.created, settings), until))
        if len(rows) > 1:
            print_columns(rows)
        else:
            console().print(_("There are no tokens yet; `memory-server tokens add NAME` makes one."))
        hint(_("The tokens are in {path}; the setting http.tokens gives another server the same file.", file.path))
        return
    if flags.erase and flags.action != "remove":
        raise InvalidInput("--erase works only with `tokens remove NAME`.")
    if flags.name is None:
        raise InvalidInput("Name the token: `memory-server tokens {action} NAME`.", flags.action)
    if flags.action == "remove":
        if flags.erase:
            tenant = _to_erase(file, flags)
            kept = home_of(settings, lambda: 0)
            await asyncio.to_thread(kept.erase_tenant, tenant)
            await kept.aclose()
            console().print(_("Everything of {tenant} is erased.", escape(tenant)))
        # The token last: as long as it is there, the erasing can be done again.
        file.remove(flags.name)
        console().print(_("The token {name} is taken back; nobody enters with it any more.", escape(flags.name)))
        return
    scopes = ["read", *(() if settings.read_only else ("write",)), *(("operator",) if flags.operator else ())]
    write(file.add(flags.name, getattr(flags, "tenant", None), scopes, flags.days))
    complain(_("this token is shown only now; give it to the client as `Authorization: Bearer …`"))


def _to_erase(file: TokenFile, flags: Namespace) -> str:
    """The tenant of a token, of which everything is erased. Raises InvalidInput: it has none, or others enter it too,
    or nobody agrees."""
    known = {token.name: token.tenant for token in (file.tokens() if file.path.exists() else ())}
    if flags.name not in known:
        raise InvalidInput("There is no token `{name}`; `memory-server tokens list` shows all.", flags.name)
    tenant = known[flags.name]
    if tenant is None:
        raise InvalidInput("The token {name} has no tenant; `memory-server forget` erases single memories.", flags.name)
    if others := [name for name, entered in known.items() if entered == tenant and name != flags.name]:
        raise InvalidInput("{others} enter {tenant} too; remove these tokens first.", ", ".join(others), tenant)
    ask, nobody = _("Erase everything of {tenant} for good?", tenant), _("Nothing was erased; add --yes to erase it.")
    if not flags.yes and not confirmed(ask, otherwise=nobody):
        raise InvalidInput("Nothing was erased, and the token stays.")
    return tenant


def _local(time: str | None, settings: Settings) -> str:
    return time_text(None if time is None else milliseconds(datetime.fromisoformat(time)), settings.zone)

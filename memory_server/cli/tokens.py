"""`tokens`: who may enter over HTTP."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from shutil import rmtree

from memory_server.cli.terminal import complain, confirmed, console, escape, write
from memory_server.config import Settings, default_data_dir
from memory_server.kernel.errors import InvalidInput
from memory_server.storage.data_dir import open_home, tokens_at
from memory_server.storage.token_file import TokenFile
from sandbox.locale import _, translated


async def tokens(settings: Settings, flags: Namespace) -> None:
    """Add a token and print it, list the tokens, or take one back. Raises InvalidInput: a name is missing, taken or not
    known."""
    home = settings.data_dir or default_data_dir()
    place = settings.http.tokens or tokens_at(home)
    file = TokenFile(place.expanduser())
    if flags.action == "list":
        for token in file.tokens() if file.path.exists() else ():
            tenant = _("(the data folder)") if token.tenant is None else token.tenant
            until = _("expired") if token.expired else token.expires or "-"
            console().out(
                token.name,
                translated(tenant),
                ",".join(token.scopes),
                token.created,
                translated(until),
                sep="\t",
                highlight=False,
            )
        return
    if flags.name is None:
        raise InvalidInput("Name the token: `memory-server tokens {action} NAME`.", flags.action)
    if flags.action == "remove":
        erased = _to_erase(file, flags) if flags.erase else None
        file.remove(flags.name)
        if erased is not None and (folder := open_home(home, lambda: 0).tenant(erased)).exists():
            await asyncio.to_thread(rmtree, folder)
            console().print(_("Everything of {tenant} is erased.", escape(erased)))
        return
    scopes = ["read", *(() if settings.read_only else ("write",)), *(("operator",) if flags.operator else ())]
    write(file.add(flags.name, getattr(flags, "tenant", None), scopes, flags.days))
    complain(_("this token is shown only now; give it to the client as `Authorization: Bearer …`"))


def _to_erase(file: TokenFile, flags: Namespace) -> str:
    """The tenant of a token, of which everything is erased. Raises InvalidInput: it has none, or others enter it too,
    or nobody agrees."""
    known = {token.name: token.tenant for token in file.tokens() if file.path.exists()}
    tenant = known.get(flags.name)
    if tenant is None:
        raise InvalidInput("The token {name} has no tenant; `memory-server forget` erases single memories.", flags.name)
    if others := [name for name, entered in known.items() if entered == tenant and name != flags.name]:
        raise InvalidInput("{others} enter {tenant} too; remove these tokens first.", ", ".join(others), tenant)
    ask, nobody = _("Erase everything of {tenant} for good?", tenant), _("Nothing was erased; add --yes to erase it.")
    if not flags.yes and not confirmed(ask, otherwise=nobody):
        raise InvalidInput("Nothing was erased, and the token stays.")
    return tenant

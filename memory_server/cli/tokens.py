"""`tokens`: who may enter over HTTP."""

from __future__ import annotations

from argparse import Namespace

from memory_server.cli.terminal import complain, console, write
from memory_server.config import Settings, default_data_dir
from memory_server.kernel.errors import InvalidInput
from memory_server.storage.data_dir import tokens_at
from memory_server.storage.token_file import TokenFile
from sandbox.locale import _, translated


async def tokens(settings: Settings, flags: Namespace) -> None:
    """Add a token and print it, list the tokens, or take one back. Raises InvalidInput: a name is missing, taken or not
    known."""
    place = settings.http.tokens or tokens_at(settings.data_dir or default_data_dir())
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
        file.remove(flags.name)
        return
    scopes = ["read", *(() if settings.read_only else ("write",)), *(("operator",) if flags.operator else ())]
    write(file.add(flags.name, getattr(flags, "tenant", None), scopes, flags.days))
    complain(_("this token is shown only now; give it to the client as `Authorization: Bearer …`"))

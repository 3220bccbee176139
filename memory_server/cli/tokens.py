"""`tokens`: who may enter over HTTP."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime

from memory_server.cli.terminal import complain, console, escape, print_columns, time_text, write
from memory_server.config import Settings, default_data_dir
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.times import milliseconds
from memory_server.storage.data_dir import tokens_at
from memory_server.storage.token_file import TokenFile
from sandbox.locale import _, term


async def tokens(settings: Settings, flags: Namespace) -> None:
    """Add a token and print it, list the tokens, or take one back. Raises InvalidInput: a name is missing, taken or not
    known."""
    place = settings.http.tokens or tokens_at(settings.data_dir or default_data_dir())
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
        return
    if flags.name is None:
        raise InvalidInput("Name the token: `memory-server tokens {action} NAME`.", flags.action)
    if flags.action == "remove":
        file.remove(flags.name)
        console().print(_("The token {name} is taken back; nobody enters with it any more.", escape(flags.name)))
        return
    scopes = ["read", *(() if settings.read_only else ("write",)), *(("operator",) if flags.operator else ())]
    write(file.add(flags.name, getattr(flags, "tenant", None), scopes, flags.days))
    complain(_("this token is shown only now; give it to the client as `Authorization: Bearer …`"))


def _local(time: str | None, settings: Settings) -> str:
    return time_text(None if time is None else milliseconds(datetime.fromisoformat(time)), settings.zone)

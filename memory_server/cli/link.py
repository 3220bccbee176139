"""`link` and `unlink`: whether this machine uses the memory of a server, and sending there what was remembered here."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_server.app import App
from memory_server.cli import linked
from memory_server.cli.inspection import not_copied
from memory_server.cli.terminal import complain, confirmed, console, escape, hint
from memory_server.config import Settings
from memory_server.conversations.contents import Contents, contents_of
from memory_server.interchange import own
from memory_server.kernel.errors import InvalidInput, RemoteError
from memory_server.kernel.link import Link, url_of
from memory_server.knowledge.entry import Entry
from memory_server.remote import Remote
from memory_server.storage.data_dir import Home
from memory_server.storage.link_files import token_in
from sandbox.locale import _, counted

_ASK_SECONDS = 15.0
_MOST_CHARS, _MOST_MEMORIES = 1_000_000, 200
"""Of one request: a server takes 4 MB, and other requests wait meanwhile."""


async def link(settings: Settings, flags: Namespace) -> int | None:
    """Link this machine to a server, or with --send give it what was remembered here."""
    if flags.send:
        return await _send(settings, flags)
    settings.refuse_change("link")
    made = _named(flags)
    remote = Remote(made, token_in(made.token_file))
    try:
        me = await remote.ask("/v1/me", seconds=_ASK_SECONDS)
        if not isinstance(me.get("version"), str):
            raise remote.not_ours()
        await _refuse_older(remote)
    finally:
        await remote.aclose()
    home = linked.home_of(settings)
    home.link.write(made)
    out = console()
    out.print(
        escape(
            _(
                "Linked to {url} as {name} (version {version}): from now on windows, hooks and commands use its "
                "memory.",
                made.url,
                str(me.get("name") or _("a token without a name")),
                str(me.get("version", "?")),
            )
        )
    )
    _warn_of_turns(me, home)
    linked.warn_of_clock(remote)
    hint(_("What was remembered here stays here; `memory-server link --send` gives it to the server."))
    return None


def _warn_of_turns(me: Mapping[str, Any], home: Home) -> None:
    """Say why turns of this machine would wait, and which ones were refused before."""
    if "write" not in str(me.get("scopes")):
        complain(_("this token only reads, so turns of this machine wait here until it has another one"))
    elif me.get("read_only") is True:
        complain(_("this server only reads, so turns of this machine wait here until `read_only` is off there"))
    elif "read_only" not in me:
        complain(_("this server is of an older version, so turns of this machine wait here until it is updated"))
    refused = len(home.outbox.refused())
    if refused:
        complain(
            _("refused by a server, and kept here: {turns}; `memory-server where` says why", counted(refused, "turn"))
        )


def _named(flags: Namespace) -> Link:
    """The link that was typed. Raises InvalidInput."""
    if flags.url is None or flags.token_file is None:
        raise InvalidInput(
            "Write the server and the file of the token: `memory-server link https://home.example --token-file F`."
        )
    token_file, ca = (
        None if one is None else Path(one).expanduser().absolute() for one in (flags.token_file, flags.ca)
    )
    if ca is not None and not ca.is_file():
        raise InvalidInput("There is no certificate at {path}.", ca)
    return Link(url_of(flags.url), str(token_file), None if ca is None else str(ca))


async def _refuse_older(remote: Remote) -> None:
    """Raises RemoteError: it does not run commands for other machines."""
    try:
        await remote.ask("/v1/commands/list", {"arguments": ["list", "--limit", "1"]}, seconds=_ASK_SECONDS)
    except RemoteError as error:
        if error.kind in ("path", "token") or not error.status:
            raise


async def unlink(settings: Settings, flags: Namespace) -> None:
    """Use the memory of this machine again."""
    home = linked.home_of(settings)
    known = home.link.read()
    if known is None:
        raise InvalidInput("This machine is not linked; `memory-server where` says which memory it uses.")
    settings.refuse_change("unlink")
    home.link.remove()
    console().print(escape(_("{url} is not used any more; the memory of this machine is.", known.url)))
    if waiting := len(home.outbox.waiting()):
        complain(
            _(
                "{turns} were not delivered and wait here; they are when this machine is linked again",
                counted(waiting, "turn"),
            )
        )


async def _send(settings: Settings, flags: Namespace) -> int:
    """Let the server import what is here: first it only says what would change."""
    if (known := linked.link_of(settings)) is None:
        raise InvalidInput("This machine is not linked; run `memory-server link` first.")
    server = linked.LinkedServer(known, settings, lasts=False)
    try:
        async with App(settings, brief=True) as app:
            held = [contents_of(await app.store.read(name)) for name in await app.conversations.ids()]
            entries = await app.knowledge.lifecycle.live(None)
            now_ms, left = app.clock(), await not_copied(app, layers=True)
        parts = [b"".join(own.write_native(part, now_ms, of)).decode() for part, of in _parts(held, entries)]
        if not parts:
            raise InvalidInput("Nothing is remembered here that could be sent.")

        async def imported(*more: str) -> int:
            arguments = ["import", "-", "--format", "native", *more]
            return max([await linked.command(server, "import", arguments, None, part) for part in parts])

        status = await imported("--dry-run")
        for sentence in left:
            hint(sentence)
        if flags.dry_run or status:
            return status
        without = _("Nothing was sent, because nobody is there to be asked; add --yes to send it.")
        if not flags.yes and not confirmed(_("Send this to {url}?", known.url), otherwise=without):
            console().print(_("Nothing was sent."))
            return 0
        return await imported()
    finally:
        await server.end(linked.AFTER_SECONDS)


def _parts(
    held: Sequence[Contents], entries: Sequence[tuple[str, Entry]]
) -> Iterator[tuple[list[Contents], Sequence[tuple[str, Entry]]]]:
    """What is sent, in parts that a request can hold; folders have the names that they have on all machines."""
    for contents in held:
        short = [replace(one, folder=linked.shared_folder(one.folder)) for one in contents.short_term]
        while short or contents.long_term:
            size, count = 0, 0
            while count < min(len(short), _MOST_MEMORIES) and (not count or size < _MOST_CHARS):
                size += 2 * len(short[count].text)
                count += 1
            yield [replace(contents, short_term=tuple(short[:count]))], ()
            short, contents = short[count:], replace(contents, long_term=())
    for begin in range(0, len(entries), _MOST_MEMORIES):
        yield [], entries[begin : begin + _MOST_MEMORIES]

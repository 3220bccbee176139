"""`link` and `unlink`: whether this machine uses the memory of a server, and sending there what was remembered here."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from languages import _, counted, n_
from memory_server.cli.terminal import console, escape, hint
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput, RemoteError, StorageError
from memory_server.kernel.link import Link, url_of
from memory_server.kernel.streams import complain, confirmed
from memory_server.operations.exports import ExportRequest, exported
from memory_server.operations.sending import Portion, SharedNames, portions_of
from memory_server.operations.whereabouts import not_copied
from memory_server.process import linked_server
from memory_server.process.remote import Remote
from memory_server.runtime.app import App
from memory_server.runtime.homes import Home, Outbox, shared_key, token_in

_ASK_SECONDS = 15.0


async def link(settings: Settings, flags: Namespace) -> int | None:
    """Link this machine to a server, or with --send give it what was remembered here, or with --retry-refused the turns
    that it refused."""
    if flags.send:
        return await _send(settings, flags)
    if flags.retry_refused:
        return await _retry_refused(settings, dry_run=flags.dry_run)
    settings.refuse_change("link")
    link_typed = _named(flags)
    remote = Remote(link_typed, token_in(link_typed.token_file))
    try:
        me = await remote.ask("/v1/me", seconds=_ASK_SECONDS)
        if not isinstance(me.get("version"), str):
            raise remote.not_ours()
        await _refuse_older(remote)
    finally:
        await remote.aclose()
    home = linked_server.home_of(settings)
    home.link.write(link_typed)
    out = console()
    out.print(
        escape(
            _(
                "Linked to {url} as {name} (version {version}): from now on windows, hooks and commands use its "
                "memory.",
                link_typed.url,
                str(me.get("name") or _("a token without a name")),
                str(me.get("version", "?")),
            )
        )
    )
    _warn_of_turns(me, home)
    linked_server.warn_of_clock(remote)
    hint(
        _(
            "The memories of this machine stay here; `memory-server link --send` sends them to the server."
        )
    )
    return None


def _warn_of_turns(me: Mapping[str, Any], home: Home) -> None:
    """Say why turns of this machine would wait, and which ones were refused before."""
    if "write" not in str(me.get("scopes")):
        complain(
            _(
                "this token is read-only, so the turns of this machine are kept here until the machine has another token"
            )
        )
    elif me.get("read_only") is True:
        complain(
            _(
                "this server is read-only, so the turns of this machine are kept here until `read_only` is off there"
            )
        )
    elif "read_only" not in me:
        complain(
            _(
                "this server is of an older version, so the turns of this machine are kept here until it is updated"
            )
        )
    linked_server.tell_of_refused(home.outbox)


def _named(flags: Namespace) -> Link:
    """The link that was typed. Raises InvalidInput."""
    if flags.url is None or flags.token_file is None:
        raise InvalidInput(
            "Write the server and the file of the token: `memory-server link https://home.example --token-file F`."
        )
    token_file = Path(flags.token_file).expanduser().absolute()
    certificate: str | None = None
    if flags.ca is not None:
        certificate_file = Path(flags.ca).expanduser().absolute()
        if not certificate_file.is_file():
            raise InvalidInput("There is no certificate at {path}.", certificate_file)
        certificate = str(certificate_file)
    return Link(url_of(flags.url), str(token_file), certificate)


async def _refuse_older(remote: Remote) -> None:
    """Raises RemoteError: it does not run commands for other machines."""
    try:
        await remote.ask(
            "/v1/commands/list", {"arguments": ["list", "--limit", "1"]}, seconds=_ASK_SECONDS
        )
    except RemoteError as error:
        if error.kind in ("path", "token") or not error.status:
            raise


async def unlink(settings: Settings, flags: Namespace) -> None:
    """Use the memory of this machine again."""
    home = linked_server.home_of(settings)
    link_before = home.link.read()
    if link_before is None:
        raise InvalidInput(
            "This machine is not linked; `memory-server where` says which memory it uses."
        )
    settings.refuse_change("unlink")
    home.link.remove()
    console().print(
        escape(
            _(
                "This machine uses its own memory again, and no longer that of {url}.",
                link_before.url,
            )
        )
    )
    waiting = len(home.outbox.waiting())
    if waiting:
        complain(
            _(
                "not delivered: {turns}; they are kept here, and sent when this machine is linked again",
                counted(waiting, "turn"),
            )
        )


async def _retry_refused(settings: Settings, *, dry_run: bool) -> int:
    """Let the refused turns wait again, and deliver what waits; 1 if one of them is not delivered."""
    link_here = _link_here(settings)
    outbox = linked_server.home_of(settings).outbox
    numbers = outbox.may_retry()
    out = console()
    if dry_run:
        out.print(
            n_(
                "{count} turn would be sent again.",
                "{count} turns would be sent again.",
                len(numbers),
            )
        )
        return 0
    settings.refuse_change("link --retry-refused")
    _say_what_stays(outbox, len(outbox.refused()) - len(numbers))
    numbers = [number for number in numbers if outbox.retry(number)]
    if not numbers:
        out.print(_("There is no refused turn that could be sent again."))
        return 0
    server = linked_server.LinkedServer(link_here, settings, lasts=False)
    try:
        delivery = await server.deliver(linked_server.COMMAND_SECONDS)
    finally:
        await server.remote.aclose()
    waiting = len(set(numbers).intersection(outbox.waiting()))
    refused = len(set(numbers).intersection(outbox.may_retry()))
    delivered = len(numbers) - waiting - refused
    turns = counted(len(numbers), "turn")
    out.print(
        _(
            "{turns} sent again: {delivered} delivered, {refused} refused again, {waiting} still waiting.",
            turns,
            delivered,
            refused,
            waiting,
        )
    )
    if delivery.stopped is not None:
        complain(delivery.stopped)
    return int(delivered < len(numbers))


def _say_what_stays(outbox: Outbox, count: int) -> None:
    if count > 0:
        complain(
            n_(
                "{count} file in {folder} holds no turn that can be read, and stays there",
                "{count} files in {folder} hold no turn that can be read, and stay there",
                count,
                outbox.refused_folder,
            )
        )


def _link_here(settings: Settings) -> Link:
    """The link of this machine. Raises InvalidInput: there is none."""
    link_here = linked_server.link_of(settings)
    if link_here is None:
        raise InvalidInput("This machine is not linked; run `memory-server link` first.")
    return link_here


async def _send(settings: Settings, flags: Namespace) -> int:
    """Let the server import what is here: first it only says what would change."""
    link_here = _link_here(settings)
    server = linked_server.LinkedServer(link_here, settings, lasts=False)
    try:
        portions, sentences = await _portions_here(settings)
        texts = [portion.text for portion in portions if portion.fits]
        too_large = len(portions) - len(texts)
        if too_large:
            sentence = _(
                "Not sent, because they are too long for one request: {memories}; move them with `memory-server "
                "export` here and `import` on the server.",
                counted(too_large, "memory"),
            )
            sentences = [*sentences, sentence]
        if not portions:
            raise InvalidInput("This machine has no memories to send.")
        status = await _import_there(server, texts, "--dry-run")
        for sentence in sentences:
            hint(sentence)
        if flags.dry_run or status:
            return status
        without = _("Nothing was sent, because this is not a terminal; add --yes to send it.")
        if not flags.yes and not confirmed(
            _("Send this to {url}?", link_here.url), otherwise=without
        ):
            console().print(_("Nothing was sent."))
            return 0
        status = await _import_there(server, texts)
        return max(status, int(too_large > 0))
    finally:
        await server.end(linked_server.AFTER_SECONDS)


async def _portions_here(settings: Settings) -> tuple[list[Portion], list[str]]:
    """Return what is remembered here, in portions as they are sent, and sentences about what is not in them."""
    async with App.for_one_question(settings) as app:
        here = await exported(app, ExportRequest())
        for reason in here.unread:
            raise StorageError(reason)
        sentences = await not_copied(app, layers=True)
        names = SharedNames(linked_server.shared_folder, shared_key)
        return portions_of(here, app.clock(), names), sentences


async def _import_there(
    server: linked_server.LinkedServer, texts: Sequence[str], *more: str
) -> int:
    """Let the server import each text; returns the worst status."""
    arguments = ["import", "-", "--format", "native", *more]
    worst_status = 0
    for text in texts:
        status = await linked_server.command(server, "import", arguments, None, standard_input=text)
        worst_status = max(worst_status, status)
    return worst_status

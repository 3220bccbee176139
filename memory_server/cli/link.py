"""Link this machine to the memory of a server, or unlink it, and send to the server what was remembered here."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from languages import _, counted, n_
from memory_server.cli.terminal import console, hint, say
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput, RemoteError
from memory_server.kernel.link import Link, url_of
from memory_server.kernel.streams import complain, confirmed
from memory_server.operations.delivery import retry_refused
from memory_server.operations.exports import SharedNames, shipment_of
from memory_server.process import linked_server
from memory_server.process.remote import Remote
from memory_server.runtime.app import App
from memory_server.runtime.homes import Home, shared_key, token_in

_ASK_SECONDS = 15.0


async def link(settings: Settings, flags: Namespace) -> int | None:
    """Link this machine to a server; with --send, send it what was remembered here; with
    --retry-refused, send it the turns again that it refused. A link that exists is replaced.
    Return the exit status of --send or --retry-refused, else None. Raises InvalidInput if a part
    is missing or the token cannot be read, or if nothing may be changed; RemoteError or NotReached
    if the server does not take it."""
    if flags.send:
        return await _send(settings, flags)
    if flags.retry_refused:
        return await _retry_refused(settings, dry_run=flags.dry_run)

    settings.refuse_change("link")

    # The link is written only after the server has answered with this token.
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
    say(
        "Linked to {url} as {name} (version {version}): from now on windows, hooks and commands use its "
        "memory.",
        link_typed.url,
        str(me.get("name") or _("a token without a name")),
        str(me.get("version", "?")),
    )

    _warn_of_turns(me, home)
    linked_server.warn_of_clock(remote)

    hint(
        "The memories of this machine stay here; `memory-server link --send` sends them to the server."
    )
    return None


def _warn_of_turns(me: Mapping[str, Any], home: Home) -> None:
    """Say why turns of this machine would wait: the token or the server is read-only, or the server
    is older. Say also which turns were refused before."""
    if "write" not in str(me.get("scopes")):
        complain(
            "this token is read-only, so the turns of this machine are kept here until the machine has another token"
        )
    elif me.get("read_only") is True:
        complain(
            "this server is read-only, so the turns of this machine are kept here until `read_only` is off there"
        )
    elif "read_only" not in me:
        complain(
            "this server is of an older version, so the turns of this machine are kept here until it is updated"
        )
    linked_server.tell_of_refused(home.outbox)


def _named(flags: Namespace) -> Link:
    """Return the link that was typed. Raises InvalidInput if a part is missing or the certificate does not exist."""
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
    """Raise RemoteError if the server does not run commands for other machines or does not accept the token. If it
    refuses the small command for another reason, do nothing: that shows that the server runs commands."""
    try:
        await remote.ask(
            "/v1/commands/list", {"arguments": ["list", "--limit", "1"]}, seconds=_ASK_SECONDS
        )
    except RemoteError as error:
        if error.kind in ("path", "token") or not error.status:
            raise


async def unlink(settings: Settings, flags: Namespace) -> None:
    """Use the memory of this machine again. Raises InvalidInput if it is not linked."""
    home = linked_server.home_of(settings)
    link_before = home.link.read()
    if link_before is None:
        raise InvalidInput(
            "This machine is not linked; `memory-server where` says which memory it uses."
        )

    settings.refuse_change("unlink")
    home.link.remove()
    say("This machine uses its own memory again, and no longer that of {url}.", link_before.url)

    waiting = len(home.outbox.waiting())
    if waiting:
        complain(
            "not delivered: {turns}; they are kept here, and sent when this machine is linked again",
            counted(waiting, "turn"),
        )


async def _retry_refused(settings: Settings, *, dry_run: bool) -> int:
    """Let the refused turns wait again, and deliver the waiting turns. Return 1 if a turn is not
    delivered. Raises InvalidInput if this machine is not linked."""
    link_here = _link_here(settings)

    outbox = linked_server.home_of(settings).outbox
    out = console()

    if dry_run:
        out.print(
            n_(
                "{count} turn would be sent again.",
                "{count} turns would be sent again.",
                len(outbox.may_retry()),
            )
        )
        return 0

    settings.refuse_change("link --retry-refused")
    server = linked_server.LinkedServer(link_here, settings, lasts=False)
    try:
        report = await retry_refused(outbox, lambda: server.deliver(linked_server.COMMAND_SECONDS))
    finally:
        await server.remote.aclose()

    if report.unreadable > 0:
        complain(
            n_(
                "{count} file in {folder} holds no turn that can be read, and stays there",
                "{count} files in {folder} hold no turn that can be read, and stay there",
                report.unreadable,
                outbox.refused_folder,
            )
        )

    if not report.turns:
        say("There is no refused turn that could be sent again.")
        return 0
    say(
        "{turns} sent again: {delivered} delivered, {refused} refused again, {waiting} still waiting.",
        counted(report.turns, "turn"),
        report.delivered,
        report.refused,
        report.waiting,
    )

    if report.stopped is not None:
        complain(report.stopped)
    return int(report.delivered < report.turns)


def _link_here(settings: Settings) -> Link:
    """Return the link of this machine. Raises InvalidInput if it is not linked."""
    link_here = linked_server.link_of(settings)
    if link_here is None:
        raise InvalidInput("This machine is not linked; run `memory-server link` first.")
    return link_here


async def _send(settings: Settings, flags: Namespace) -> int:
    """Let the server import what is here, after a dry run that only says what would change, and return the exit status,
    which is 1 or more if something was too long to send. Raises InvalidInput if there is no link, nothing to send, or
    the user cannot be asked."""
    link_here = _link_here(settings)
    server = linked_server.LinkedServer(link_here, settings, lasts=False)
    try:
        async with App.for_one_question(settings) as app:
            names = SharedNames(linked_server.shared_folder, shared_key)
            shipment = await shipment_of(app, names)

        sentences = list(shipment.remarks)
        if shipment.too_large:
            sentences.append(
                _(
                    "Not sent, because they are too long for one request: {memories}; move them with `memory-server "
                    "export` here and `import` on the server.",
                    counted(shipment.too_large, "memory"),
                )
            )

        status = await _import_there(server, shipment.texts, "--dry-run")
        for sentence in sentences:
            hint(sentence)

        if flags.dry_run or status:
            return status

        without = _("Nothing was sent, because this is not a terminal; add --yes to send it.")

        # The dry run has just shown what the server would change.
        if not flags.yes and not confirmed(
            _("Send this to {url}?", link_here.url), otherwise=without
        ):
            say("Nothing was sent.")
            return 0
        status = await _import_there(server, shipment.texts)
        return max(status, int(shipment.too_large > 0))
    finally:
        await server.end(linked_server.AFTER_SECONDS)


async def _import_there(
    server: linked_server.LinkedServer, texts: Sequence[str], *more: str
) -> int:
    """Let the server import each text; return the worst status."""
    arguments = ["import", "-", "--format", "native", *more]
    worst_status = 0
    for text in texts:
        status = await linked_server.command(server, "import", arguments, None, standard_input=text)
        worst_status = max(worst_status, status)
    return worst_status

"""The commands of a machine that is linked to a server: they ask it, and what was said goes through the outbox."""

from __future__ import annotations

import secrets
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from languages import Sentence, _
from memory_server.command_table import SETTING_FLAGS
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput, NotReached
from memory_server.kernel.link import Link
from memory_server.kernel.messages import messages_of, storable
from memory_server.kernel.private import calls_forget, to_keep
from memory_server.kernel.streams import complain, confirmed, write
from memory_server.process.linked_server import (
    AFTER_SECONDS,
    COMMAND_SECONDS,
    REMOTE_RECALL_SECONDS,
    LinkedServer,
    command,
    keep,
    sent_message,
    shared_folder,
    show_answer,
    tell_of_refused,
    warn_of_clock,
)
from memory_server.runtime.homes import TURN_PATH, folder_of_work

if TYPE_CHECKING:
    from memory_server.operations.delivery import TurnResult
    from memory_server.process.hosts import Host
from memory_server.process import typed_calls


async def run(link: Link, settings: Settings, flags: Namespace, host: Host) -> int:
    """Do a command with the memory of the server. Only turns wait for a server that does not answer. Raise
    MemoryServerError."""
    name = flags.command.name
    if flags.command.linked not in ("sent", "tool"):
        raise InvalidInput(
            "`{name}` works only on the server; run it on the machine that serves {url}.",
            name,
            link.url,
        )

    server = LinkedServer(link, settings, lasts=host.lasts, folder=host.folder)
    folder = shared_folder(folder_of_work(host.folder or Path.cwd()))

    try:
        headers = server.headers(folder=folder)
        if name == "remember":
            return await _remember(server, flags, headers)
        if name == "recall":
            return await _recall(server, flags, headers)
        if name == "call":
            return await _call(server, flags, headers)
        return await _sent_command(server, flags, folder)

    except NotReached as error:
        advice = Sentence(
            "{reason} Commands do not wait for the server: run `memory-server {name}` again when it answers.",
            error,
            name,
        )
        raise NotReached(advice, error.status) from error
    # Turns that wait are delivered after the command, when the server has just answered.
    finally:
        warn_of_clock(server.remote)
        await server.end(AFTER_SECONDS)


async def _call(server: LinkedServer, flags: Namespace, headers: Mapping[str, str]) -> int:
    """Let the server call a tool, and print its result as JSON; return 0. Raises InvalidInput with --text, NotReached,
    RemoteError."""
    if flags.text:
        raise InvalidInput("--text works only on the server; leave it out to get the JSON.")
    arguments = typed_calls.arguments_of(flags.arguments)
    answer = await server.remote.ask(
        f"/v1/{flags.tool}", arguments, headers, seconds=COMMAND_SECONDS, twice=False
    )
    show_answer(answer)
    return 0


async def _recall(server: LinkedServer, flags: Namespace, headers: Mapping[str, str]) -> int:
    """Ask the server for a recall without the private parts and secrets of the messages, and print
    its block, or all of it with --json; return 0. Raises InvalidInput, NotReached, or RemoteError if it
    refuses."""
    arguments = {
        "session": typed_calls.session_of(flags.session).id,
        **typed_calls.messages_of(flags.words),
        **typed_calls.typed_for_recall(flags),
    }

    # Private parts and secrets must not leave this machine.
    if arguments.get("messages") is not None:
        messages = _public(_rows_of(arguments))
        arguments["messages"] = server.settings.secret_filter.of(messages)

    answer = await server.ask_for(
        "prompt", "/v1/recall_turn", arguments, headers, REMOTE_RECALL_SECONDS
    )
    if flags.json:
        show_answer(answer)
    elif answer["prompt"]:
        show_answer(answer["prompt"])
    typed_calls.tell_of_recall(answer, flags)
    return 0


async def _remember(server: LinkedServer, flags: Namespace, headers: Mapping[str, str]) -> int:
    """Keep a turn and deliver it. Return the exit status. Raises InvalidInput if all of it is
    private, or if the server refused it."""
    arguments = server.settings.secret_filter.of(_turn_typed(flags, server.home.clock()))
    delivery = await keep(server, TURN_PATH, arguments, headers, AFTER_SECONDS)
    waiting = len(server.home.outbox.waiting())
    if delivery.newest is not None:
        return _tell_result(server, delivery.newest, waiting, as_json=flags.json)
    if flags.json:
        write({"success": True, "stored": False, "waiting": waiting})
    else:
        write(_("Kept on this machine until the server answers; turns waiting: {count}.", waiting))
    if delivery.stopped is not None:
        complain(delivery.stopped)
    return 0


def _turn_typed(flags: Namespace, now_ms: int) -> dict[str, Any]:
    """Return the arguments of the tool for a turn that was typed. Raise InvalidInput if all of it is private."""
    # Each turn has an id, so that it may be delivered twice, and a time, because that may be later. Its names are in
    # the body, because a head that is too large is refused before it is read.
    arguments = {
        "turn_id": flags.turn or secrets.token_hex(8),
        "session": typed_calls.session_of(flags.session).id,
        **typed_calls.messages_of(flags.words),
    }
    rows = _rows_of(arguments)
    messages = _without_private(rows)
    if not messages and messages_of(rows):
        raise InvalidInput("All of the text is marked as private, so nothing was stored.")
    arguments["messages"] = [{"timestamp": now_ms, **message} for message in messages]
    return arguments


def _rows_of(arguments: Mapping[str, Any]) -> list[Any]:
    """Return the messages among the arguments. A value that is not a list is returned as the only message, to be
    refused as a message."""
    from sandbox import message_rows  # a hook does not wait for it

    rows = message_rows(arguments.get("messages"))
    if not isinstance(rows, list):
        return [rows]
    return rows


def _tell_result(server: LinkedServer, result: TurnResult, waiting: int, *, as_json: bool) -> int:
    """Say what became of a turn that was just said, and return the exit status. Raise InvalidInput if the server
    refused it."""
    from memory_server.operations.delivery import TurnEnd

    match result.ending:
        case TurnEnd.STORED if as_json:
            write({"success": True, "stored": True, "waiting": waiting})
        case TurnEnd.STORED:
            write(_("Remembered on {url}.", server.remote.link.url))
        case TurnEnd.NOTHING_KEPT if as_json:
            show_answer({"success": True, "stored": False, "note": result.sentence})
        case TurnEnd.NOTHING_KEPT:
            show_answer(result.sentence)
        case TurnEnd.REFUSED:
            raise InvalidInput(result.sentence)
    return 0


def _without_private(messages: Sequence[Any]) -> list[Any]:
    """Return the messages of a turn as they may leave this machine: as `_public` returns them, or only the calls of
    `forget` if there are any."""
    forgotten = [message for message in messages if calls_forget(message)]
    if forgotten:
        return forgotten
    return _public(messages)


def _public(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the messages of a program, in any form, without private parts. Raise InvalidInput if a message cannot be
    read, because it may hold a private part."""
    return [sent_message(message) for message in to_keep(map(storable, messages_of(messages)))]


async def _sent_command(server: LinkedServer, flags: Namespace, folder: str | None) -> int:
    """Let the server run the command as it was typed, and return its exit status. `forget` asks
    first. Raises InvalidInput if the user cannot be asked."""
    arguments = sent_arguments(flags.typed)
    if flags.command.name == "forget" and not (flags.yes or flags.dry_run or flags.for_good):
        await command(server, "forget", [*arguments, "--dry-run"], folder)
        without = _(
            "Nothing was forgotten, because this is not a terminal; add --yes to forget it."
        )
        if not confirmed(_("Forget this?"), otherwise=without):
            write(_("Nothing was forgotten."))
            return 0
        arguments = [*arguments, "--yes"]
    tell_of_refused(server.home.outbox)
    return await command(server, flags.command.name, arguments, folder)


def sent_arguments(typed: Sequence[str]) -> list[str]:
    """Return the typed command line without the settings that are only for this machine, and their
    values."""
    sent: list[str] = []
    words = iter(typed)
    for word in words:
        name, equals, _value = word.removeprefix("--").partition("=")
        if word == "--":
            return [*sent, word, *words]
        setting = None
        if word.startswith("--"):
            setting = SETTING_FLAGS.get(name)
        if setting is not None and setting.on_linked_machine != "sent":
            if not equals:
                next(words, None)
        elif word not in ("--no-daemon", "--read-only"):
            sent.append(word)
    return sent

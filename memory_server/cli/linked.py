"""What hooks and commands do on a machine that is linked to a server: they ask it, and turns go through the outbox.

A turn is first kept here, durably, and then delivered: so nothing is lost where the server does not answer, and no turn
overtakes another one. Each has an id, by which the server knows it if it comes twice.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from languages import _, counted, spoken
from memory_server.cli.terminal import complain, confirmed, from_afar, write, write_errors
from memory_server.command_table import SETTING_FLAGS
from memory_server.config import Settings
from memory_server.kernel.captured_io import CAPTURED_IO
from memory_server.kernel.collecting import collect_from_now_on
from memory_server.kernel.errors import InvalidInput, MemoryServerError
from memory_server.kernel.link import MOST_FOLDER_CHARS, Link, shared_name
from memory_server.kernel.messages import Message, Session, messages_of, storable
from memory_server.kernel.private import calls_forget, to_keep
from memory_server.knowledge.projects import named_by_user
from memory_server.storage.data_dir import Home
from memory_server.storage.homes import open_home
from memory_server.storage.link_files import TURN_PATH, Outbox, token_in
from memory_server.storage.repositories import folder_of_work, project_at

if TYPE_CHECKING:
    from memory_server.cli.command_runner import Host
    from memory_server.cli.delivery import Delivery, TurnResult
    from memory_server.remote import Remote

REMOTE_RECALL_SECONDS = 1.0
"""How long a recall waits for the server."""
COMMAND_SECONDS = 60.0
"""How long another command waits for the server."""
AFTER_SECONDS = 3.0
"""How long a command delivers what waits, after its own work."""
AFTER_HOOK_SECONDS = 0.5
"""The same for a hook, for which a user waits."""
_kept: dict[tuple[Link, str], Remote] = {}
"""The connections of a process that lasts."""
_delivering: set[asyncio.Task[None]] = set()


def home_of(settings: Settings) -> Home:
    now_ms = settings.now_ms
    return open_home(settings.folder, lambda: now_ms or time.time_ns() // 1_000_000)


def link_of(settings: Settings) -> Link | None:
    """The link of this machine; None: it has a memory of its own. Raises InvalidInput: its file cannot be used."""
    return home_of(settings).link.read()


class LinkedServer:
    """The server as one hook or command uses it; `lasts`: in a process that stays, and keeps the connection. `folder`:
    where it is used, by default the working directory."""

    def __init__(
        self, link: Link, settings: Settings, *, lasts: bool, folder: str | Path | None = None
    ) -> None:
        from memory_server.remote import Remote

        self.home = home_of(settings)
        self.settings = settings
        self._lasts = lasts
        self._project = _sent_project(settings, Path(folder or ""))
        token = token_in(link.token_file)
        key = (link, token)
        self.remote = _kept.get(key) or Remote(link, token)
        if lasts:
            _kept[key] = self.remote

    def headers(self, **more: str | None) -> dict[str, str]:
        """The headers that say for which conversation and project something is asked, and `more` of this kind."""
        values = {"conversation": self.settings.conversation, "project": self._project, **more}
        return {
            f"x-memory-{name}": quote(value, safe="") for name, value in values.items() if value
        }

    async def ask_for(
        self,
        field: str,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        seconds: float,
        *,
        twice: bool = True,
    ) -> dict[str, Any]:
        """An answer whose `field` is a text; without it, something else than a memory server has answered. Raises
        RemoteError: it was refused; NotReached."""
        answer = await self.remote.ask(path, body, headers, seconds=seconds, twice=twice)
        if not isinstance(answer.get(field), str):
            raise self.remote.not_ours()
        return answer

    async def deliver(self, seconds: float, newest: int | None = None) -> Delivery:
        """Deliver what waits (`delivery.deliver`)."""
        from memory_server.cli.delivery import (
            deliver,
        )  # here: a hook without a link does not wait for it

        return await deliver(self.remote, self.home.outbox, seconds, newest)

    def deliver_later(self) -> None:
        """Deliver in the background what waits, as long as this process runs."""
        if self._lasts and not _delivering and self.home.outbox.waiting():
            task = asyncio.create_task(self._until_delivered())
            _delivering.add(task)
            task.add_done_callback(_delivering.discard)

    async def _until_delivered(self) -> None:
        pause = 1.0
        while self.home.outbox.waiting():
            with suppress(Exception):
                await self.deliver(COMMAND_SECONDS)
            await asyncio.sleep(pause)
            pause = min(60.0, 2 * pause)

    async def end(self, seconds: float) -> None:
        """Deliver what waits if the server has just answered: in the background, or else for so long."""
        if self._lasts:
            self.deliver_later()
            return
        if self.remote.reached and self.home.outbox.waiting():
            with suppress(MemoryServerError):
                await self.deliver(seconds)
        await self.remote.aclose()


def _sent_project(settings: Settings, folder: Path) -> str | None:
    """The key of the project, by which the server knows it on each machine; None: there is none."""
    if settings.knowledge.project:
        return named_by_user(settings.knowledge.project).key
    project = project_at(folder, on_several_machines=True)
    if project is None or len(project.key) > MOST_FOLDER_CHARS:
        return None
    return project.key


async def keep(
    server: LinkedServer,
    path: str,
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    seconds: float,
) -> Delivery:
    """Put a turn into the outbox, and deliver what waits there. Raises MemoryServerError: the turn is not kept."""
    turn = {"path": path, "body": body, "headers": headers}
    number = await asyncio.to_thread(server.home.outbox.add, turn)
    return await server.deliver(seconds, number)


def shared_folder(folder: str | None) -> str | None:
    """The folder by the name that it has on all machines; None for a name that a server would refuse."""
    name = shared_name(folder, os.environ.get("HOME", ""))
    if name is None or len(name) > MOST_FOLDER_CHARS:
        return None
    return name


# --- commands ------------------------------------------------------------------------------------------------


async def run(link: Link, settings: Settings, flags: Namespace, host: Host) -> int:
    """Do a command with the memory of the server. Raises MemoryServerError."""
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
        if name == "remember":
            return await _remember(server, flags, folder)
        if flags.command.linked == "tool":
            await _tool(server, flags, folder)
            return 0
        return await _sent_command(server, flags, folder)
    finally:
        warn_of_clock(server.remote)
        await server.end(AFTER_SECONDS)


def warn_of_clock(remote: Remote) -> None:
    from memory_server.remote import WRONG_CLOCK_SECONDS

    if abs(remote.clock_off) > WRONG_CLOCK_SECONDS:
        hours_ahead = remote.clock_off / 3_600
        complain(
            _(
                "this machine's clock is {hours:+.1f} hours off; turns are stored with its times",
                hours_ahead,
            )
        )


async def window(link: Link, settings: Settings, session: Session, folder: Path) -> None:
    """Serve a window of `folder` over standard input and output: its messages go to the server."""
    from memory_server.serving.stdio import runner

    server = LinkedServer(link, settings, lasts=False, folder=folder)
    async with relay(server, session) as relaying:
        await runner.serve(relaying, settle)


async def settle() -> None:
    """What a window does besides carrying messages, until it ends: nothing, once its modules are imported."""
    collect_from_now_on()
    await asyncio.Event().wait()


@asynccontextmanager
async def relay(server: LinkedServer, session: Session) -> AsyncIterator[Any]:
    """What carries the messages of a window to the server, in the place of an MCP server."""
    from memory_server.serving.stdio.relay import Relay

    try:
        yield Relay(server.remote, server.headers(session=session.id))
    finally:
        await server.end(AFTER_SECONDS)


async def _tool(server: LinkedServer, flags: Namespace, folder: str | None) -> None:
    """Ask a tool of the server: the one of `call`, or the one of `recall`."""
    headers = server.headers(folder=folder)
    if flags.command.name == "call":
        await _call(server, flags, headers)
    else:
        await _recall(server, flags, headers)


async def _call(server: LinkedServer, flags: Namespace, headers: Mapping[str, str]) -> None:
    from memory_server.cli import call_tool

    if flags.text:
        raise InvalidInput("--text works only on the server; leave it out to get the JSON.")
    arguments = call_tool.arguments_of(flags.arguments)
    answer = await server.remote.ask(
        f"/v1/{flags.tool}", arguments, headers, seconds=COMMAND_SECONDS, twice=False
    )
    show_answer(answer)


async def _recall(server: LinkedServer, flags: Namespace, headers: Mapping[str, str]) -> None:
    from memory_server.cli import call_tool

    arguments = {
        "session": call_tool.session_of(flags.session).id,
        **call_tool.messages_of(flags.words),
        **call_tool.typed_for_recall(flags),
    }
    if arguments.get("messages") is not None:
        arguments["messages"] = _public(_rows_of(arguments))
    answer = await server.ask_for(
        "prompt", "/v1/recall_turn", arguments, headers, REMOTE_RECALL_SECONDS
    )
    if flags.json:
        show_answer(answer)
    elif answer["prompt"]:
        show_answer(answer["prompt"])
    call_tool.tell_of_recall(answer, flags)


async def _remember(server: LinkedServer, flags: Namespace, folder: str | None) -> int:
    """Keep a turn and deliver it; the exit status."""
    arguments = _turn_typed(flags, server.home.clock())
    delivery = await keep(
        server, TURN_PATH, arguments, server.headers(folder=folder), AFTER_SECONDS
    )
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


def tell_of_refused(outbox: Outbox) -> None:
    """Say how many turns a server refused before, if there are any: a hook that met it has no terminal."""
    refused = len(outbox.refused())
    if refused:
        complain(
            _(
                "refused by a server, and kept here: {turns}; `memory-server where` says why, and `memory-server link "
                "--retry-refused` sends them again",
                counted(refused, "turn"),
            )
        )


def _turn_typed(flags: Namespace, now_ms: int) -> dict[str, Any]:
    """The arguments of the tool for a turn that was typed. Raises InvalidInput: all of it is private."""
    from memory_server.cli import call_tool

    # Each turn has an id, so that it may be delivered twice, and a time, because that may be later. Its names are in
    # the body, because a head that is too large is refused before anybody reads it.
    arguments = {
        "turn_id": flags.turn or secrets.token_hex(8),
        "session": call_tool.session_of(flags.session).id,
        **call_tool.messages_of(flags.words),
    }
    rows = _rows_of(arguments)
    messages = _without_private(rows)
    if not messages and messages_of(rows):
        raise InvalidInput("All of the text is marked as private, so nothing was stored.")
    arguments["messages"] = [{"timestamp": now_ms, **message} for message in messages]
    return arguments


def _rows_of(arguments: Mapping[str, Any]) -> list[Any]:
    """The messages among the arguments; what is not a list of them stands in one, to be refused as a message."""
    from sandbox import message_rows  # a hook does not wait for it

    rows = message_rows(arguments.get("messages"))
    if not isinstance(rows, list):
        return [rows]
    return rows


def _tell_result(server: LinkedServer, result: TurnResult, waiting: int, *, as_json: bool) -> int:
    """Say what became of a turn that was just said; the exit status. Raises InvalidInput: the server refused it."""
    from memory_server.cli.delivery import Ending

    match result.ending:
        case Ending.STORED if as_json:
            write({"success": True, "stored": True, "waiting": waiting})
        case Ending.STORED:
            write(_("Remembered on {url}.", server.remote.link.url))
        case Ending.NOTHING_KEPT if as_json:
            show_answer({"success": True, "stored": False, "note": result.sentence})
        case Ending.NOTHING_KEPT:
            show_answer(result.sentence)
        case Ending.REFUSED:
            raise InvalidInput(result.sentence)
    return 0


def _without_private(messages: Sequence[Any]) -> list[Any]:
    """The messages of a turn as they may leave this machine: `_public`, or the call alone if something was forgotten."""
    forgotten = [message for message in messages if calls_forget(message)]
    if forgotten:
        return forgotten
    return _public(messages)


def _public(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """The messages of a program without private parts, in any form. Raises InvalidInput: one cannot be read, and may
    hold a private part."""
    return [_fields_of(message) for message in to_keep(map(storable, messages_of(messages)))]


def _fields_of(message: Message) -> dict[str, Any]:
    fields = {
        "role": message.role,
        "content": message.content,
        "timestamp": message.time_ms,
        "name": message.name,
    }
    return {name: value for name, value in fields.items() if value is not None}


async def _sent_command(server: LinkedServer, flags: Namespace, folder: str | None) -> int:
    """Let the server run the command as it was typed; its exit status. `forget` asks first."""
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


async def command(
    server: LinkedServer,
    name: str,
    arguments: Sequence[str],
    folder: str | None,
    *,
    standard_input: str = "",
) -> int:
    """Let the server run a command, and print what it says; its exit status."""
    from memory_server.shared_process.entrance import terminal_of

    streams = CAPTURED_IO.get()
    if streams is not None:
        terminal = dict(streams.terminal)
    else:
        terminal = dict(setting.split("=", 1) for setting in terminal_of(dict(os.environ)))
    body = {
        "arguments": list(arguments),
        "folder": folder,
        "language": spoken(),
        "terminal": terminal,
    }
    if standard_input:
        body["input"] = standard_input
    path = f"/v1/commands/{name}"
    answer = await server.ask_for(
        "output", path, body, server.headers(), COMMAND_SECONDS, twice=False
    )
    if answer["output"]:
        show_answer(answer["output"].removesuffix("\n"))
    show_errors(answer)
    status = answer.get("status")
    if status not in (0, 1, 2):
        return 1
    return int(status)


def show_answer(answer: object) -> None:
    """Print what a server answered, a text or a JSON value: the only way in which a command shows it."""
    if isinstance(answer, str):
        answer = from_afar(answer)
    write(answer)


def show_errors(answer: Mapping[str, Any]) -> None:
    write_errors(from_afar(str(answer.get("errors", ""))))


def sent_arguments(typed: Sequence[str]) -> list[str]:
    """The typed command line without the settings of this machine."""
    sent: list[str] = []
    words = iter(typed)
    for word in words:
        name, equals, _value = word.removeprefix("--").partition("=")
        if word == "--":
            return [*sent, word, *words]
        setting = None
        if word.startswith("--"):
            setting = SETTING_FLAGS.get(name)
        if setting is not None and setting.linked != "sent":
            if not equals:
                next(words, None)
        elif word not in ("--no-daemon", "--read-only"):
            sent.append(word)
    return sent

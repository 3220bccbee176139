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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from memory_server.cli.terminal import complain, confirmed, from_afar, write, write_errors
from memory_server.config import Settings
from memory_server.kernel.captured_io import CAPTURED_IO
from memory_server.kernel.errors import InvalidInput, MemoryPaused, MemoryServerError, NotReached, RemoteError
from memory_server.kernel.link import Link, shared_name
from memory_server.kernel.messages import Message
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from memory_server.storage.data_dir import Home, open_home
from memory_server.storage.link_files import token_in
from memory_server.storage.projects import folder_of_work
from sandbox.locale import _, spoken

if TYPE_CHECKING:
    from memory_server.cli.hook.claude_code import HookContext
    from memory_server.remote import Remote

SENT = ("list", "search", "show", "history", "recalls", "explain", "forget", "undo", "pin", "mute", "pause", "resume")
"""Commands that the server runs for this machine."""
HERE = ("install", "uninstall", "tools", "daemon", "where", "link", "unlink", "convert", "demo", "serve", "hook")
"""Commands that are about this machine, or ask the server by themselves; all else is done on the server."""
REMOTE_RECALL_SECONDS, TURN_SECONDS, COMMAND_SECONDS = 1.0, 10.0, 60.0
AFTER_SECONDS, AFTER_HOOK_SECONDS = 3.0, 0.5
"""How long a command, or a hook, delivers what waits, after its own work."""
_NOT_REACHED = "not reached"
_OF_THE_TURN = (400, 413, 422)
"""Status of a turn that the server will never take."""
OF_THIS_MACHINE = ("data-dir", "config", "tenant", "now", "seed", "log-level", "toolsets", "tools", "exclude-tools")
"""Flags that say what a process of this machine uses; the server refuses them."""
_kept: dict[tuple[Link, str], Remote] = {}
"""The connections of a process that lasts."""
_delivering: set[asyncio.Task[str | None]] = set()


def home_of(settings: Settings) -> Home:
    now_ms = settings.now_ms
    return open_home(settings.folder, lambda: now_ms or time.time_ns() // 1_000_000)


def link_of(settings: Settings) -> Link | None:
    """The link of this machine; None: it has a memory of its own. Raises InvalidInput: its file cannot be used."""
    return home_of(settings).link.read()


class LinkedServer:
    """The server as one hook or command uses it; `lasts`: in a process that stays, and keeps the connection."""

    def __init__(self, link: Link, settings: Settings, *, lasts: bool) -> None:
        from memory_server.remote import Remote

        self.home, self.settings, self._lasts = home_of(settings), settings, lasts
        key = link, token_in(link.token_file)
        self.remote = _kept.get(key) or Remote(*key)
        if lasts:
            _kept[key] = self.remote

    def headers(self, **more: str | None) -> dict[str, str]:
        named = {"conversation": self.settings.conversation, **more}
        return {f"x-memory-{name}": quote(value, safe="") for name, value in named.items() if value}

    async def deliver(self, seconds: float, newest: int | None = None) -> str | None:
        """Deliver what waits, in order, for so long at most; why that ended. `newest`: a turn of now, which is dropped
        where the memory is paused; an earlier one was said before the pause. Raises MemoryPaused: it was dropped."""
        box, end = self.home.outbox, time.monotonic() + seconds
        with box.turn() as may:
            while may and (waiting := box.waiting()):
                for number in waiting:
                    if (left := end - time.monotonic()) <= 0:
                        return _("there was no time left")
                    if (turn := box.read(number)) is None:
                        continue
                    try:
                        await self._deliver(turn, min(left, TURN_SECONDS), fresh=number == newest)
                    except NotReached as error:
                        if error.status not in (429, 503) or left < 1:
                            return str(error)
                        await asyncio.sleep(0.5)  # there are too many at once
                        break
                    except RemoteError as error:
                        if error.kind == "paused" and number == newest:
                            box.delivered(number)
                            raise MemoryPaused(str(error)) from error
                        if error.status not in _OF_THE_TURN:
                            return str(error)
                        aside = box.refuse(number)
                        complain(_("the server does not take a turn, which is kept in {path}: {reason}", aside, error))
                    else:
                        box.delivered(number)
        return None

    async def _deliver(self, turn: Mapping[str, Any], seconds: float, *, fresh: bool) -> None:
        answer = await self.remote.ask(turn["path"], turn["body"], turn["headers"], seconds=seconds)
        if "stored" not in answer or answer.get("id"):
            return
        if fresh or (await self.remote.ask("/v1/me", seconds=seconds)).get("paused"):
            raise RemoteError(str(answer.get("note", "")), 409, "paused")

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


# --- hooks ---------------------------------------------------------------------------------------------------


async def hook(server: LinkedServer, context: HookContext, flags: Namespace) -> tuple[str, str]:
    """The text for the model, and what the user is told; it is told once in a session that the server is not reached.
    Raises MemoryServerError."""
    if (body := _body_of(context, flags)) is None or (context.turn is not None and server.settings.read_only):
        return "", ""
    if context.turn is not None:
        await _keep(server, "/v1/commands/hook", body, server.headers(), REMOTE_RECALL_SECONDS)
        return "", ""
    try:
        said = await server.remote.ask("/v1/commands/hook", body, server.headers(), seconds=REMOTE_RECALL_SECONDS)
    except RemoteError as error:
        given = server.home.given
        if _NOT_REACHED in given.to(context.session):
            return "", ""
        given.note(context.session, [_NOT_REACHED], server.home.clock())
        told = _("Nothing is recalled in this session while that lasts; what is said is kept and delivered later. ")
        complain(_("hook: {reason}", told + str(error)))
        return "", f"memory-server: {told}{error}"
    _show_errors(said)
    return str(said.get("text", "")), ""


def _body_of(context: HookContext, flags: Namespace) -> dict[str, Any] | None:
    """What is sent of an event; None: all of it is private."""
    event, turn = context.event, context.turn
    body: dict[str, Any] = {
        "event": event.name,
        "session": event.session_id,
        "context_since": context.session and context.session.context_since_ms,
        "prompt_id": event.prompt_id,
        "source": event.source,
        "client": event.client,
        "folder": shared_folder(context.folder),
        "language": spoken(),
    }
    if turn is not None:
        body |= {"turn": turn.id, "forgot": turn.forgot}
        if not turn.forgot:
            body |= {"messages": _sent(turn.messages, time.time_ns() // 1_000_000), "asked": _sent(turn.asked) or None}
    elif event.name == "UserPromptSubmit":
        body |= {"messages": _sent(context.messages), "chars": flags.chars, "flashbacks": flags.flashbacks}
    return None if body.get("messages") == [] else {name: one for name, one in body.items() if one is not None}


async def _keep(
    server: LinkedServer, path: str, body: Mapping[str, Any], headers: Mapping[str, str], seconds: float
) -> str | None:
    """Put a turn into the outbox, and deliver what waits there; why that ended. Raises MemoryServerError: it is not
    kept, or the memory is paused."""
    turn = {"path": path, "body": body, "headers": headers}
    number = await asyncio.to_thread(server.home.outbox.add, turn)
    return await server.deliver(seconds, number)


def _sent(messages: Sequence[Message], now_ms: int | None = None) -> list[dict[str, Any]]:
    """Messages as they are sent: without what is private or was recalled. `now_ms`: the time of those without one."""
    return [
        {"role": each.role, "content": each.content}
        | ({"timestamp": each.time_ms or now_ms} if each.time_ms or now_ms else {})
        | ({"name": each.name} if each.name else {})
        for each in to_keep(as_said(messages))
    ]


def shared_folder(folder: str | None) -> str | None:
    """The folder by the name that it has on all machines."""
    return shared_name(folder, os.environ.get("HOME", ""))


# --- commands ------------------------------------------------------------------------------------------------


async def run(link: Link, settings: Settings, flags: Namespace, folder: Path | None = None) -> int:
    """Do a command with the memory of the server; `folder` is where it was typed in a shared process. Raises
    MemoryServerError."""
    name = flags.command.name
    if name not in (*SENT, "recall", "remember", "call"):
        raise InvalidInput("`{name}` is done on the server: run it there, where {url} is served.", name, link.url)
    server = LinkedServer(link, settings, lasts=folder is not None)
    work = shared_folder(folder_of_work(folder or Path.cwd()))
    try:
        if name == "remember":
            return await _remember(server, flags, work)
        if name in ("recall", "call"):
            await _tool(server, flags, work)
            return 0
        return await _sent_command(server, flags, work)
    finally:
        warn_of_clock(server.remote)
        await server.end(AFTER_SECONDS)


def warn_of_clock(remote: Remote) -> None:
    from memory_server.remote import WRONG_CLOCK_SECONDS

    if abs(remote.clock_off) > WRONG_CLOCK_SECONDS:
        ahead = remote.clock_off / 3_600
        complain(_("this machine's clock is {hours:+.1f} hours off; turns have the times that it says", ahead))


async def window(
    link: Link,
    settings: Settings,
    session: str,
    descriptors: Sequence[int] = (),
    stopped: Any = None,
    control: Any = None,
) -> None:
    """Serve a window: its messages go to the server. `descriptors`, `stopped` and `control` as for `runner.session`,
    which are given in a shared process."""
    from memory_server.serving.stdio import runner
    from memory_server.serving.stdio.relay import Relay

    server = LinkedServer(link, settings, lasts=bool(descriptors))
    relay: Any = Relay(server.remote, server.headers(session=session))  # in the place of a server
    try:
        if descriptors:
            await runner.session(relay, asyncio.Event().wait, (descriptors[0], descriptors[1]), stopped, control)
        else:
            await runner.serve(relay, asyncio.Event().wait)  # it settles by itself
    finally:
        await server.end(AFTER_SECONDS)


async def _tool(server: LinkedServer, flags: Namespace, work: str | None) -> None:
    from memory_server.cli import call_tool

    if flags.command.name == "call":
        if flags.text:
            raise InvalidInput("--text is done on the server; leave it out for the JSON.")
        arguments = call_tool.arguments_of(flags.arguments)
        write(
            await server.remote.ask(
                f"/v1/{flags.tool}", arguments, server.headers(folder=work), seconds=COMMAND_SECONDS, twice=False
            )
        )
        return
    arguments = call_tool.messages_of(flags.words)
    arguments |= {} if flags.chars is None else {"maxChars": flags.chars}
    arguments |= {} if flags.flashbacks is None else {"flashbacks": flags.flashbacks}
    headers = server.headers(folder=work, session=flags.session or secrets.token_hex(8))
    said = await server.remote.ask("/v1/recall_turn", arguments, headers, seconds=REMOTE_RECALL_SECONDS)
    if shown := said if flags.json else said.get("prompt"):
        write(shown)
    if note := said.get("note"):
        complain(note)


async def _remember(server: LinkedServer, flags: Namespace, work: str | None) -> int:
    from memory_server.cli import call_tool

    arguments = call_tool.messages_of(flags.words)
    # Each turn has an id, so that it may be delivered twice, and a time, because that may be later.
    arguments = {"turn_id": flags.turn or secrets.token_hex(8)} | arguments
    said = arguments.get("messages")
    now_ms = server.home.clock()
    if isinstance(said, list):
        arguments["messages"] = [
            {"timestamp": now_ms} | each if isinstance(each, dict) else each for each in _without_private(said)
        ]
        if said and not arguments["messages"]:
            raise InvalidInput("All of the text is marked as private, so nothing was stored.")
    headers = server.headers(folder=work, session=flags.session or secrets.token_hex(8))
    try:
        reason = await _keep(server, "/v1/remember_turn", arguments, headers, AFTER_SECONDS)
    except MemoryPaused as error:
        write({"success": True, "stored": False, "note": str(error)} if flags.json else str(error))
        return 0
    count = len(server.home.outbox.waiting())
    if flags.json:
        write({"success": True, "stored": not count, "waiting": count})
    elif count:
        write(_("Kept here until the server answers: {count} waiting.", count))
    else:
        write(_("Remembered on {url}.", server.remote.link.url))
    if reason is not None and count:
        complain(reason)
    return 0


def _without_private(said: Sequence[Any]) -> list[Any]:
    """Messages as a program gives them, without private parts, as far as their form is known; the server checks it."""
    if not all(isinstance(each, dict) and isinstance(each.get("content"), str) for each in said):
        return list(said)
    kept = iter(
        to_keep(Message(each.get("role", "user"), each["content"], extra={"n": n}) for n, each in enumerate(said))
    )
    return [{**said[each.extra["n"]], "content": each.content} for each in kept]


async def _sent_command(server: LinkedServer, flags: Namespace, work: str | None) -> int:
    arguments = sent_arguments(flags.typed)
    if flags.command.name == "forget" and not (flags.yes or flags.dry_run or flags.for_good):
        await command(server, "forget", [*arguments, "--dry-run"], work)
        without = _("Nothing was forgotten, because nobody is there to be asked; add --yes to forget it.")
        if not confirmed(_("Forget this?"), otherwise=without):
            write(_("Nothing was forgotten."))
            return 0
        arguments = [*arguments, "--yes"]
    return await command(server, flags.command.name, arguments, work)


async def command(server: LinkedServer, name: str, arguments: Sequence[str], work: str | None, given: str = "") -> int:
    """Let the server run a command, and print what it says; its exit status."""
    from memory_server.shared_process.entrance import terminal_of

    if (streams := CAPTURED_IO.get()) is not None:
        terminal = dict(streams.terminal)
    else:
        terminal = dict(each.split("=", 1) for each in terminal_of(dict(os.environ)))
    body = {"arguments": list(arguments), "folder": work, "language": spoken(), "terminal": terminal}
    said = await server.remote.ask(
        f"/v1/commands/{name}",
        body | ({"input": given} if given else {}),
        server.headers(),
        seconds=COMMAND_SECONDS,
        twice=False,
    )
    if text := str(said.get("output", "")):
        write(from_afar(text).removesuffix("\n"))
    _show_errors(said)
    status = said.get("status")
    return status if status in (0, 1, 2) else 1


def _show_errors(answer: Mapping[str, Any]) -> None:
    write_errors(from_afar(str(answer.get("errors", ""))))


def sent_arguments(typed: Sequence[str]) -> list[str]:
    """The typed command line without the settings of this machine."""
    kept: list[str] = []
    words = iter(typed)
    for word in words:
        name, equals, _value = word.removeprefix("--").partition("=")
        if word == "--":
            return [*kept, word, *words]
        if word.startswith("--") and name in (*OF_THIS_MACHINE, "language"):
            if not equals:
                next(words, None)
        elif word not in ("--no-daemon", "--read-only"):
            kept.append(word)
    return kept

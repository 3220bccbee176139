"""What hooks and commands do on a machine that is linked to a server: they ask it, and turns go through the outbox.

A turn is first kept here, durably, and then delivered: so nothing is lost where the server does not answer, and no turn
overtakes another. Each has an id, by which the server knows it if it comes twice.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from languages import counted, spoken
from memory_server.config import Settings
from memory_server.kernel.collecting import collect_from_now_on
from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.link import MOST_FOLDER_CHARS, Link, shared_name
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.streams import CAPTURED_IO, complain, from_afar, write, write_errors
from memory_server.kernel.values import JsonObject
from memory_server.knowledge.projects import named_by_user
from memory_server.runtime.homes import Home, Outbox, open_home, project_at, token_in

if TYPE_CHECKING:
    from memory_server.operations.delivery import Delivery
    from memory_server.process.remote import Remote

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
    """Return the link of this machine, or None if it has a memory of its own. Raise InvalidInput if its file cannot be
    used."""
    return home_of(settings).link.read()


class LinkedServer:
    """The server as a hook or command uses it. `lasts`: it is used in a process that stays, and keeps the connection.
    `folder`: where it is used, by default the working directory."""

    def __init__(
        self, link: Link, settings: Settings, *, lasts: bool, folder: str | Path | None = None
    ) -> None:
        """Read the token of the link. A process that `lasts` keeps the client of the server, and
        another with the same link and token uses it again. Raises InvalidInput if the token cannot
        be read."""
        from memory_server.process.remote import Remote

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
        """Return the headers that name the conversation and the project of a request, and `more` of this kind."""
        values = {"conversation": self.settings.conversation, "project": self._project, **more}
        return {
            f"x-memory-{name}": quote(value, safe="") for name, value in values.items() if value
        }

    async def ask_for(
        self,
        field: str,
        path: str,
        body: JsonObject,
        headers: Mapping[str, str],
        seconds: float,
        *,
        twice: bool = True,
    ) -> dict[str, Any]:
        """Ask for an answer whose `field` is a text; an answer without it is not from a memory server. Raise
        RemoteError if the request was refused, and NotReached."""
        answer = await self.remote.ask(path, body, headers, seconds=seconds, twice=twice)
        if not isinstance(answer.get(field), str):
            raise self.remote.not_ours()
        return answer

    async def deliver(self, seconds: float, newest: int | None = None) -> Delivery:
        """Deliver what waits, and complain of what is not delivered."""
        # Here, because a hook without a link does not wait for it.
        from memory_server.operations.delivery import DeliveryRequest, deliver

        delivery = await deliver(DeliveryRequest(self.remote, self.home.outbox, seconds, newest))
        for sentence in delivery.complaints:
            complain(sentence)
        return delivery

    def deliver_later(self) -> None:
        """Deliver in the background what waits, as long as this process runs. Do nothing in a process that soon ends,
        or where this has begun."""
        if self._lasts and not _delivering and self.home.outbox.waiting():
            task = asyncio.create_task(self._until_delivered())
            _delivering.add(task)
            task.add_done_callback(_delivering.discard)

    async def _until_delivered(self) -> None:
        """Deliver again and again, after pauses of 1 to 60 s, until no turn waits; errors are left for the next
        time."""
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
    """Return the key of the project, by which the server knows it on each machine, or None without a project."""
    if settings.knowledge.project:
        return named_by_user(settings.knowledge.project).key
    project = project_at(folder, on_several_machines=True)
    if project is None or len(project.key) > MOST_FOLDER_CHARS:
        return None
    return project.key


async def keep(
    server: LinkedServer,
    path: str,
    body: JsonObject,
    headers: Mapping[str, str],
    seconds: float,
) -> Delivery:
    """Put a turn into the outbox, and deliver what waits there. Raise MemoryServerError if the turn is not kept."""
    turn = {"path": path, "body": body, "headers": headers}
    number = await asyncio.to_thread(server.home.outbox.add, turn)
    return await server.deliver(seconds, number)


def sent_message(message: Message, *, usual_time_ms: int | None = None) -> dict[str, Any]:
    """Return a message as it is sent: role, content, `timestamp` in milliseconds, and name, the last two only if
    known. A message without a time gets `usual_time_ms`. `extra` is not sent."""
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    time_ms = message.time_ms or usual_time_ms
    if time_ms:
        fields["timestamp"] = time_ms
    if message.name:
        fields["name"] = message.name
    return fields


def shared_folder(folder: str | None) -> str | None:
    """Return the folder by the name that it has on all machines, or None if a server would refuse the name."""
    name = shared_name(folder, os.environ.get("HOME", ""))
    if name is None or len(name) > MOST_FOLDER_CHARS:
        return None
    return name


# --- commands ------------------------------------------------------------------------------------------------


def warn_of_clock(remote: Remote) -> None:
    """Say on standard error if the clock of this machine differs much from the server's, as the last answer told."""
    from memory_server.process.remote import WRONG_CLOCK_SECONDS

    if abs(remote.clock_off) > WRONG_CLOCK_SECONDS:
        hours_ahead = remote.clock_off / 3_600
        complain(
            "this machine's clock is {hours:+.1f} hours off; turns are stored with its times",
            hours_ahead,
        )


async def window(link: Link, settings: Settings, session: Session, folder: Path) -> None:
    """Serve a window of `folder` over standard input and output: its messages go to the server."""
    from memory_server.serving.stdio import runner

    server = LinkedServer(link, settings, lasts=False, folder=folder)
    async with relay(server, session) as relaying:
        await runner.serve(relaying, settle)


async def settle() -> None:
    """Do what a window does besides carrying messages, until it ends: nothing, once its modules are imported."""
    collect_from_now_on()
    await asyncio.Event().wait()


@asynccontextmanager
async def relay(server: LinkedServer, session: Session) -> AsyncIterator[Any]:
    """Carry the messages of a window to the server, in the place of an MCP server."""
    from memory_server.serving.stdio.relay import Relay

    try:
        yield Relay(server.remote, server.headers(session=session.id))
    finally:
        await server.end(AFTER_SECONDS)


def tell_of_refused(outbox: Outbox) -> None:
    """Say how many turns a server refused before, if there are any: a hook that met it has no terminal."""
    refused = len(outbox.refused())
    if refused:
        complain(
            "refused by a server, and kept here: {turns}; `memory-server where` says why, and `memory-server link "
            "--retry-refused` sends them again",
            counted(refused, "turn"),
        )


async def command(
    server: LinkedServer,
    name: str,
    arguments: Sequence[str],
    folder: str | None,
    *,
    standard_input: str = "",
) -> int:
    """Let the server run a command, print what it says, and return its exit status, or 1 if no
    command has such a status. Raises RemoteError, NotReached."""
    from memory_server.process.entrance import terminal_of

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

    # A status that no command has is a failure.
    status = answer.get("status")
    if status not in (0, 1, 2):
        return 1
    return int(status)


def show_answer(answer: object) -> None:
    """Print what a server answered, a text or a JSON value: the only way in which a command shows it."""
    if isinstance(answer, str):
        answer = from_afar(answer)
    write(answer)


def show_errors(answer: JsonObject) -> None:
    write_errors(from_afar(str(answer.get("errors", ""))))

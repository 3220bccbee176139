"""The processes in which commands run: an own process, the shared process, and a server for a linked machine.

A host opens the memories and knows where the command was typed. Nothing heavy is imported before it is needed: many
commands end sooner than the engines would be imported.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from languages import N_
from memory_server.command_table import Command
from memory_server.kernel.values import frozen

if TYPE_CHECKING:
    from memory_server.config import Settings
    from memory_server.kernel.link import Link
    from memory_server.kernel.messages import Session
    from memory_server.runtime.app import App, CallerView
    from memory_server.runtime.runtime import Lifetime
    from memory_server.serving.http.principals import Principal

ASKER = N_("command")
"""The name under which the record of recalls has what a command recalls."""
CommandFunction = Callable[..., Coroutine[None, None, int | None]]
"""The function of a command: it takes what its row in the command table `opens`, and the flags. Returns an exit status,
for which None counts as 0."""


Parse = Callable[[Sequence[str]], Namespace]
"""Parses a command line into flags; exits, as argparse does, if the command line cannot be used."""


class OwnProcess:
    """The process of a single command, which opens the memories for it and ends with it. `folder` is where the command
    was typed, or None for the folder of this process. `lasts`: the process goes on after the command."""

    folder: Path | None = None
    lasts = False

    def view(
        self,
        settings: Settings,
        session: Session | None = None,
        lifetime: Lifetime | None = None,
    ) -> CallerView:
        """Return the memories for a command, to be opened with `async with`. `lifetime` says how long they are used;
        None means that the process lasts."""
        from memory_server.runtime.app import App
        from memory_server.runtime.runtime import LASTING, Runtime

        runtime = Runtime(settings, lifetime or LASTING)
        return App(settings, runtime=runtime, session=session, asker=ASKER)

    def link(self, settings: Settings) -> Link | None:
        """Return the server whose memories the command uses, or None if it uses the memories of this machine."""
        from memory_server.process.linked_server import link_of

        return link_of(settings)


@frozen
class SharedProcess:
    """The shared process, which has the memories open in `app` and runs the commands of others, typed in `folder`."""

    app: App
    folder: Path
    lasts = True

    def view(
        self,
        settings: Settings,
        session: Session | None = None,
        lifetime: Lifetime | None = None,
    ) -> CallerView:
        """Return a view of the open memories for one command."""
        # Without `lifetime`: the memories stay open after the command.
        return self.app.view(settings, folder=self.folder, session=session, asker=ASKER)

    def link(self, settings: Settings) -> Link | None:
        return self.app.home.link.read()


@frozen
class ServerForOthers:
    """A server that has the memories of a token open in `app`, and runs the commands of linked machines.

    `caller_folder`: where the command was typed, by the name that the folder has on all machines. No folder of the
    server is the project of a caller.
    """

    app: App
    caller_folder: str | None
    asker: str = ASKER
    folder = Path("/")
    lasts = True

    def view(
        self,
        settings: Settings,
        session: Session | None = None,
        lifetime: Lifetime | None = None,
    ) -> CallerView:
        """Return a view for one command, with the folder that its caller named. The memories stay
        open after the command, whatever `lifetime` is."""
        # Without `lifetime`: the memories stay open after the command.
        view = self.app.view(
            settings, folder=self.folder, elsewhere=True, session=session, asker=self.asker
        )
        asker_there = {**view.call.asker, "cwd": self.caller_folder}
        view.call = replace(view.call, asker=asker_there, folder=self.caller_folder)
        return view

    def link(self, settings: Settings) -> Link | None:
        return None


Host: TypeAlias = OwnProcess | SharedProcess | ServerForOthers
"""The process in which commands run."""


def settings_of(app: App, caller: Principal) -> Settings:
    """Return the settings of `app`, with the conversation and the time zone of the caller."""
    settings = app.settings
    if caller.usual is not None:
        settings = settings.model_copy(update={"conversation": caller.usual})
    if caller.timezone is not None:
        settings = settings.in_zone(caller.timezone)
    return settings


def function_of(command: Command) -> CommandFunction:
    """Import the function of a command."""
    _module, _dot, name = command.run.rpartition(".")
    function: CommandFunction = getattr(import_module(_module_of(command)), name)
    return function


async def imported(command: Command, host: Host) -> CommandFunction:
    """Import the function of a command. Its first import takes as long as a hook waits for its answer, so other clients
    of the host must not wait for it."""
    if host.lasts and _module_of(command) not in sys.modules:
        await asyncio.to_thread(function_of, command)
    return function_of(command)


def _module_of(command: Command) -> str:
    module, _dot, _name = command.run.rpartition(".")
    return f"memory_server.cli.{module}"

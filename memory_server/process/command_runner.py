"""Runs a command of the command line: in a process of its own, in the shared process, and on a server for a linked
machine. What differs is the host, which opens the memories and knows where the command was typed.

The command line has been parsed, and its settings have been read. Nothing heavy is imported before it is needed: many
commands end sooner than the engines would be imported.
"""

from __future__ import annotations

import argparse
import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from languages import ENGLISH, _, speaking, spoken
from memory_server.command_table import SETTING_FLAGS, Command
from memory_server.kernel.errors import InvalidInput, MemoryServerError
from memory_server.kernel.readers import AT_A_SHELL
from memory_server.kernel.streams import complain, write

if TYPE_CHECKING:
    from memory_server.config import Settings
    from memory_server.process.hosts import Host


async def run_command(settings: Settings, flags: Namespace, host: Host) -> int:
    """Run the command of `flags` in this process, and return its exit status. What it prints goes to `CAPTURED_IO`, or
    to the streams of the process, in the language of this context; what programs read is English.

    Raises:
        MemoryServerError: the command failed.
    """
    with speaking(ENGLISH if prints_json(flags) else spoken()):
        return await _run(settings, flags, host)


async def _run(settings: Settings, flags: Namespace, host: Host) -> int:
    """Run the command of the flags, and return its exit status, 0 if it gives none. If this machine
    is linked to a server, a command asks that server, unless it is marked to run `here`."""
    # Only here, because this room is imported before it is known that asyncio needs no `ssl`.
    from memory_server.process.hosts import imported

    command: Command = flags.command

    AT_A_SHELL.set(not command.for_tools)
    if command.linked != "here":
        link = host.link(settings)
        if link is not None:
            from memory_server.process import linked_commands

            return await linked_commands.run(link, settings, flags, host)
    function = await imported(command, host)

    status: int | None
    if command.opens == "view":
        async with host.view(settings) as view:
            status = await function(view, flags)
    elif command.opens == "host":
        status = await function(settings, flags, host)
    else:
        status = await function(settings, flags)

    return status or 0


def prints_json(flags: Namespace) -> bool:
    """Return whether a program reads what the command prints, which is then English."""
    return bool(getattr(flags, "json", False)) or (flags.command.name == "call" and not flags.text)


def understood(flags: argparse.Namespace, environ: Mapping[str, str]) -> tuple[Command, Settings]:
    """Return the command and its settings. Raise InvalidInput if a setting cannot be used, or `read_only` forbids the
    command."""
    from memory_server import config
    from memory_server.runtime.homes import home_of

    names = {flag.setting for flag in SETTING_FLAGS.values()} - {"config", "tenant"} | {"read_only"}
    typed = {name: getattr(flags, name) for name in names if hasattr(flags, name)}

    file = None
    if hasattr(flags, "config"):
        file = Path(flags.config)
    settings = config.load(environ, typed, file)

    command: Command = flags.command

    # A command for a tenant works with the settings of that tenant's folder.
    if hasattr(flags, "tenant") and command.tenant != "its own":
        home = home_of(settings, lambda: 0)
        try:
            if command.tenant != "may be new" and not home.has_tenant(flags.tenant):
                tenants = ", ".join(home.tenant_names()) or _("none")
                raise InvalidInput(
                    "There is no tenant {tenant}; the tenants are: {known}.", flags.tenant, tenants
                )
            settings = settings.model_copy(update=home.settings_of(flags.tenant))
        finally:
            home.close()

    refuse_where_read_only(settings, flags)
    return command, settings


def refuse_where_read_only(settings: Settings, flags: argparse.Namespace) -> None:
    """Raise ReadOnly for a command that changes memories if `read_only` is set; a dry run changes none."""
    command: Command = flags.command
    if command.changes == "memories" and not getattr(flags, "dry_run", False):
        settings.refuse_change(command.name)


def leave(status: int) -> NoReturn:
    """End the process at once. Everything is written; Python would free its memory piece by piece, which takes longer
    than a client waits before it kills the process."""
    import logging

    logging.shutdown()
    os._exit(status)


def refuse(error: MemoryServerError, flags: Namespace) -> int:
    """Say why a command failed, as JSON if its result would be JSON. Return its exit status: 2 for InvalidInput,
    otherwise 1."""
    if flags.command.name in ("recall", "remember") and flags.json:
        from memory_server.serving.http.refusals import refused_for

        write({"error": {"kind": refused_for(error).kind, "message": str(error)}})
    else:
        complain(str(error.sentence))
    if isinstance(error, InvalidInput):
        return 2
    return 1

"""Show or end the processes that windows share (`daemon`), and tell other commands about them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from argparse import Namespace
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from languages import _, counted
from memory_server.cli.terminal import console, say
from memory_server.config import Settings
from memory_server.process import protocol
from memory_server.process.protocol import STATUS, STOP, CannotShare


async def daemon(settings: Settings, flags: Namespace) -> int:
    """Show the shared processes of this user, or end them. Return 0."""
    out = console()
    processes = running()
    if not processes:
        say("No shared process is running; a client starts one with `memory-server serve`.")
    for socket_path, facts in processes:
        if flags.action == STOP and facts:
            out.print(await _stopped(socket_path, facts))
        else:
            out.print(describe(socket_path, facts))
    return 0


async def _stopped(socket_path: Path, facts: dict[str, Any]) -> str:
    """End a shared process and return a sentence about it."""
    try:
        await asyncio.to_thread(answer_at, socket_path, STOP)
    except TimeoutError:
        return describe(socket_path, {})
    except (OSError, CannotShare):
        pass  # it ended by itself
    return _("ended: {told}", describe(socket_path, facts))


def running() -> list[tuple[Path, dict[str, Any]]]:
    """List the shared processes of this user: the path of each socket, and the facts that the process tells. The
    facts are empty if the process does not answer."""
    if sys.platform == "win32":
        return []

    processes: list[tuple[Path, dict[str, Any]]] = []
    with suppress(
        CannotShare
    ):  # the folder of sockets cannot be used, so no process has a socket there
        for socket_path in sorted(Path(protocol.folder(os.environ)).glob("*.sock")):
            try:
                facts = json.loads(answer_at(socket_path, STATUS) or b"{}")
            except ConnectionRefusedError:
                continue  # it was killed
            except (OSError, CannotShare):
                facts = {}
            processes.append((socket_path, facts))
    return processes


def running_for(folder: str) -> list[tuple[Path, dict[str, Any]]]:
    """List the shared processes that use the memories of this folder, and the processes that do not answer, which may
    use them."""
    return [
        (socket_path, facts)
        for socket_path, facts in running()
        if facts.get("place", folder) == folder
    ]


def answer_at(socket_path: Path, role: str) -> bytes:
    """Return what the process at a socket answers to `STATUS`, or to `STOP` after it has ended. Raises OSError or
    CannotShare if it gives no answer."""
    with closing(protocol.connected(str(socket_path), protocol.CONNECT_SECONDS)) as connection:
        protocol.ask(connection, [protocol.PROTOCOL, "", role, "/", ""])
        return protocol.answer_of(connection).output


def describe(socket_path: Path, facts: dict[str, Any]) -> str:
    """Describe a shared process in a sentence. Its `facts` are empty if it does not answer."""
    log_path = socket_path.with_suffix(".log")
    if not facts:
        return _("does not answer; its log is {log}", log_path)
    since = datetime.fromtimestamp(facts["since"], UTC).astimezone()
    return _(
        "process {pid}, {windows}, since {since:%Y-%m-%d %H:%M}, memories in {place}, log {log}",
        facts["pid"],
        counted(facts["sessions"], "window"),
        since,
        facts["place"],
        log_path,
    )

"""`daemon` shows or ends the processes that windows share; other commands ask here what these do."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from argparse import Namespace
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_server.cli.terminal import console
from memory_server.config import Settings
from memory_server.shared_process import protocol
from memory_server.shared_process.protocol import STATUS, STOP, CannotShare
from sandbox.locale import _, counted


async def daemon(settings: Settings, flags: Namespace) -> int:
    out, found = console(), running()
    if not found:
        out.print(_("No shared process runs; a client starts one with `memory-server serve`."))
    for place, known in found:
        if flags.action == STOP and known:
            try:
                await asyncio.to_thread(answer_at, place, STOP)
            except TimeoutError:
                known = {}
            except (OSError, CannotShare):
                pass  # it ended by itself
            out.print(_("ended: {told}", describe(place, known)) if known else describe(place, known))
        else:
            out.print(describe(place, known))
    return 0


def running() -> list[tuple[Path, dict[str, Any]]]:
    """The shared processes of this user: each socket, and what it says of itself (empty: it does not answer)."""
    if sys.platform == "win32":
        return []
    found: list[tuple[Path, dict[str, Any]]] = []
    with suppress(CannotShare):  # the folder of sockets cannot be used, so no process has a socket there
        for place in sorted(Path(protocol.folder(os.environ)).glob("*.sock")):
            try:
                found.append((place, json.loads(answer_at(place, STATUS) or b"{}")))
            except ConnectionRefusedError:
                continue  # it was killed
            except (OSError, CannotShare):
                found.append((place, {}))
    return found


def running_for(folder: str) -> list[tuple[Path, dict[str, Any]]]:
    """The shared processes with the memories of this folder, and those that do not answer, which may have them."""
    return [(place, told) for place, told in running() if told.get("place", folder) == folder]


def answer_at(place: Path, role: str) -> bytes:
    """What the process at a socket answers to `STATUS`, or to `STOP` when it has ended. Raises OSError or
    CannotShare: it gives no answer."""
    with protocol.connected(str(place), protocol.CONNECT_SECONDS) as connection:
        protocol.ask(connection, [protocol.PROTOCOL, "", role, "/", ""])
        return protocol.answer_of(connection)[1]


def describe(place: Path, known: dict[str, Any]) -> str:
    if not known:
        return _("does not answer; its log is {log}", place.with_suffix(".log"))
    since = datetime.fromtimestamp(known["since"], UTC).astimezone()
    windows = counted(known["sessions"], "window")
    return _(
        "process {pid}, {windows}, since {since:%Y-%m-%d %H:%M}, memories in {place}, log {log}",
        known["pid"],
        windows,
        since,
        known["place"],
        place.with_suffix(".log"),
    )

"""`daemon`: shows or ends the processes that windows share."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_server import shim
from memory_server.cli.terminal import console
from memory_server.config import Settings
from sandbox.locale import _, counted

STATUS, STOP = "status", "stop"
"""What can be asked of a shared process besides the work of a client."""


def running() -> Iterator[tuple[Path, dict[str, Any]]]:
    """The shared processes of this user: each socket, and what it says of itself (empty: it does not answer)."""
    if sys.platform == "win32":
        return
    try:
        places = sorted(Path(shim.folder(os.environ)).glob("*.sock"))
    except shim.Doubt:
        return
    for place in places:
        try:
            yield place, json.loads(answer_at(place, STATUS) or b"{}")
        except ConnectionRefusedError:
            continue  # it was killed
        except (OSError, shim.Doubt):
            yield place, {}


def answer_at(place: Path, role: str) -> bytes:
    """What the process at a socket answers to `STATUS`, or to `STOP` when it has ended. Raises OSError, or shim.Doubt:
    nothing."""
    with shim.connected(str(place), shim.CONNECT_SECONDS) as connection:
        shim.ask(connection, [shim.PROTOCOL, "", role, "/", ""])
        return shim.answer_of(connection)[1]


def told(place: Path, known: dict[str, Any]) -> str:
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


async def daemon(settings: Settings, flags: Namespace) -> int:
    out, found = console(), list(running())
    if not found:
        out.print(_("No shared process runs; a client starts one with `memory-server serve`."))
    for place, known in found:
        if flags.action == STOP and known:
            try:
                await asyncio.to_thread(answer_at, place, STOP)
            except TimeoutError:
                known = {}
            except (OSError, shim.Doubt):
                pass  # it ended by itself
            out.print(_("ended: {told}", told(place, known)) if known else told(place, known))
        else:
            out.print(told(place, known))
    return 0

"""Asking the shared processes of this user what they do, or to end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_server.shared_process import protocol
from sandbox.locale import _, counted

STATUS, STOP = "status", "stop"
"""What can be asked of a shared process besides the work of a client."""


def running() -> Iterator[tuple[Path, dict[str, Any]]]:
    """The shared processes of this user: each socket, and what it says of itself (empty: it does not answer)."""
    if sys.platform == "win32":
        return
    try:
        places = sorted(Path(protocol.folder(os.environ)).glob("*.sock"))
    except protocol.CannotShare:
        return
    for place in places:
        try:
            yield place, json.loads(answer_at(place, STATUS) or b"{}")
        except ConnectionRefusedError:
            continue  # it was killed
        except (OSError, protocol.CannotShare):
            yield place, {}


def answer_at(place: Path, role: str) -> bytes:
    """What the process at a socket answers to `STATUS`, or to `STOP` when it has ended. Raises OSError, or Doubt: it
    gives no answer."""
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

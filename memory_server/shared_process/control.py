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

STATUS, STOP = "status", "stop"
"""What can be asked of a shared process besides the work of a client."""


def running() -> Iterator[tuple[Path, dict[str, Any]]]:
    """The shared processes of this user: each socket, and what it says of itself (empty: it does not answer)."""
    if sys.platform == "win32":
        return
    try:
        places = sorted(Path(protocol.folder(os.environ)).glob("*.sock"))
    except protocol.Doubt:
        return
    for place in places:
        try:
            yield place, json.loads(answer_at(place, STATUS) or b"{}")
        except ConnectionRefusedError:
            continue  # it was killed
        except (OSError, protocol.Doubt):
            yield place, {}


def answer_at(place: Path, role: str) -> bytes:
    """What the process at a socket answers to `STATUS`, or to `STOP` when it has ended. Raises OSError, or Doubt: it
    gives no answer."""
    with protocol.connected(str(place), protocol.CONNECT_SECONDS) as connection:
        protocol.ask(connection, [protocol.PROTOCOL, "", role, "/", ""])
        return protocol.answer_of(connection)[1]


def told(place: Path, known: dict[str, Any]) -> str:
    if not known:
        return f"does not answer; its log is {place.with_suffix('.log')}"
    since = datetime.fromtimestamp(known["since"], UTC).astimezone()
    windows = "1 window" if known["sessions"] == 1 else f"{known['sessions']} windows"
    return (
        f"process {known['pid']}, {windows}, since {since:%Y-%m-%d %H:%M}, memories in {known['place']}, "
        f"log {place.with_suffix('.log')}"
    )

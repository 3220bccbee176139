"""`pause` and `resume`: a time in which nothing is stored and hooks do not recall."""

from __future__ import annotations

import re
from argparse import Namespace

from memory_server.app import App
from memory_server.cli.terminal import console
from memory_server.core.errors import InvalidInput
from memory_server.core.model import LAST_MS
from memory_server.core.pause import Pause

_DURATION = re.compile(r"([0-9]{1,9}) ?(m|h|d)")
_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


async def pause(app: App, flags: Namespace) -> None:
    """Begin a pause, or change the end of the present one."""
    made = _pause(flags.for_, app.clock())
    app.home.pause.write(made)
    console().print(f"Memory is {made.text(app.settings.zone)}: nothing is stored, and hooks do not recall.")


async def resume(app: App, _flags: Namespace) -> None:
    """End the pause."""
    paused = app.paused()
    app.home.pause.remove()
    console().print("Memory goes on." if paused else "Memory was not paused.")


def _pause(duration: str | None, now_ms: int) -> Pause:
    """The pause that begins at `now_ms` and lasts for `duration`: `30m`, `2h`, `3d`; None: until it is ended. Raises
    InvalidInput if that is not a duration, or longer than dates can show."""
    if duration is None:
        return Pause()
    found = _DURATION.fullmatch(duration.strip())
    until_ms = now_ms + int(found[1]) * _UNIT_MS[found[2]] if found else 0
    if not now_ms < until_ms <= LAST_MS:
        raise InvalidInput(f"`{duration}` is not a duration; write a number and m, h or d, such as 30m, 2h or 3d.")
    return Pause(until_ms)

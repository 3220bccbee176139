"""`daemon`: shows or ends the processes that windows share."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from memory_server.cli.terminal import console
from memory_server.config import Settings
from memory_server.shared_process.control import STOP, answer_at, running, told
from memory_server.shared_process.protocol import Doubt


async def daemon(settings: Settings, flags: Namespace) -> int:
    out, found = console(), list(running())
    if not found:
        out.print("No shared process runs; a client starts one with `memory-server serve`.")
    for place, known in found:
        if flags.action == STOP and known:
            try:
                await asyncio.to_thread(answer_at, place, STOP)
            except TimeoutError:
                known = {}
            except (OSError, Doubt):
                pass  # it ended by itself
            out.print(f"ended: {told(place, known)}" if known else told(place, known))
        else:
            out.print(told(place, known))
    return 0

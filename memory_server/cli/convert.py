"""`convert`: memories of one form as a file of another; nothing is stored."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from memory_server.app import App
from memory_server.cli.export import report_written, write
from memory_server.cli.reading import TRUSTED, checked, dated, read_memories, report
from memory_server.cli.terminal import console
from memory_server.config import Settings


async def convert(settings: Settings, flags: Namespace) -> int:
    """Read, write and report; 1 if nothing could be used: then nothing is written."""
    async with App(settings, brief=True) as app:
        found, form = await read_memories(app, flags, app.conversation(None).id)
        if form not in TRUSTED:
            await checked(app, found, keep=True)
            if flags.to != "pack":  # not packs: the same lorebook should always make the same pack
                dated(found, app.clock())
    if found.count:
        size = await asyncio.to_thread(write, found.conversations, flags, settings, app.clock())
        report_written(found.conversations, flags, size)
    report(console(stderr=flags.target == "-"), found)
    return 0 if found.count else 1

"""`repair`: mend now what the next use of a conversation would mend, and report every step."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import complain, console, progress
from memory_server.config import Settings
from memory_server.core.errors import StorageError


async def repair_(settings: Settings, flags: Namespace) -> int:
    """Mend every conversation, or one; 1 if one could not be mended."""
    if not flags.dry_run:
        settings.refuse_change("repair")
    out, failed, mended = console(), 0, 0
    async with App(settings) as app:
        wanted = None if flags.conversation_id is None else app.conversation(flags.conversation_id).id
        repairs = await asyncio.to_thread(app.home.repairs, wanted, dry_run=flags.dry_run)
        with progress("repairing", len(repairs)) as bar:
            for repair in repairs:
                try:
                    found = await asyncio.to_thread(repair)
                except StorageError as error:
                    complain(str(error))
                    failed += 1
                    found = None
                if found is not None:
                    mended += 1
                    out.print(f"[bold]{escape(found.conversation_id)}[/]{' (nothing is changed yet)' * flags.dry_run}")
                    for step in found.steps:
                        out.print(f"  {escape(step)}")
                    if not flags.dry_run:
                        out.print(f"  The files as they were are in {escape(str(found.kept_in))}.")
                bar.advance(bar.task_ids[0])
    if not mended and not failed:
        out.print("Nothing is broken.")
    return 1 if failed else 0

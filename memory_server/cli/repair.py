"""`repair`: save what broken files hold, record by record, and say exactly what was done."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import complain, console, progress
from memory_server.config import Settings
from memory_server.core.errors import StorageError
from memory_server.storage.json_store import quarantine, repair
from memory_server.storage.json_store.conversation_files import conversation_id_in
from memory_server.storage.partition import folders


async def repair_(settings: Settings, flags: Namespace) -> int:
    """Mend every conversation, or one; 1 where one could not be."""
    if not flags.dry_run:
        settings.refuse_change("repair")
    async with App(settings) as app:
        subfolders = await asyncio.to_thread(folders.subfolders, app.data_dir)
        wanted = None if flags.conversation_id is None else app.conversation(flags.conversation_id).id
        failed = mended = 0
        with progress("repairing", len(subfolders)) as bar:
            for folder in subfolders:
                try:
                    found = await asyncio.to_thread(_mended, folder, wanted, app.clock(), flags.dry_run)
                except (OSError, StorageError) as error:
                    complain(f"{folder.name} was left as it is: {error}")
                    failed += 1
                else:
                    if found is not None:
                        mended += 1
                        _print(found, folder, dry_run=flags.dry_run)
                bar.advance(bar.task_ids[0])
    if not mended and not failed:
        console().print("Nothing is broken.")
    return 1 if failed else 0


def _print(found: repair.Plan, folder: Path, *, dry_run: bool) -> None:
    out = console()
    out.print(f"[bold]{escape(found.conversation_id)}[/]{' (nothing is changed yet)' * dry_run}")
    for step in found.steps:
        out.print(f"  {escape(step)}")
    if not dry_run:
        out.print(f"  The files as they were are in {escape(str(folder / folders.PRIVATE / quarantine.BROKEN))}.")


def _mended(folder: Path, wanted: str | None, now_ms: int, dry_run: bool) -> repair.Plan | None:
    name = conversation_id_in(folder)
    if name is None or wanted not in (None, name):
        return None
    return repair.plan(folder) if dry_run else repair.mended(folder, now_ms)

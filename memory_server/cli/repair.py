"""`repair`: save what broken files hold, record by record, and say exactly what was done."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import complain, console, progress
from memory_server.config import Settings
from memory_server.core.errors import LockTimeout
from memory_server.storage.json_store import quarantine
from memory_server.storage.json_store.codec import NotARecord
from memory_server.storage.json_store.conversation_files import conversation_id_in
from memory_server.storage.partition import folders
from memory_server.storage.partition.locking import try_lock
from memory_server.upkeep import repair

WAIT_SECONDS = 10.0
"""How long a repair waits for a writer, as any writer does."""


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
                except (OSError, NotARecord, LockTimeout) as error:
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
    if dry_run:
        return repair.plan(folder)
    # Looked at first without the lock: whole conversations are neither waited for nor touched.
    if repair.plan(folder) is None:
        return None
    folders.make_folder(folder / folders.PRIVATE)
    with _locked(folder):
        found = repair.plan(folder)
        if found is not None:
            repair.carry_out(found, folder, now_ms)
        return found


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    path = folder / folders.PRIVATE / "lock"
    deadline = time.monotonic() + WAIT_SECONDS
    while (lock := try_lock(path)) is None:
        if time.monotonic() > deadline:
            raise LockTimeout(f"another process has been writing for more than {WAIT_SECONDS:g} s; try again.", path)
        time.sleep(0.02)
    try:
        yield
    finally:
        lock.release()

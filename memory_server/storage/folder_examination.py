"""Findings about a whole data folder: place, permissions, disk, clock, backups, conversations; changes nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from memory_server.core import times
from memory_server.core.backups import Backup, BackupNotFound
from memory_server.core.errors import StorageError
from memory_server.core.findings import Finding
from memory_server.storage.backups.files import BackupFolder
from memory_server.storage.folder_notes import FolderLedger, PauseNote
from memory_server.storage.json_store import examination
from memory_server.storage.json_store.examination import Said, open_to_others
from memory_server.storage.partition import folders

LOW_BYTES, FULL_BYTES = 200 * 1024 * 1024, 5 * 1024 * 1024
"""Free space below which a disk is low, and below which a compaction of some thousand memories no longer fits."""
CLOCK_MS = 60_000
"""How far behind the newest file the clock may be: file systems round, and other machines may write here."""


def examine_folder(data_dir: Path, now_ms: int) -> Iterator[Finding]:
    """The findings about the folder itself."""
    if data_dir.exists() and not data_dir.is_dir():
        yield Finding("error", "folder", f"{data_dir} is not a folder; choose another --data-dir.")
        return
    parts = {
        "folder": _folder(data_dir, now_ms),
        "disk": _disk(data_dir),
        "clock": _clock(data_dir, now_ms),
        "backups": _backups(data_dir),
    }
    for about, found in parts.items():
        yield from (Finding(grade, about, what) for grade, what in found)


def examine_conversation(data_dir: Path, folder: Path, now_ms: int) -> list[Finding]:
    """The findings about one subfolder; one that cannot be read is itself a finding."""
    try:
        return list(examination.examine(data_dir, folder, now_ms))
    except OSError as error:
        return [Finding("error", folder.name, f"{error.filename or folder} cannot be read: {error.strerror}.")]


def _folder(data_dir: Path, now_ms: int) -> Iterator[Said]:
    if not data_dir.exists():
        yield "note", f"{data_dir} does not exist yet; the first memory makes it."
    elif not os.access(data_dir, os.R_OK | os.X_OK):
        yield "error", f"{data_dir} cannot be read; check its owner and permissions."
    else:
        if not os.access(data_dir, os.W_OK):
            yield "error", f"{data_dir} cannot be written; check its owner and permissions."
        warned = list(open_to_others(data_dir))
        yield from warned or [("ok", f"{data_dir} is there and its owner's only")]
    if (pause := PauseNote(data_dir).read(now_ms)) is not None:
        yield "note", f"It is {pause.text(None)}: nothing that is said is kept, and no hook recalls."


def _disk(data_dir: Path) -> Iterator[Said]:
    free = shutil.disk_usage(next(place for place in (data_dir, *data_dir.parents) if place.exists())).free
    if free < FULL_BYTES:
        yield "error", f"The disk is full ({free:,} bytes free); nothing can be stored until there is room."
    elif free < LOW_BYTES:
        yield "warning", f"Only {free // 1024**2} MB are free; make room before writes are refused."
    else:
        yield "ok", f"{free / 1024**3:.1f} GB free"


def _clock(data_dir: Path, now_ms: int) -> Iterator[Said]:
    newest = 0
    for folder in folders.subfolders(data_dir):
        with contextlib.suppress(OSError):
            path = folder / folders.PRIVATE / "journal.jsonl"
            newest = max(newest, path.stat().st_mtime_ns // 1_000_000)
    last_run = FolderLedger(data_dir).last_run_ms()
    if newest > now_ms + CLOCK_MS:
        said = f"This clock says {times.iso(now_ms)}, but a journal was written at {times.iso(newest)}; set it."
        yield "warning", said
    elif last_run is not None and last_run > now_ms + CLOCK_MS:
        yield "warning", f"Upkeep ran at {times.iso(last_run)}, in the future; it will run again today."
    else:
        yield "ok", times.iso(now_ms)


def _backups(data_dir: Path) -> Iterator[Said]:
    place = data_dir / folders.PRIVATE / "backups"
    for path in sorted([*place.glob(".*.body"), *place.glob(".*.next")]):
        yield "note", f"{path} is a backup that is being made, or was cut short; then delete it."
    shelf = BackupFolder(place)
    found = shelf.listed()
    problems = [problem for backup in found if (problem := _fault(shelf, backup)) is not None]
    for problem in problems:
        yield "warning", f"{problem.split(' Nothing was changed')[0].rstrip('.')}; delete it."
    if found and not problems:
        yield "ok", f"{len(found)}, the newest of {times.iso(found[0].created_ms)}"
    if not found and data_dir.exists():
        yield "note", "There is none; `memory-server backup` makes one."


def _fault(shelf: BackupFolder, backup: Backup) -> str | None:
    """Why a backup cannot be restored; None if it can. Checks the whole file, as a restore does."""
    if backup.problem is not None:
        return f"The backup {backup.name} cannot be used: {backup.problem}."
    try:
        with shelf.open(backup.name):
            return None
    except (BackupNotFound, StorageError) as error:
        return str(error)

"""`doctor`: whether the data folder, the disk, the clock and the sandbox are as they should be. Changes nothing."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.markup import escape

from memory_server.app import NO_OPENCC, App
from memory_server.cli.terminal import console, progress
from memory_server.config import Settings
from memory_server.core.findings import Finding
from memory_server.core.phrases import counted
from memory_server.storage.folder_examination import examine_conversation, examine_folder, nearest
from memory_server.storage.json_store import codec
from memory_server.storage.partition import folders
from memory_server.trigger_runner import examine_sandbox
from memory_server.upkeep.maintenance import outdated_text
from memory_server.upkeep.race import PROCESSES, WRITES, race
from memory_server.version import __version__
from nlp.normal_forms import can_simplify

STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}


async def doctor(settings: Settings, flags: Namespace) -> int:
    """Print what was found; 1 where something is an error."""
    async with App(settings) as app:
        found = [finding async for finding in _examined(app)]
        if flags.race:
            found.append(await _raced(app.data_dir))
    failed = any(finding.grade == "error" for finding in found)
    if flags.json:
        sys.stdout.write(codec.dumps({"ok": not failed, "findings": list(map(asdict, found))}).decode() + "\n")
    else:
        _print(found)
    return 1 if failed else 0


async def _examined(app: App) -> AsyncIterator[Finding]:
    yield _versions()
    now_ms, data_dir = app.clock(), app.data_dir
    for finding in await asyncio.to_thread(lambda: list(examine_folder(data_dir, now_ms))):
        yield finding
    if data_dir.is_dir() and os.access(data_dir, os.R_OK | os.X_OK):
        subfolders = await asyncio.to_thread(folders.subfolders, data_dir)
        with progress("examining", len(subfolders)) as bar:
            for folder in subfolders:
                for finding in await asyncio.to_thread(examine_conversation, data_dir, folder, now_ms):
                    yield finding
                bar.advance(bar.task_ids[0])
        yield await _words(app)
    yield await examine_sandbox(app.sandbox)


async def _words(app: App) -> Finding:
    if outdated := await app.conversations.outdated():
        return Finding("note", "words", outdated_text(outdated))
    if app.settings.words.simplified and not can_simplify():
        return Finding("note", "words", NO_OPENCC)
    return Finding("ok", "words", "all memories were indexed with the settings of now")


def _versions() -> Finding:
    names = ("mcp", "mini-racer", "jieba", "rjieba", "orjson")
    found = [f"{name} {known}" for name in names if (known := _version(name))]
    system = f"Python {platform.python_version()} on {platform.system()}"
    return Finding("ok", "versions", f"memory-server {__version__}, {system}, {', '.join(found)}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


async def _raced(data_dir: Path) -> Finding:
    beside = await asyncio.to_thread(nearest, data_dir)
    try:
        result = await race(beside)
    except OSError as error:
        return Finding("error", "race", f"No folder can be made in {beside}: {error.strerror}.")
    expected = PROCESSES * WRITES
    figures = f"{result.survived} of {expected} writes of {PROCESSES} processes at once survived"
    if result.acknowledged == result.survived == expected:
        return Finding("ok", "race", f"{figures} ({result.seconds:.1f} s)")
    if result.survived == result.acknowledged:
        refused = expected - result.acknowledged
        return Finding("error", "race", f"{refused} of {expected} writes were refused; of the others none is lost.")
    return Finding(
        "error",
        "race",
        f"{figures}, of {result.acknowledged} acknowledged; do not share {data_dir} between processes on this disk.",
    )


def _print(found: Sequence[Finding]) -> None:
    out = console()
    for finding in found:
        style = STYLES[finding.grade]
        out.print(f"[{style}]{finding.grade:<8}[/] {escape(finding.about)}: {escape(finding.what)}")
    counts = {grade: sum(finding.grade == grade for finding in found) for grade in STYLES}
    out.print(", ".join(counted(counts[grade], grade) for grade in ("error", "warning", "note")) + ".")

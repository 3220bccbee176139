"""`doctor`: whether the data folder, the disk, the clock and the sandbox are as they should be. Changes nothing."""

from __future__ import annotations

import asyncio
import platform
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

from rich.markup import escape

from memory_server.app import NO_OPENCC, App
from memory_server.cli.terminal import console, progress
from memory_server.config import Settings
from memory_server.core.findings import Finding
from memory_server.core.phrases import counted
from memory_server.storage.json_store import codec
from memory_server.trigger_runner import examine_sandbox
from memory_server.upkeep.maintenance import outdated_text
from memory_server.version import __version__
from nlp.normal_forms import can_simplify

STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}


async def doctor(settings: Settings, flags: Namespace) -> int:
    """Print what was found; 1 if something is an error."""
    async with App(settings) as app:
        found = [finding async for finding in _examined(app)]
        if flags.race:
            found.append(await app.home.race())
    failed = any(finding.grade == "error" for finding in found)
    if flags.json:
        sys.stdout.write(codec.dumps({"ok": not failed, "findings": list(map(asdict, found))}).decode() + "\n")
    else:
        _print(found)
    return 1 if failed else 0


async def _examined(app: App) -> AsyncIterator[Finding]:
    yield _versions()
    for finding in await asyncio.to_thread(app.home.examine):
        yield finding
    examinations = await asyncio.to_thread(app.home.examinations)
    with progress("examining", len(examinations)) as bar:
        for examine in examinations:
            for finding in await asyncio.to_thread(examine):
                yield finding
            bar.advance(bar.task_ids[0])
    if examinations:
        yield await _words(app)
    for finding in await app.knowledge.examine():
        yield finding
    yield await examine_sandbox(app.sandbox)


async def _words(app: App) -> Finding:
    if outdated := await app.conversations.outdated():
        return Finding("note", "words", outdated_text(outdated))
    if app.settings.words.simplified and not can_simplify():
        return Finding("note", "words", NO_OPENCC)
    return Finding("ok", "words", "all memories were indexed with the present settings")


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


def _print(found: Sequence[Finding]) -> None:
    out = console()
    for finding in found:
        style = STYLES[finding.grade]
        out.print(f"[{style}]{finding.grade:<8}[/] {escape(finding.about)}: {escape(finding.what)}")
    counts = {grade: sum(finding.grade == grade for finding in found) for grade in STYLES}
    out.print(", ".join(counted(counts[grade], grade) for grade in ("error", "warning", "note")) + ".")

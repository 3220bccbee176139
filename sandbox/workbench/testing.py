"""`trigger-sandbox test`: collect, choose, run, report; once, or again after every change of a file."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ..errors import SandboxError
from . import junit, reports
from .cases import Case, Unusable
from .files import UsageError
from .fixtures import Stamp, fixture_files, read_fixture, stamp
from .outcomes import Outcome
from .selection import Selection, SelectionError, selection
from .terminal import Terminal
from .trials import Zones, trials

EXIT_PASSED, EXIT_FAILED, EXIT_MISUSE = 0, 1, 2
TICK_MS = 200
"""Milliseconds after which the watcher looks whether it was interrupted."""
Run = Callable[[], int]
WATCHED = (".yaml", ".yml", ".json", ".jsonl", ".js", ".txt")


def test(options: argparse.Namespace) -> int:
    """Returns 0 when all cases hold, 1 when one does not, 2 when one cannot be run. Raises UsageError."""
    chosen = _chosen(options.k)
    report = Path(options.junit) if options.junit else None
    if report:
        junit.refuse_other_file(report)
    terminal = Terminal(sys.stdout)

    opened: dict[Path, Stamp] = {}

    def once() -> int:
        opened.clear()
        found = collect(fixture_files(options.paths), options.encoding, opened)
        return run(found, terminal, chosen, first_only=options.x, report=report)

    if not options.watch:
        return once()
    fixture_files(options.paths)
    return watch(once, changes(options.paths, opened), terminal)


def _chosen(expression: str | None) -> Selection | None:
    try:
        return selection(expression) if expression is not None else None
    except SelectionError as error:
        raise UsageError(f"-k: {error}") from error


def collect(
    files: Iterable[Path], encoding: str | None = None, opened: dict[Path, Stamp] | None = None
) -> list[Case | Unusable]:
    """The cases of all files; a file that cannot be used is one that cannot be run. `opened`: as for read_fixture."""
    found: list[Case | Unusable] = []
    for path in files:
        try:
            found += read_fixture(path, encoding, opened)
        except UsageError as error:
            found.append(Unusable(str(path), None, path.name, str(error)))
    return found


def run(
    found: Sequence[Case | Unusable],
    terminal: Terminal,
    chosen: Selection | None = None,
    *,
    first_only: bool = False,
    report: Path | None = None,
) -> int:
    """Runs the chosen cases and prints what came out. Returns the exit code. Raises UsageError."""
    cases = [case for case in found if chosen is None or chosen(f"{case.file} {case.name}")]
    if not cases:
        raise UsageError(f"-k chose none of the {len(found)} cases; give a part of a case's name")
    progress = reports.Progress(terminal, cases)
    progress.begin()
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    try:
        asyncio.run(_perform(cases, outcomes, progress, first_only=first_only))
    except* SandboxError as group:
        error = group.exceptions[0]
        if report:
            junit.write(report, [*outcomes, *_not_run(cases[len(outcomes) :], str(error))])
        progress.end()
        raise UsageError(str(error)) from error
    progress.end()
    reports.failures(terminal, outcomes)
    stopped = len(outcomes) < len(cases)
    reports.summary(terminal, outcomes, time.perf_counter() - started, len(found) - len(cases), stopped)
    if report:
        junit.write(report, outcomes)
    if any(outcome.error for outcome in outcomes):
        return EXIT_MISUSE
    return EXIT_PASSED if all(outcome.passed for outcome in outcomes) else EXIT_FAILED


async def _perform(
    cases: Sequence[Case | Unusable], outcomes: list[Outcome], progress: reports.Progress, *, first_only: bool
) -> None:
    """Adds to `outcomes` as they come, so that what was seen is known also when the sandbox gives up."""
    async with Zones() as zones:
        async for outcome in trials(cases, zones):
            outcomes.append(outcome)
            progress.mark(outcome)
            if first_only and not outcome.passed:
                break


def _not_run(cases: Iterable[Case | Unusable], reason: str) -> list[Outcome]:
    """CI shows its report: that no trigger could be run must stand there, and not nothing."""
    return [Outcome(Unusable(case.file, case.line, case.name, reason), (reason,), 0.0) for case in cases]


def changes(paths: Sequence[str], opened: dict[Path, Stamp]) -> Iterable[object]:
    """One item after each change of a watched file from now on; ends never. Files are watched through their folders.

    `opened`: files that the fixtures name, wherever they are, as they were when they were read. A folder of theirs may
    be large, so these are looked at one by one.
    """
    from watchfiles import watch as watch_files

    folders = {Path(name) if Path(name).is_dir() else Path(name).parent for name in paths}
    ticks = watch_files(
        *folders,
        watch_filter=lambda _, name: name.endswith(WATCHED),
        yield_on_timeout=True,
        rust_timeout=TICK_MS,
    )
    next(ticks)  # watching begins with the first item: a change during the first run must not be lost
    return (changed for changed in ticks if _differ(opened) or changed)


def _differ(opened: dict[Path, Stamp]) -> bool:
    """Whether one was changed; each change is told once, also when nothing reads the file again."""
    now = {path: stamp(path) for path in opened}
    changed = now != opened
    opened.update(now)
    return changed


def watch(once: Run, again: Iterable[object], terminal: Terminal) -> int:
    """Runs now and after each change. Returns the last exit code when it is interrupted."""
    code = _spoken(once, terminal)
    terminal.say("\nwatching; Ctrl-C ends it", "faint")
    for _ in again:
        terminal.say()
        code = _spoken(once, terminal)
        terminal.say("\nwatching; Ctrl-C ends it", "faint")
    return code


def _spoken(once: Run, terminal: Terminal) -> int:
    """A file that is half written now may be whole after the next change."""
    try:
        return once()
    except UsageError as error:
        terminal.say(f"trigger-sandbox: {error}", "red")
        return EXIT_MISUSE

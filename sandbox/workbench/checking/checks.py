"""`trigger-sandbox check` and `pack check`: all errors and warnings of triggers, and with --time how long they take."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.language import term
from sandbox.verdicts import CheckReport, Failed, Problem
from sandbox.workbench.chat_replay import Replay
from sandbox.workbench.fixtures.outcomes import said
from sandbox.workbench.sources.files import read_chat
from sandbox.workbench.sources.packs import NamedTrigger, say_unusable, triggers_of
from sandbox.workbench.terminal import Terminal, bar, cells, counted, fit
from sandbox.workbench.usage import UsageError, settled

EXIT_FINE, EXIT_PROBLEMS, EXIT_MISUSE = 0, 1, 2
AT_ONCE = 200
"""Triggers in one request: they share its time, and one that runs out of it is tried again alone."""
FEW = 50
"""As many triggers as one worker checks while a second one starts."""


SAMPLES = 12
"""Messages of the chat at which triggers are timed, evenly spread."""
RUNS = 40
"""Runs of one trigger in one request: the clock of a search has steps of 1 ms, and most triggers take less."""
_MOST_NAME = 40


def check(options: argparse.Namespace) -> int:
    """Returns 1 when there is an error or a warning, 2 when a memory of a pack cannot be used. Raises UsageError."""
    now = datetime.now().astimezone()
    triggers, unusable = triggers_of(options.files, options.encoding, code=options.code)
    found = _checked(triggers, now)
    errors, warnings = sum(len(one.errors) for one in found), sum(len(one.warnings) for one in found)
    summary = f"{counted(len(found), 'trigger')}: {_count(errors, 'error')}, {_count(warnings, 'warning')}"
    _show(
        triggers,
        unusable,
        found,
        summary,
        "red" if errors else "yellow" if warnings else "green",
        json_rows=options.json,
    )
    terminal = Terminal(sys.stderr if options.json else sys.stdout)
    timed = not options.time or show_times(terminal, triggers, options.time, options.encoding, now)
    if unusable:
        return EXIT_MISUSE
    return EXIT_PROBLEMS if errors or warnings or not timed else EXIT_FINE


def check_pack(options: argparse.Namespace) -> int:
    """Returns 1 when a trigger of a pack has an error, 2 when a memory cannot be used. Raises UsageError."""
    triggers, unusable = triggers_of(options.packs, packs=True)
    started = time.perf_counter()
    found = _checked(triggers, datetime.now().astimezone())
    errors, warnings = sum(bool(one.errors) for one in found), sum(bool(one.warnings) for one in found)
    summary = f"{counted(len(found), 'trigger')}: {errors} with errors, {warnings} with warnings"
    summary += f" ({time.perf_counter() - started:.2f} s)"
    _show(triggers, unusable, found, summary, "red" if errors else "green", json_rows=options.json)
    return EXIT_MISUSE if unusable else EXIT_PROBLEMS if errors else EXIT_FINE


def _checked(triggers: Sequence[NamedTrigger], now: datetime) -> list[CheckReport]:
    """Everything known about each trigger, in order. Raises UsageError when nothing can be run here."""
    sources = [one.source for one in triggers]

    async def work() -> list[CheckReport]:
        found: list[CheckReport] = []
        async with TriggerSandbox(workers=None if len(sources) > FEW else 1) as sandbox:
            for begin in range(0, len(sources), AT_ONCE):
                found += await sandbox.check_all(sources[begin : begin + AT_ONCE], now=now, seed=0)
        return found

    return settled(work())


def _show(
    triggers: Sequence[NamedTrigger],
    unusable: Sequence[tuple[str, str]],
    found: Sequence[CheckReport],
    summary: str,
    style: str,
    *,
    json_rows: bool,
) -> None:
    """Prints the errors, then the warnings of each trigger, each with its place and its line."""
    terminal = Terminal(sys.stdout)
    if json_rows:
        wrong = [(name, CheckReport((Problem("unusable", about, None, None, ""),), ())) for name, about in unusable]
        rows = [_as_json("", name, report) for name, report in wrong]
        rows += [_as_json(one.name, one.file, report) for one, report in zip(triggers, found, strict=True)]
        terminal.show(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    say_unusable(terminal, unusable)
    several = len({one.file for one in triggers}) > 1
    for trigger, one in zip(triggers, found, strict=True):
        name = f"{trigger.file}: {trigger.name}" if several and trigger.name != trigger.file else trigger.name
        for color, label, problems in (("red", "error", one.errors), ("yellow", "warning", one.warnings)):
            for problem in problems:
                place = f" at line {problem.line}, column {problem.column}" if problem.line is not None else ""
                terminal.show(f"{name}: {term(label)}: {term(problem.message)} ({problem.kind}){term(place)}", color)
                for line in problem.caret.splitlines():
                    terminal.show(f"    {line}")
    terminal.show(term(summary), style)
    if unusable:
        terminal.say(f"{len(unusable)} more cannot be used", "red")


def _as_json(name: str, file: str, report: CheckReport) -> dict[str, Any]:
    def rows(problems: Sequence[Problem]) -> list[dict[str, Any]]:
        return [{"rule": row.pop("kind"), **row} for row in map(asdict, problems)]

    return {"file": file, "name": name, "errors": rows(report.errors), "warnings": rows(report.warnings)}


def _count(number: int, noun: str) -> str:
    return counted(number, noun) if number else f"no {noun}s"


def show_times(
    terminal: Terminal, triggers: Sequence[NamedTrigger], chat: str, encoding: str | None, now: datetime
) -> bool:
    """Prints the median and the longest time of each trigger, the slowest first. Returns whether all finished.

    Raises UsageError.
    """
    messages = read_chat(chat, encoding)
    if not messages:
        raise UsageError(f"{chat} has no messages; give a chat with some")
    found = settled(_measured([one.source for one in triggers], Replay(messages=messages, now=now)))
    timed = {one.name: ms for one, ms in zip(triggers, found, strict=True) if not isinstance(ms, str)}
    width = min(_MOST_NAME, max(map(cells, timed), default=0))
    terminal.show(f"{term('ms of one run'):<{width}}    {term('median')}   {term('slowest')}", "dim")
    for name, ms in sorted(timed.items(), key=lambda row: -max(row[1])):
        terminal.show(f"{fit(name, width)}  {statistics.median(ms):>8.3f}  {max(ms):>8.3f}")
    for one, failure in zip(triggers, found, strict=True):
        if isinstance(failure, str):
            terminal.say(f"{one.name}: not timed: {failure}", "red")
    return len(timed) == len(triggers)


async def _measured(sources: Sequence[str], replay: Replay) -> list[list[float] | str]:
    """The result of `_times` for each source; shows a progress bar."""
    scenes = replay.scenes()
    sample = [(number, scenes[number - 1]) for number in sampled(len(scenes))]
    found: list[list[float] | str] = []
    async with TriggerSandbox(workers=1) as sandbox:
        await sandbox.warm()  # its start does not count for a trigger
        with bar(len(sources), "triggers") as progress:
            for source in sources:
                found.append(await _times(sandbox, source, sample))
                progress(len(found))
    return found


async def _times(sandbox: TriggerSandbox, source: str, sample: Sequence[tuple[int, Scene]]) -> list[float] | str:
    """Milliseconds of one run at each message, or where and how the trigger failed."""
    found: list[float] = []
    for number, scene in sample:
        (alone,) = await sandbox.evaluate([source], scene.context, now=scene.now, seed=scene.seed)
        if isinstance(alone, Failed):
            return f"at #{number} it {said(alone)}"
        verdicts = await sandbox.evaluate([source] * RUNS, scene.context, now=scene.now, seed=scene.seed)
        # Many runs of a slow trigger use up the time of a request: runs that were stopped do not count.
        whole = [one.elapsed_us for one in verdicts if not isinstance(one, Failed)] or [alone.elapsed_us]
        found.append(sum(whole) / len(whole) / 1000)
    return found


def sampled(total: int) -> list[int]:
    """Message numbers from 1; the last one is always included."""
    count = min(SAMPLES, total)
    return [total * step // count for step in range(1, count + 1)]

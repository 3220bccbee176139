"""`trigger-sandbox check`: everything that is wrong with triggers, before anybody relies on them."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sandbox.errors import SandboxError
from sandbox.host.supervisor import TriggerSandbox
from sandbox.workbench.checking import findings
from sandbox.workbench.checking.findings import Findings, as_json, unusable_as_json
from sandbox.workbench.checking.pack_commands import show_findings
from sandbox.workbench.checking.timing import show_times
from sandbox.workbench.lint.linting import mended
from sandbox.workbench.sources.files import UsageError, write_files
from sandbox.workbench.sources.subjects import Subject, Subjects, say_unusable, subjects_of
from sandbox.workbench.terminal import Terminal

EXIT_FINE, EXIT_PROBLEMS, EXIT_MISUSE = 0, 1, 2


def check(options: argparse.Namespace) -> int:
    """Returns 1 when there is an error or a warning, 2 when a memory of a pack cannot be used. Raises UsageError."""
    now = datetime.now().astimezone()
    terminal = Terminal(sys.stderr if options.json else sys.stdout)
    given = _subjects(options)
    subjects = list(given.found)
    if options.fix:
        subjects = [_fixed(one, now, terminal) for one in subjects]
        _say_what_is_left(subjects, now, terminal)
    found = _found([one.source for one in subjects], now)
    if options.json:
        rows = [unusable_as_json(name, sentence) for name, sentence in given.unusable]
        rows += [as_json(one.name, one.file, row) for one, row in zip(subjects, found, strict=True)]
        Terminal(sys.stdout).say(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        say_unusable(terminal, given.unusable)
        _show(terminal, subjects, found)
        if given.unusable:
            terminal.say(f"{len(given.unusable)} more cannot be used", "red")
    timed = not options.time or show_times(terminal, subjects, options.time, options.encoding, now)
    if given.unusable:
        return EXIT_MISUSE
    return EXIT_PROBLEMS if not timed or any(one.errors or one.warnings for one in found) else EXIT_FINE


def _subjects(options: argparse.Namespace) -> Subjects:
    if options.code is not None:
        if options.files or options.fix:
            raise UsageError("-e takes no files and no --fix; check the code alone, or write it to a file")
        return Subjects((Subject("-e", options.code, "-e"),))
    if not options.files:
        raise UsageError("nothing to check; name a file, or give the trigger with -e")
    if options.fix and "-" in options.files:
        raise UsageError("--fix cannot change standard input; write the trigger to a file")
    return subjects_of(options.files, options.encoding)


def _fixed(subject: Subject, now: datetime, terminal: Terminal) -> Subject:
    """Writes the file when something was fixed, never otherwise."""
    if subject.own is None:
        return subject
    text, count = mended(subject.own.text, now)
    if not count:
        return subject
    write_files([(subject.own.path, subject.own.with_text(text))], force=True)
    terminal.say(f"{subject.name}: fixed {_count(count, 'finding')}", "green")
    return replace(subject, source=text.replace("\r\n", "\n"))


def _say_what_is_left(subjects: Sequence[Subject], now: datetime, terminal: Terminal) -> None:
    """A pack is not changed, and its author asked for it."""
    for name in dict.fromkeys(one.file for one in subjects if one.own is None):
        left = sum(mended(one.source, now)[1] for one in subjects if one.file == name)
        if left:
            what = "one finding" if left == 1 else f"{left} findings"
            terminal.say(
                f"{name}: --fix does not change packs; {what} in it would be fixed in a trigger file", "yellow"
            )


def _found(sources: Sequence[str], now: datetime) -> list[Findings]:
    async def all_of_them() -> list[Findings]:
        async with TriggerSandbox() as sandbox:
            return await findings.of_sources(sandbox, sources, now)

    try:
        return asyncio.run(all_of_them())
    except SandboxError as error:
        raise UsageError(str(error)) from error


def _show(terminal: Terminal, subjects: Sequence[Subject], found: Sequence[Findings]) -> None:
    for subject, one in zip(subjects, found, strict=True):
        show_findings(terminal, subject.name, one)
    count = len(subjects)
    errors, warnings = sum(len(one.errors) for one in found), sum(len(one.warnings) for one in found)
    text = f"{count} trigger{'' if count == 1 else 's'}: {_count(errors, 'error')}, {_count(warnings, 'warning')}"
    terminal.say(text, "red" if errors else "yellow" if warnings else "green")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"

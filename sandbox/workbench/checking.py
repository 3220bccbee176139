"""`trigger-sandbox check`: everything that is wrong with triggers, before anybody relies on them."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ..errors import SandboxError
from ..supervisor import TriggerSandbox
from . import findings
from .files import TextFile, UsageError, read_file, read_text, write_files
from .findings import Findings, as_json
from .lint.linting import mended
from .pack_commands import show_findings
from .packs import read_pack
from .terminal import Terminal

EXIT_FINE, EXIT_PROBLEMS = 0, 1


@dataclass(frozen=True, slots=True)
class Subject:
    """One trigger. `file`: that holds it; `own`: the same where it holds nothing else, and --fix may change it."""

    name: str
    source: str
    file: str
    own: TextFile | None = None

    @property
    def path(self) -> Path | None:
        """Of a file of its own."""
        return self.own.path if self.own else None


def check(options: argparse.Namespace) -> int:
    """Returns 1 when there is an error or a warning. Raises UsageError."""
    now = datetime.now().astimezone()
    terminal = Terminal(sys.stderr if options.json else sys.stdout)
    subjects = _subjects(options)
    if options.fix:
        subjects = [_fixed(one, now, terminal) for one in subjects]
        _say_what_is_left(subjects, now, terminal)
    found = _found([one.source for one in subjects], now)
    if options.json:
        rows = [as_json(one.name, one.file, row) for one, row in zip(subjects, found, strict=True)]
        Terminal(sys.stdout).say(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        _show(terminal, subjects, found)
    return EXIT_PROBLEMS if any(one.errors or one.warnings for one in found) else EXIT_FINE


def _subjects(options: argparse.Namespace) -> list[Subject]:
    if options.code is not None:
        if options.files or options.fix:
            raise UsageError("-e takes no files and no --fix; check the code alone, or write it to a file")
        return [Subject("-e", options.code, "-e")]
    if not options.files:
        raise UsageError("nothing to check; name a file, or give the trigger with -e")
    if options.fix and "-" in options.files:
        raise UsageError("--fix cannot change standard input; write the trigger to a file")
    found: list[Subject] = []
    for name in options.files:
        found += subjects_of(name, options.encoding)
    return found


def subjects_of(name: str, encoding: str | None = None) -> list[Subject]:
    """The triggers of a pack (`.json`), or the one of a file; `-` is standard input. Raises UsageError."""
    if name.endswith(".json"):
        return [Subject(memory.name, memory.trigger, name) for memory in read_pack(name, encoding)]
    if name == "-":
        return [Subject(name, read_text(name, encoding), name)]
    own = read_file(name, encoding)
    return [Subject(name, own.text.replace("\r\n", "\n"), name, own)]


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

"""`trigger-sandbox check`: everything that is wrong with triggers, before anybody relies on them."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import SandboxError
from ..supervisor import TriggerSandbox
from ..verdicts import Problem
from . import findings, syntax
from .files import UsageError, read_text, write_files
from .findings import Findings
from .lint.linting import fixed, plain_findings
from .lint.switches import switched
from .pack_commands import show_findings
from .packs import read_pack
from .terminal import Terminal

EXIT_FINE, EXIT_PROBLEMS = 0, 1


@dataclass(frozen=True, slots=True)
class Subject:
    """One trigger. `path`: a file of its own that --fix may change."""

    name: str
    source: str
    path: Path | None = None


def check(options: argparse.Namespace) -> int:
    """Returns 1 when there is an error or a warning. Raises UsageError."""
    now = datetime.now().astimezone()
    terminal = Terminal(sys.stderr if options.json else sys.stdout)
    subjects = _subjects(options)
    if options.fix:
        subjects = [_fixed(one, now, terminal) for one in subjects]
    found = _found([one.source for one in subjects], now)
    if options.json:
        rows = [_row(*one) for one in zip(subjects, found, strict=True)]
        Terminal(sys.stdout).say(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        _show(terminal, subjects, found)
    return EXIT_PROBLEMS if any(one.errors or one.warnings for one in found) else EXIT_FINE


def _subjects(options: argparse.Namespace) -> list[Subject]:
    if options.code is not None:
        if options.files or options.fix:
            raise UsageError("-e takes no files and no --fix; check the code alone, or write it to a file")
        return [Subject("-e", options.code)]
    if not options.files:
        raise UsageError("nothing to check; name a file, or give the trigger with -e")
    found: list[Subject] = []
    for name in options.files:
        found += subjects_of(name, options.encoding)
    return found


def subjects_of(name: str, encoding: str | None = None) -> list[Subject]:
    """The triggers of a pack (`.json`), or the one of a file; `-` is standard input. Raises UsageError."""
    if name.endswith(".json"):
        return [Subject(memory.name, memory.trigger) for memory in read_pack(name)]
    # Only UTF-8 is written back.
    path = Path(name) if name != "-" and encoding is None else None
    return [Subject(name, read_text(name, encoding), path)]


def _fixed(subject: Subject, now: datetime, terminal: Terminal) -> Subject:
    """Writes the file when something was fixed, never otherwise."""
    if subject.path is None:
        return subject
    source = syntax.parse(subject.source)
    text, count = fixed(source, switched(source, plain_findings(source, now)))
    if not count:
        return subject
    write_files([(subject.path, text)], force=True)
    terminal.say(f"{subject.name}: fixed {count} finding{'' if count == 1 else 's'}", "green")
    return Subject(subject.name, text, subject.path)


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


def _row(subject: Subject, found: Findings) -> dict[str, Any]:
    return {
        "name": subject.name,
        "errors": [_problem(one) for one in found.errors],
        "warnings": [_problem(one) for one in found.warnings],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {"rule": problem.kind, "message": problem.message, "line": problem.line, "column": problem.column}

"""`trigger-sandbox pack check|test|list|show`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sandbox.errors import SandboxError
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Problem
from sandbox.workbench.checking import findings
from sandbox.workbench.checking.findings import Findings, as_json, unusable_as_json
from sandbox.workbench.fixtures import testing
from sandbox.workbench.fixtures.cases import Case, Unusable
from sandbox.workbench.fixtures.forms import fixtures_beside
from sandbox.workbench.sources.files import UsageError
from sandbox.workbench.sources.packs import Memory, memory_named, read_usable
from sandbox.workbench.sources.subjects import say_unusable
from sandbox.workbench.terminal import Terminal, cells, fit

EXIT_FINE, EXIT_PROBLEMS, EXIT_MISUSE = 0, 1, 2
FEW = 50
"""Triggers that one worker checks in the time that a second one takes to start."""
_MOST_NAME_CELLS = 28


def check_pack(options: argparse.Namespace) -> int:
    """Returns 1 when a trigger of a pack has an error, 2 when a memory cannot be used. Raises UsageError."""
    terminal = Terminal(sys.stdout)
    packs = [(name, *read_usable(name)) for name in options.packs]
    started = time.perf_counter()
    errors = warnings = count = 0
    unusable = 0
    rows: list[dict[str, Any]] = []
    for name, found, wrong in packs:
        unusable += len(wrong)
        for sentence in wrong:
            if options.json:
                rows.append(unusable_as_json(name, sentence))
            else:
                say_unusable(terminal, [(name, sentence)])
        for memory, one in zip(found, check_all(found), strict=True):
            count += 1
            errors += bool(one.errors)
            warnings += bool(one.warnings)
            if options.json:
                rows.append(as_json(memory.name, name, one))
            else:
                show_findings(terminal, f"{name}: {memory.name}" if len(packs) > 1 else memory.name, one)
    if options.json:
        terminal.say(json.dumps(rows, ensure_ascii=False, indent=2))
        return EXIT_MISUSE if unusable else EXIT_PROBLEMS if errors else EXIT_FINE
    seconds = time.perf_counter() - started
    text = f"{count} trigger{'' if count == 1 else 's'}: {errors} with errors, {warnings} with warnings"
    terminal.say(f"{text} ({seconds:.2f} s)", "red" if errors else "green")
    if unusable:
        terminal.say(f"{unusable} more cannot be used", "red")
        return EXIT_MISUSE
    return EXIT_PROBLEMS if errors else EXIT_FINE


def check_all(found: Sequence[Memory]) -> list[Findings]:
    """Raises UsageError when nothing can be run here."""

    async def all_of_them() -> list[Findings]:
        async with TriggerSandbox(workers=None if len(found) > FEW else 1) as sandbox:
            return await findings.of_sources(sandbox, [memory.trigger for memory in found], datetime.now().astimezone())

    try:
        return asyncio.run(all_of_them())
    except SandboxError as error:
        raise UsageError(str(error)) from error


def show_findings(terminal: Terminal, name: str, one: Findings) -> None:
    """Errors, then warnings, each with its place and the line it is about; nothing when there are none."""
    for style, label, problems in (("red", "error", one.errors), ("yellow", "warning", one.warnings)):
        for problem in problems:
            terminal.say(f"{name}: {label}: {_sentence(problem)}", style)
            for line in problem.caret.splitlines():
                terminal.say(f"    {line}")


def _sentence(problem: Problem) -> str:
    place = f" at line {problem.line}, column {problem.column}" if problem.line is not None else ""
    return f"{problem.message} ({problem.kind}){place}"


def test_pack(options: argparse.Namespace) -> int:
    """Runs the fixtures beside a pack that use it. Returns 1 when a case fails. Raises UsageError."""
    found, _ = read_usable(options.pack)
    beside = [case for case in testing.collect(fixtures_beside(options.pack)) if _is_of(case, options.pack)]
    if not beside:
        raise UsageError(
            f"no fixture beside {options.pack} names it; write one with `pack: {Path(options.pack).name}`, "
            "see docs/how-to/test-triggers.md"
        )
    terminal = Terminal(sys.stdout)
    code = testing.run(beside, terminal)
    tested = {memory_named(found, case.memory).name for case in beside if isinstance(case, Case) and case.memory}
    if untested := [memory.name for memory in found if memory.name not in tested]:
        terminal.say(f"without a case: {', '.join(untested)}", "yellow")
    return code


def _is_of(case: Case | Unusable, pack: str) -> bool:
    if isinstance(case, Unusable) and case.line is None:
        return True  # a whole fixture that cannot be read: it may name this pack
    return case.pack is not None and (Path(case.file).parent / case.pack).resolve() == Path(pack).resolve()


def list_pack(options: argparse.Namespace) -> int:
    """One line per memory: number, name, how its trigger begins. 2 when one cannot be used. Raises UsageError."""
    terminal = Terminal(sys.stdout)
    found, wrong = read_usable(options.pack)
    width = min(_MOST_NAME_CELLS, max((cells(memory.name) for memory in found), default=0))
    room = max(20, terminal.width - width - 8)
    for memory in found:
        terminal.say(f"{memory.number:>4}  {fit(memory.name, width)}  {fit(memory.trigger, room).rstrip()}")
    terminal.say(f"{len(found)} {'memory' if len(found) == 1 else 'memories'} in {options.pack}", "dim")
    return _left_out(options.pack, wrong)


def show_pack(options: argparse.Namespace) -> int:
    """One memory, or all, as a person reads them. Returns 2 when one of all cannot be used. Raises UsageError."""
    terminal = Terminal(sys.stdout)
    found: Sequence[Memory]
    found, wrong = read_usable(options.pack)
    if options.memory is not None:
        try:
            found, wrong = [memory_named(found, options.memory)], ()
        except LookupError as error:
            say_unusable(Terminal(sys.stderr), [(options.pack, sentence) for sentence in wrong])
            raise UsageError(f"{options.pack}: {error}") from error
    for position, memory in enumerate(found):
        if position:
            terminal.say()
        terminal.rule(memory.name, "bold", "-")
        terminal.say(memory.prompt)
        terminal.say("\ntrigger", "dim")
        for line in memory.trigger.splitlines():
            terminal.say(f"    {line}")
        for label, text in (("createdContext", memory.created_context), *memory.extra.items()):
            for line in text if isinstance(text, list) else [text] if text else []:
                terminal.say(f"{label}: {line}", "dim")
    return _left_out(options.pack, wrong)


def _left_out(pack: str, wrong: Sequence[str]) -> int:
    """Says what cannot be used. Returns the exit code."""
    say_unusable(Terminal(sys.stderr), [(pack, sentence) for sentence in wrong])
    return EXIT_MISUSE if wrong else EXIT_FINE

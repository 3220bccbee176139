"""`trigger-sandbox check` and `pack check`: all errors and warnings of triggers."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from languages import _, counted, foreign
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import CheckReport, Problem
from sandbox.workbench.explain import place_of
from sandbox.workbench.files import NamedTrigger, PackMemory, say_unusable, triggers_of
from sandbox.workbench.pack_rules import rule_warnings
from sandbox.workbench.terminal import Terminal, settled

EXIT_FINE = 0
EXIT_PROBLEMS = 1
EXIT_MISUSE = 2
AT_ONCE = 200
"""Triggers in a request: they share its time, and a trigger that runs out of it is tried again alone."""
FEW = 50
"""As many triggers as one worker checks while a second one starts."""


def check(options: argparse.Namespace) -> int:
    """Check triggers. Return 1 when there is an error or a warning, 2 when a memory of a pack cannot be used. Raises
    UsageError."""
    triggers, unusable = triggers_of(options.files, options.encoding, code=options.code)
    reports = _checked(triggers)
    errors = sum(len(report.errors) for report in reports)
    warnings = sum(len(report.warnings) for report in reports)
    summary = _(
        "{triggers}: {errors}, {warnings}",
        counted(len(reports), "trigger"),
        counted(errors, "error") if errors else _("no errors"),
        counted(warnings, "warning") if warnings else _("no warnings"),
    )
    color = "green"
    if errors:
        color = "red"
    elif warnings:
        color = "yellow"

    rows = [_Row(trigger, report) for trigger, report in zip(triggers, reports, strict=True)]
    _show(rows, unusable, summary, color=color)
    # A memory that cannot be used was not checked at all.
    if unusable:
        return EXIT_MISUSE

    return EXIT_PROBLEMS if errors or warnings else EXIT_FINE


def check_pack(options: argparse.Namespace) -> int:
    """Check packs. Return 1 when a trigger of a pack has an error, 2 when a memory cannot be used. Raises UsageError."""
    triggers, unusable = triggers_of(options.packs, packs=True)
    started = time.perf_counter()
    reports = _checked(triggers)
    warnings_by_trigger = _rule_warnings(triggers)
    rows = [_Row(*parts) for parts in zip(triggers, reports, warnings_by_trigger, strict=True)]
    errors = sum(bool(row.report.errors) for row in rows)
    warnings = sum(bool(row.report.warnings or row.rule_warnings) for row in rows)
    summary = _(
        "{triggers}: {errors} with errors, {warnings} with warnings",
        counted(len(rows), "trigger"),
        errors,
        warnings,
    )
    summary += _(" ({perf_counter:.2f} s)", time.perf_counter() - started)
    _show(rows, unusable, summary, color="red" if errors else "green")
    if unusable:
        return EXIT_MISUSE

    return EXIT_PROBLEMS if errors else EXIT_FINE


@dataclass(frozen=True, slots=True)
class _Row:
    """What is known of a trigger. `rule_warnings`: sentences about the rules of its memory."""

    trigger: NamedTrigger
    report: CheckReport
    rule_warnings: Sequence[str] = ()


def _rule_warnings(triggers: Sequence[NamedTrigger]) -> list[Sequence[str]]:
    """For each trigger the sentences about the rules of its memory."""
    packs: dict[str, list[PackMemory]] = {}
    for trigger in triggers:
        if trigger.memory is not None:
            packs.setdefault(trigger.file, []).append(trigger.memory)
    warnings = {pack: iter(rule_warnings(memories)) for pack, memories in packs.items()}
    return [() if trigger.memory is None else next(warnings[trigger.file]) for trigger in triggers]


def _checked(triggers: Sequence[NamedTrigger]) -> list[CheckReport]:
    """Everything known about each trigger, in order. Raises UsageError when nothing can be run here."""
    sources = [trigger.source for trigger in triggers]
    now = datetime.now().astimezone()
    workers = None if len(sources) > FEW else 1

    async def work() -> list[CheckReport]:
        reports: list[CheckReport] = []
        async with TriggerSandbox(workers=workers) as sandbox:
            for begin in range(0, len(sources), AT_ONCE):
                reports += await sandbox.check_all(
                    sources[begin : begin + AT_ONCE], now=now, seed=0
                )
        return reports

    return settled(work())


def _show(
    rows: Sequence[_Row], unusable: Sequence[tuple[str, str]], summary: str, *, color: str
) -> None:
    terminal = Terminal(sys.stdout)
    say_unusable(terminal, unusable)
    has_several_files = len({row.trigger.file for row in rows}) > 1
    for row in rows:
        name = row.trigger.name
        if has_several_files and name != row.trigger.file:
            name = f"{row.trigger.file}: {name}"
        for problem in row.report.errors:
            _show_problem(terminal, f"{name}: {_('error')}", problem, color="red")
        for problem in row.report.warnings:
            _show_problem(terminal, f"{name}: {_('warning')}", problem, color="yellow")
        for sentence in row.rule_warnings:
            terminal.show(f"{name}: {_('warning')}: " + sentence, "yellow")
    terminal.show(summary, color)
    if unusable:
        terminal.show(_("{unusable} more cannot be used", len(unusable)), "red")


def _show_problem(terminal: Terminal, heading: str, problem: Problem, *, color: str) -> None:
    sentence = foreign(problem.message) + f" ({problem.kind})" + place_of(problem)
    terminal.show(f"{heading}: " + sentence, color)
    for line in problem.caret.splitlines():
        terminal.show(f"    {line}")

"""`trigger-sandbox check` and `pack check`: all errors and warnings of triggers."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import datetime

from sandbox.host.supervisor import TriggerSandbox
from sandbox.locale import N_, _, counted, foreign, term
from sandbox.verdicts import CheckReport
from sandbox.workbench.explain import place_of
from sandbox.workbench.files import NamedTrigger, say_unusable, triggers_of
from sandbox.workbench.terminal import Terminal, settled

EXIT_FINE, EXIT_PROBLEMS, EXIT_MISUSE = 0, 1, 2
AT_ONCE = 200
"""Triggers in one request: they share its time, and one that runs out of it is tried again alone."""
FEW = 50
"""As many triggers as one worker checks while a second one starts."""


def check(options: argparse.Namespace) -> int:
    """Returns 1 when there is an error or a warning, 2 when a memory of a pack cannot be used. Raises UsageError."""
    triggers, unusable = triggers_of(options.files, options.encoding, code=options.code)
    found = _checked(triggers)
    errors, warnings = sum(len(one.errors) for one in found), sum(len(one.warnings) for one in found)
    summary = _(
        "{triggers}: {errors}, {warnings}",
        counted(len(found), "trigger"),
        counted(errors, "error") if errors else _("no errors"),
        counted(warnings, "warning") if warnings else _("no warnings"),
    )
    _show(triggers, unusable, found, summary, "red" if errors else "yellow" if warnings else "green")
    return EXIT_MISUSE if unusable else EXIT_PROBLEMS if errors or warnings else EXIT_FINE


def check_pack(options: argparse.Namespace) -> int:
    """Returns 1 when a trigger of a pack has an error, 2 when a memory cannot be used. Raises UsageError."""
    triggers, unusable = triggers_of(options.packs, packs=True)
    started = time.perf_counter()
    found = _checked(triggers)
    errors, warnings = sum(bool(one.errors) for one in found), sum(bool(one.warnings) for one in found)
    summary = _(
        "{triggers}: {errors} with errors, {warnings} with warnings", counted(len(found), "trigger"), errors, warnings
    )
    summary += _(" ({perf_counter:.2f} s)", time.perf_counter() - started)
    _show(triggers, unusable, found, summary, "red" if errors else "green")
    return EXIT_MISUSE if unusable else EXIT_PROBLEMS if errors else EXIT_FINE


def _checked(triggers: Sequence[NamedTrigger]) -> list[CheckReport]:
    """Everything known about each trigger, in order. Raises UsageError when nothing can be run here."""
    sources, now = [one.source for one in triggers], datetime.now().astimezone()

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
) -> None:
    terminal = Terminal(sys.stdout)
    say_unusable(terminal, unusable)
    several = len({one.file for one in triggers}) > 1
    for trigger, one in zip(triggers, found, strict=True):
        name = f"{trigger.file}: {trigger.name}" if several and trigger.name != trigger.file else trigger.name
        for color, label, problems in (("red", N_("error"), one.errors), ("yellow", N_("warning"), one.warnings)):
            for problem in problems:
                said = foreign(problem.message) + f" ({problem.kind})" + place_of(problem)
                terminal.show(f"{name}: {term(label)}: " + said, color)
                for line in problem.caret.splitlines():
                    terminal.show(f"    {line}")
    terminal.show(summary, style)
    if unusable:
        terminal.show(_("{unusable} more cannot be used", len(unusable)), "red")

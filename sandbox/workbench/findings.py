"""What is wrong with a trigger before it is stored: the one place that every command asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..supervisor import TriggerSandbox
from ..verdicts import Problem
from . import syntax
from .lint.linting import lint, problem

AT_ONCE = 200
"""Triggers in one request: they share its time budget, and what goes beyond is tried again alone."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Errors refuse a trigger: the server would not store it. Warnings do not; lint findings are among them."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


async def of_source(sandbox: TriggerSandbox, source: str, now: datetime) -> Findings:
    """Everything known about one trigger. Raises SandboxError when nothing can be run here."""
    (found,) = await of_sources(sandbox, [source], now)
    return found


async def of_sources(sandbox: TriggerSandbox, sources: Sequence[str], now: datetime) -> list[Findings]:
    """The same for many, in their order."""
    found: list[Findings] = []
    for begin in range(0, len(sources), AT_ONCE):
        part = sources[begin : begin + AT_ONCE]
        reports = await sandbox.check_all(part, now=now, seed=0)
        for source, report, linted in zip(part, reports, await lint(part, now), strict=True):
            parsed = syntax.parse(source)
            warnings = (*report.warnings, *(problem(parsed, one) for one in linted))
            found.append(Findings(report.errors, warnings))
    return found

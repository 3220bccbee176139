"""What is wrong with a trigger before it is stored: the one place that every command asks.

More checks of a source, such as lint rules, join `of_source` and show up wherever findings do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..supervisor import TriggerSandbox
from ..verdicts import Problem

MOST_AT_ONCE = 8
"""Checks in flight: more than the workers, so that none of them waits for this process."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Errors refuse a trigger: the server would not store it. Warnings do not."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


async def of_source(sandbox: TriggerSandbox, source: str, now: datetime) -> Findings:
    """Everything known about one trigger. Raises SandboxError when nothing can be run here."""
    report = await sandbox.check(source, now=now, seed=0)
    return Findings(report.errors, report.warnings)


async def of_sources(sandbox: TriggerSandbox, sources: Sequence[str], now: datetime) -> list[Findings]:
    """The same for many, in their order, several at a time."""
    gate = asyncio.Semaphore(MOST_AT_ONCE)

    async def one(source: str) -> Findings:
        async with gate:
            return await of_source(sandbox, source, now)

    return await asyncio.gather(*map(one, sources))

"""A trigger that does not run would have been quiet: what needs.py says against what V8 does, on random triggers."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from random_triggers import Chance

from sandbox import Quiet, SandboxLimits, TriggerSandbox
from sandbox.host import candidates
from sandbox.host.candidates import Candidates
from sandbox.javascript import needs, sought, spelling

TOGETHER = 400
LIMITS = SandboxLimits(search_seconds=60, trigger_seconds=10, sprint_seconds=10)


async def differences(count: int, seed: int, enough: int = 10**9, zone: str = "Pacific/Kiritimati") -> tuple[list[str], Counter[str]]:
    """Triggers that would not run and were not quiet, each with its chat, and how many were what. Stops at `enough`."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    async with TriggerSandbox(LIMITS, timezone=zone, workers=1, spare=False) as sandbox:  # always asks V8
        for number in range(count // TOGETHER):
            chance = Chance(seed * 1_000_003 + number)
            sources = [chance.trigger() for _ in range(TOGETHER)]
            read = Candidates()
            for source in sources:
                read.read(source)
            run = set(read.among(sources, chance.context, chance.now))
            verdicts = await sandbox.evaluate(sources, chance.context, now=chance.now, seed=number)
            for index, verdict in enumerate(verdicts):
                quiet = isinstance(verdict, Quiet)
                counts["run" if index in run else "not run", "quiet" if quiet else "not quiet"] += 1
                if index not in run and not quiet:
                    wrong.append(f"{sources[index]!r} {verdict} {chance.context} {chance.now}")
            if len(wrong) >= enough:
                break
    return wrong, counts

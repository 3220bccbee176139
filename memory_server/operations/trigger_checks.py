"""Check triggers before they are imported, some hundred at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from math import inf

from memory_server.conversations.ports import TriggerRunner
from memory_server.kernel.errors import InvalidInput
from sandbox import CheckReport

AT_ONCE = 200
"""Triggers in one request: they share its time, and triggers that had no time are tried again alone."""


async def check_reports(
    runner: TriggerRunner,
    triggers: Sequence[str],
    *,
    now: datetime,
    until: float = inf,
    advance: Callable[..., None] = lambda _count: None,
) -> list[CheckReport]:
    """Return the report on each trigger, in order. `until` is when to stop, by the monotonic clock; `advance` gets
    the number of checked triggers. Raises InvalidInput if that time is over."""
    reports: list[CheckReport] = []
    # 200 triggers that run too long take 20 s.
    for begin in range(0, len(triggers), AT_ONCE):
        if time.monotonic() > until:
            raise InvalidInput(
                "Only {count:,} of {all:,} triggers could be checked in time, so nothing was stored; import "
                "fewer at a time.",
                begin,
                len(triggers),
            )

        reports += await runner.check_all(triggers[begin : begin + AT_ONCE], now=now, seed=0)
        advance(AT_ONCE)
    return reports

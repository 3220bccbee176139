"""Runs cases through the same sandbox, prelude and limits as the server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from types import TracebackType

from ..search import Scene
from ..supervisor import TriggerSandbox
from .cases import Case, ExpectFirings, Unusable
from .outcomes import Outcome, reasons
from .stretches import verdicts_along

MOST_SANDBOXES = 3
"""Time zones that have a worker process at the same time: V8 keeps the zone it started with. About 80 MB each."""


class Zones:
    """A sandbox per time zone, made when it is needed; the longest unused ends when there are too many."""

    def __init__(self) -> None:
        self._open: dict[str | None, TriggerSandbox] = {}

    async def __aenter__(self) -> Zones:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sandbox in self._open.values():
            await sandbox.aclose()

    async def of(self, timezone: str | None) -> TriggerSandbox:
        """The sandbox of an IANA zone, None the system's."""
        sandbox = self._open.pop(timezone, None) or TriggerSandbox(timezone=timezone)
        self._open[timezone] = sandbox  # now the last one used
        if len(self._open) > MOST_SANDBOXES:
            await self._open.pop(next(iter(self._open))).aclose()
        return sandbox


async def trials(cases: Iterable[Case | Unusable], zones: Zones) -> AsyncIterator[Outcome]:
    """One outcome per case, in their order. Raises SandboxError when nothing can be run here."""
    for case in cases:
        if isinstance(case, Unusable):
            yield Outcome(case, (case.reason,), 0.0)
            continue
        started = time.perf_counter()
        found = await _tried(case, await zones.of(case.timezone))
        yield Outcome(case, found, time.perf_counter() - started)


async def _tried(case: Case, sandbox: TriggerSandbox) -> tuple[str, ...]:
    length = len(case.messages)
    if not isinstance(case.expected, ExpectFirings):
        report = await sandbox.run(case.source, case.context(length), now=case.moment(length), seed=case.seed)
        return reasons(case, (report.verdict,), report.console)
    scenes = [Scene(case.context(number), case.moment(number), case.seed) for number in range(1, length + 1)]
    rows = await verdicts_along(sandbox, [case.source], scenes)
    return reasons(case, [verdict for (verdict,) in rows], ())

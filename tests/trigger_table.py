"""A `TriggerRunner` for tests: what each source does is a row of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from memory_server.conversations.ports import Trial
from sandbox import (
    CheckReport,
    Failed,
    Fired,
    PatternError,
    Problem,
    Quiet,
    RunReport,
    TriggerRecord,
    Verdict,
)

VERDICTS: dict[str, Verdict] = {
    "true": Fired(1),
    "false": Quiet(1),
    "throw": Failed("thrown", "oops", 1, 1, 1),
    "loop": Failed("timeout", "it ran longer than 1 s", None, None, 1),
}
REPORTS: dict[str, CheckReport] = {
    "syntax": CheckReport(
        (Problem("syntax", "Unexpected token ')'", 2, 7, "  f())\n      ^"),), ()
    ),
    "nowhere": CheckReport((Problem("timeout", "it ran longer than 1 s", None, None, ""),), ()),
    "risky": CheckReport((), (Problem("thrown", "user is undefined", 1, 5, ""),)),
}


class TableRunner:
    """Keeps what it was asked, for tests to look at. Unknown sources are quiet and flawless."""

    def __init__(self) -> None:
        self.contexts: list[Mapping[str, Any] | None] = []
        self.moments: list[datetime] = []
        self.seeds: list[int] = []

    def in_zone(self, timezone: str) -> TableRunner:
        return self

    async def evaluate(
        self,
        triggers: Sequence[str],
        context: Mapping[str, Any],
        *,
        now: datetime,
        seed: int,
        last_fired: Mapping[int, Mapping[str, int]] | None = None,
    ) -> Mapping[int, Verdict]:
        self._note(context, now, seed)
        return {index: VERDICTS.get(source, Quiet(1)) for index, source in enumerate(triggers)}

    async def check(
        self, source: str, context: Mapping[str, Any] | None = None, *, now: datetime, seed: int
    ) -> CheckReport:
        self._note(context, now, seed)
        return REPORTS.get(source, CheckReport((), ()))

    async def try_out(
        self, source: str, context: Mapping[str, Any], *, now: datetime, seed: int
    ) -> Trial:
        self._note(context, now, seed)
        return Trial(
            RunReport(VERDICTS.get(source, Quiet(1)), ()),
            (),
            REPORTS.get(source, CheckReport((), ())),
        )

    async def words_of(self, sources: Sequence[str]) -> Sequence[Sequence[str]]:
        return [()] * len(sources)

    def record_of(self, source: str) -> TriggerRecord:
        return TriggerRecord()

    async def match_texts(self, pattern: str, texts: Sequence[str]) -> tuple[bool, ...]:
        if not pattern or pattern.startswith("/("):
            raise PatternError(f"`{pattern}` is no pattern.")
        return tuple(pattern in text for text in texts)

    def _note(self, context: Mapping[str, Any] | None, now: datetime, seed: int) -> None:
        self.contexts.append(context)
        self.moments.append(now)
        self.seeds.append(seed)

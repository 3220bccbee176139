"""The memory of triggers that did harm or took long: how often, and when last. Nothing is ever disabled; they run last.

Kept per sandbox, in memory, by hash of the source: a trigger that was mended starts with a clean record.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from .verdicts import Failed, Verdict

MOST_RECORDS = 10_000
"""Sources remembered; the one whose last offence is oldest is forgotten first. About 3 MB."""


MOST_COSTS = 10_000
COST_FLOOR_US = 10_000
"""Microseconds; what takes less is cheap, and its cost is not kept."""
BURNT_SHARE = 0.25
"""Of the time that one trigger may take: what takes more of it is counted as burnt."""


@dataclass(frozen=True, slots=True)
class Offences:
    """How often one source timed out, ran out of memory or killed its worker, and when it last did (aware).

    `burnt`: how often it took more than a quarter of the time for one trigger. No offence, and not in `total`.
    """

    timeouts: int = 0
    out_of_memory: int = 0
    killed: int = 0
    last: datetime | None = None
    burnt: int = 0

    @property
    def total(self) -> int:
        return self.timeouts + self.out_of_memory + self.killed


def source_hash(source: str) -> str:
    """SHA-256 of the source in hexadecimal; any string, lone surrogates too."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


class Register:
    """Records and costs by source hash. `trigger_seconds`: what one trigger may take."""

    def __init__(self, trigger_seconds: float = 1.0) -> None:
        self._limit_us = int(trigger_seconds * 1e6)
        self._costs: OrderedDict[str, int] = OrderedDict()
        self._records: OrderedDict[str, Offences] = OrderedDict()

    def note(self, source: object, verdict: Verdict, at: datetime, *, excused: bool = False) -> None:
        """Keeps what the source took, and adds the verdict to its record when it is an offence.

        `excused`: a time-out under an allowance that another's time-out had reduced. What is no text has no record.
        """
        if not isinstance(source, str):
            return
        if verdict.elapsed_us < COST_FLOOR_US and not self._costs and type(verdict) is not Failed:
            return  # nearly all of a thousand, and there is nothing to keep: a twentieth of the whole search
        self._note_cost(source, verdict)
        held = self.of(source)
        if verdict.elapsed_us > self._limit_us * BURNT_SHARE:
            held = replace(held, burnt=held.burnt + 1)
        match verdict.kind if isinstance(verdict, Failed) else None:
            case "timeout" if not excused:
                held = replace(held, timeouts=held.timeouts + 1, last=at)
            case "out_of_memory":
                held = replace(held, out_of_memory=held.out_of_memory + 1, last=at)
            case "killed":
                held = replace(held, killed=held.killed + 1, last=at)
            case _ if held == self.of(source):
                return
        key = source_hash(source)
        self._records[key] = held
        self._records.move_to_end(key)
        if len(self._records) > MOST_RECORDS:
            self._records.popitem(last=False)

    def _note_cost(self, source: str, verdict: Verdict) -> None:
        if isinstance(verdict, Failed) and verdict.kind == "not_evaluated" and verdict.elapsed_us == 0:
            return  # it did not run: what it took before still stands
        if verdict.elapsed_us < COST_FLOOR_US and not self._costs:
            return  # the usual case, and hashing costs time
        key = source_hash(source)
        self._costs.pop(key, None)
        if verdict.elapsed_us >= COST_FLOOR_US:
            self._costs[key] = verdict.elapsed_us
            if len(self._costs) > MOST_COSTS:
                self._costs.popitem(last=False)

    def _rank(self, source: object) -> tuple[int, int]:
        """What it is expected to take, and its offences. One that did harm is expected to take all it may."""
        if not isinstance(source, str):
            return 0, 0
        total = self.of(source).total
        cost = self._costs.get(source_hash(source), 0) if self._costs else 0
        return (max(cost, self._limit_us) if total else cost), total

    def of(self, source: object) -> Offences:
        if not self._records or not isinstance(source, str):
            return Offences()
        return self._records.get(source_hash(source), Offences())

    def all(self) -> Mapping[str, Offences]:
        """A copy: source hash -> record."""
        return MappingProxyType(dict(self._records))

    def order(self, sources: Sequence[object]) -> list[int]:
        """The order of evaluation: as given, but by what each took last, and offenders last, the worst at the end.

        Among equals those with async syntax come last: before the first of them V8 has to run all jobs that may be
        left (realm/board.js), and it is quicker to do so once.
        """
        known = bool(self._records or self._costs)
        return sorted(
            range(len(sources)),
            key=lambda index: (*(self._rank(sources[index]) if known else (0, 0)), _waits(sources[index])),
        )


def _waits(source: object) -> bool:
    return isinstance(source, str) and ("async" in source or "await" in source)

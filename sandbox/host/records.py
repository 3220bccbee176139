"""The record of each trigger: how often it did harm, and when last. Nothing is ever disabled; such triggers run last.

Kept per sandbox, in memory, by hash of the source: a trigger that was mended starts with a clean record.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sandbox.verdicts import Failed, Verdict

MOST_RECORDS = 10_000
"""Sources remembered; the one whose last harm is oldest is forgotten first. About 3 MB."""


@dataclass(frozen=True, slots=True)
class TriggerRecord:
    """How often one source timed out, ran out of memory or killed its worker, and when it last did (aware)."""

    timeouts: int = 0
    out_of_memory: int = 0
    killed: int = 0
    last: datetime | None = None

    @property
    def total(self) -> int:
        return self.timeouts + self.out_of_memory + self.killed


class TriggerRecords:
    """Records by hash of the source. `trigger_seconds`: the time that a trigger may take."""

    def __init__(self, trigger_seconds: float = 1.0) -> None:
        self._limit_us = int(trigger_seconds * 1e6)
        self._records: OrderedDict[bytes, TriggerRecord] = OrderedDict()

    def note(self, source: object, verdict: Verdict, at: datetime) -> None:
        """Count the verdict in the record of its source if the trigger did harm. Only a text has a record. A time-out
        with less than the time for one trigger does not count: the other triggers left it too little."""
        if not isinstance(verdict, Failed) or not isinstance(source, str):
            return

        record = self.of(source)
        match verdict.kind:
            case "timeout" if verdict.elapsed_us >= self._limit_us:
                record = replace(record, timeouts=record.timeouts + 1, last=at)
            case "out_of_memory":
                record = replace(record, out_of_memory=record.out_of_memory + 1, last=at)
            case "killed":
                record = replace(record, killed=record.killed + 1, last=at)
            case _:
                return

        key = _hash(source)
        self._records[key] = record
        self._records.move_to_end(key)
        if len(self._records) > MOST_RECORDS:
            self._records.popitem(last=False)

    def of(self, source: object) -> TriggerRecord:
        """Return the record of a source, or an empty record."""
        if not self._records or not isinstance(source, str):
            return TriggerRecord()
        return self._records.get(_hash(source), TriggerRecord())

    def order(self, sources: Sequence[object], seed: int) -> list[int]:
        """Return the order of evaluation: triggers that did harm come last, the worst at the end. `seed` says which
        trigger begins: a new process has no records, and where many triggers take all the time, the same triggers
        must not go without each time. Among equals, triggers with async syntax come last: before the first of them V8
        has to run all jobs that may be left (realm/board.js), and it is quicker to do so once."""
        first = seed % len(sources) if sources else 0
        indexes = (*range(first, len(sources)), *range(first))

        def rank(index: int) -> tuple[int, bool]:
            source = sources[index]
            is_async = isinstance(source, str) and ("async" in source or "await" in source)
            return self.of(source).total, is_async

        return sorted(indexes, key=rank)


def _hash(source: str) -> bytes:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).digest()

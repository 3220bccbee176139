"""What a course of verdicts amounts to: how often, how long not, and a picture of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.verdicts import Failed, Fired, Verdict

FIRED, QUIET, FAILED = "#", ".", "!"


@dataclass(frozen=True, slots=True)
class Rhythm:
    """`silence`: the longest run of messages without firing. `first_failure`: its message from 1, 0 for none."""

    fired: int
    failed: int
    total: int
    silence: int
    first_failure: int
    failures: tuple[tuple[str, int], ...]

    @property
    def rate(self) -> float:
        return self.fired / self.total if self.total else 0.0


def rhythm(verdicts: Sequence[Verdict]) -> Rhythm:
    """Of one trigger along a chat."""
    silence = longest = first = 0
    kinds: Counter[str] = Counter()
    for number, verdict in enumerate(verdicts, start=1):
        if isinstance(verdict, Fired):
            silence = 0
            continue
        silence += 1
        longest = max(longest, silence)
        if isinstance(verdict, Failed):
            first = first or number
            kinds[f"{verdict.kind}: {verdict.message}"] += 1
    fired = sum(isinstance(verdict, Fired) for verdict in verdicts)
    return Rhythm(fired, sum(kinds.values()), len(verdicts), longest, first, tuple(kinds.most_common(3)))


def mark(verdict: Verdict) -> str:
    """One character."""
    return FIRED if isinstance(verdict, Fired) else FAILED if isinstance(verdict, Failed) else QUIET


def per_mark(total: int, width: int) -> int:
    """How many messages one mark of a picture stands for, so that it has at most `width` marks."""
    return max(1, -(-total // max(1, width)))


def picture(verdicts: Sequence[Verdict], each: int) -> str:
    """A mark per `each` messages: failed if one failed, fired if one fired."""
    marks = "".join(map(mark, verdicts))
    parts = (marks[begin : begin + each] for begin in range(0, len(marks), each))
    return "".join(FAILED if FAILED in part else FIRED if FIRED in part else QUIET for part in parts)

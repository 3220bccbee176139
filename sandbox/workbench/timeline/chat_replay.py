"""Triggers along a chat: the verdicts of a search at each message, with the limits of the server.

The verdicts come from the triggers themselves. Traced copies run after them in the same request and only show which
operands were ever true. A copy is left out as soon as all its operands have been true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sandbox.host.supervisor import TriggerSandbox
from sandbox.javascript import syntax
from sandbox.verdicts import Failed, Fired, Verdict
from sandbox.workbench.explain.operands import Operand, new_probe, operands, traced_copy
from sandbox.workbench.journey import Journey
from sandbox.workbench.timeline.batching import CONDITIONS, Traced, verdicts_along

_CONSTANTS = ("true", "false", "null", "undefined", "0", "1", "''")
"""Constants that the author wrote on purpose; they are not reported."""


@dataclass(frozen=True, slots=True)
class Course:
    """One trigger along a chat: a verdict per message.

    `never`: conditions that were evaluated but never true. `unreached`: conditions that were never evaluated. A
    condition that failed is in neither.
    """

    source: str
    verdicts: tuple[Verdict, ...]
    never: tuple[Operand, ...] = ()
    unreached: tuple[Operand, ...] = ()


async def follow(
    sandbox: TriggerSandbox, sources: Sequence[str], journey: Journey, progress: Callable[[int], None]
) -> list[Course]:
    """The course of each source. Calls `progress` with the number of messages done. Raises SandboxError."""
    traced = _traced(sources)
    rows = await verdicts_along(sandbox, sources, journey.scenes(), tuple(traced.values()), progress)
    courses = []
    for index, source in enumerate(sources):
        verdicts = tuple(row[index] for row in rows)
        trace = traced.get(index)
        courses.append(Course(source, verdicts, _never(trace), _unreached(trace, verdicts)))
    return courses


def _traced(sources: Sequence[str]) -> dict[int, Traced]:
    """The traced copies of the sources with more than one condition; all share one probe."""
    probe = new_probe()
    found: dict[int, Traced] = {}
    for index, text in enumerate(sources):
        source = syntax.parse(text)
        parts = tuple(one for one in operands(source) if one.kind in CONDITIONS)
        if len(parts) > 1:
            parts = tuple(replace(one, number=number) for number, one in enumerate(parts))
            copy = traced_copy(source, parts, probe)
            assert copy is not None
            found[index] = Traced(copy, parts, [0] * len(parts))
    return found


def _unreached(trace: Traced | None, verdicts: Sequence[Verdict]) -> tuple[Operand, ...]:
    """The outermost conditions that were reached at no message; empty for a trigger that always failed.

    A condition that fails has no value. So a condition around the place of a failure counts as reached, and if the
    place is unknown, every condition does.
    """
    if trace is None or not any(trace.seen):
        return ()
    failures = _failures(syntax.parse(trace.copy.original), verdicts)
    if failures is None:
        return ()
    named: list[Operand] = []
    for one, seen in zip(trace.operands, trace.seen, strict=True):
        if one.text in _CONSTANTS or any(one.start <= place < one.end for place in failures):
            continue
        if seen == 0 and not any(outer.start <= one.start and one.end <= outer.end for outer in named):
            named.append(one)
    return tuple(named)


def _failures(source: syntax.Source, verdicts: Sequence[Verdict]) -> set[int] | None:
    """Byte offsets of all failures; None if one has no place, or its place is in a named function."""
    found: set[int] = set()
    for line, column, kind in {(one.line, one.column, one.kind) for one in verdicts if isinstance(one, Failed)}:
        place = source.offset(line, column) if line is not None and column is not None else None
        if place is None or kind not in ("thrown", "reference") or syntax.is_named_function_at(source, place):
            return None
        found.add(place)
    return found


def _never(trace: Traced | None) -> tuple[Operand, ...]:
    """Only the reasons: of `a && b` the operand that is never true, of `a || b` the whole, not its parts."""
    if trace is None:
        return ()
    false = [one for one, seen in zip(trace.operands, trace.seen, strict=True) if seen == 1]
    named: list[Operand] = []
    for one in false:
        if any(outer.start <= one.start and one.end <= outer.end for outer in named):
            continue
        inner = any(other is not one and one.start <= other.start and other.end <= one.end for other in false)
        verdict = one.kind == "decision" and one.role in ("verdict", "return")
        if not (one.operator == "&&" and inner) and not verdict and one.text not in _CONSTANTS:
            named.append(one)
    return tuple(named)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """`silence`: the longest run of messages without firing. `first_failure`: its message from 1, 0 for none."""

    fired: int
    total: int
    silence: int
    first_failure: int
    failures: tuple[tuple[str, int], ...]

    @property
    def rate(self) -> float:
        return self.fired / self.total if self.total else 0.0


def rhythm(verdicts: Sequence[Verdict]) -> Rhythm:
    """The firing statistics of one trigger along a chat."""
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
    return Rhythm(fired, len(verdicts), longest, first, tuple(kinds.most_common(3)))

"""Whether a case holds, and if not, why in lines that a person reads at a glance. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never
from zoneinfo import ZoneInfo

from ..excerpt import caret
from ..verdicts import Failed, Fired, Quiet, Verdict
from .cases import Case, ExpectFirings, ExpectVerdict, Unusable
from .terminal import counted

_MOST_MESSAGES = 3
_MOST_DIFFERENCES = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """`reasons`: why it does not hold, the first line alone says it; empty when it holds. `seconds`: wall time."""

    case: Case | Unusable
    reasons: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.reasons

    @property
    def error(self) -> bool:
        """Whether it could not be run: nothing is known about the trigger."""
        return isinstance(self.case, Unusable)


def reasons(case: Case, verdicts: Sequence[Verdict], console: Sequence[str]) -> tuple[str, ...]:
    """Empty when the case holds. `verdicts`: the one after the last message, or one after each message."""
    match case.expected:
        case ExpectVerdict() as expected:
            lines = list(_wrong_verdict(case, expected, verdicts[0]))
        case ExpectFirings(numbers):
            lines = list(_wrong_firings(case, numbers, verdicts))
        case _:
            assert_never(case.expected)
    if lines:
        lines += [f"console  {line}" for line in console]
    return tuple(lines)


def _wrong_verdict(case: Case, expected: ExpectVerdict, verdict: Verdict) -> Iterator[str]:
    kind = verdict.kind if isinstance(verdict, Failed) else None
    if expected.verdict == word(verdict) and expected.kind in (None, kind):
        return
    yield f"expected {expected}, but it {said(verdict)}"
    if isinstance(verdict, Failed) and (pointer := caret(case.source, verdict.line, verdict.column)):
        yield from pointer.splitlines()
    moment = case.moment(len(case.messages))
    yield f"now      {_local(case, moment.timestamp())} ({case.timezone})"
    if not case.messages:
        yield "chat     no messages"
    shown = range(max(0, len(case.messages) - _MOST_MESSAGES), len(case.messages))
    yield from (f"chat     {message_line(case, index + 1)}" for index in shown)
    yield from (f"trigger  {line}" for line in _clipped(case.source))


def _wrong_firings(case: Case, numbers: Sequence[int], verdicts: Sequence[Verdict]) -> Iterator[str]:
    fired = [number for number, verdict in enumerate(verdicts, start=1) if isinstance(verdict, Fired)]
    failed = any(isinstance(verdict, Failed) for verdict in verdicts)
    if fired == list(numbers) and not failed:
        return
    yield f"expected to fire {_at(numbers)}, but it fired {_at(fired)}"
    wrong = [
        n for n, verdict in enumerate(verdicts, 1) if (n in fired) != (n in numbers) or isinstance(verdict, Failed)
    ]
    for number in wrong[:_MOST_DIFFERENCES]:
        wanted = "fired" if number in numbers else "quiet"
        yield f"{message_line(case, number)}"
        yield f"         expected {wanted}, but it {said(verdicts[number - 1])}"
    if len(wrong) > _MOST_DIFFERENCES:
        yield f"and {counted(len(wrong) - _MOST_DIFFERENCES, 'more message')}"


def _at(numbers: Sequence[int]) -> str:
    return f"at {', '.join(map(str, numbers))}" if numbers else "never"


def word(verdict: Verdict) -> str:
    """fired, quiet or failed."""
    match verdict:
        case Fired():
            return "fired"
        case Quiet():
            return "quiet"
        case Failed():
            return "failed"
        case _:
            assert_never(verdict)


def said(verdict: Verdict) -> str:
    """The verdict as the end of a sentence that begins with `it`."""
    match verdict:
        case Fired():
            return "fired"
        case Quiet():
            return "was quiet"
        case Failed(kind, message, line, column, _):
            place = f" at line {line}, column {column}" if line is not None else ""
            return f"failed ({kind}): {message}{place}"
        case _:
            assert_never(verdict)


def message_line(case: Case, number: int) -> str:
    """Message `number` (from 1) on one line: its number, its time if it has one, who and what."""
    message = case.messages[number - 1]
    stamp = message.get("timestamp")
    time = f"{_local(case, stamp / 1000)} " if isinstance(stamp, int) else ""
    who = message.get("name") or message["role"]
    return f"#{number} {time}{who}: {' '.join(str(message['content']).split())}"


def _local(case: Case, seconds: float) -> str:
    return datetime.fromtimestamp(seconds, ZoneInfo(case.timezone)).isoformat(" ", "minutes")


def _clipped(source: str, most: int = 8) -> list[str]:
    lines = source.rstrip().splitlines()
    return lines if len(lines) <= most else [*lines[:most], f"... {len(lines) - most} more lines"]

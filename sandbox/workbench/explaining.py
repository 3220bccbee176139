"""What `:explain` says about a run. The one place to say more, such as the value of each operand. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..excerpt import caret
from ..verdicts import Failed, RunReport
from .outcomes import said


def explain(source: str, report: RunReport, messages: Sequence[object], now: datetime) -> list[str]:
    """Lines for a person. `messages`: what the trigger was given."""
    lines = [f"trigger  {line}" for line in source.splitlines()]
    lines.append(
        f"given    {len(messages)} message{'' if len(messages) == 1 else 's'}, now {now.isoformat(' ', 'minutes')}"
    )
    lines.append(f"verdict  it {said(report.verdict)}")
    if isinstance(report.verdict, Failed):
        pointer = caret(source, report.verdict.line, report.verdict.column)
        lines += [f"         {line}" for line in pointer.splitlines()]
    lines.append(f"time     {report.verdict.elapsed_us / 1000:.1f} ms")
    lines += [f"console  {line}" for line in report.console] or ["console  nothing"]
    return lines

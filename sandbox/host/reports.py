"""What a check of a trigger says: which findings and failures refuse it, and which are only warnings. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import assert_never

from sandbox.javascript.positions import caret, index_of
from sandbox.locale import _, foreign
from sandbox.protocol import Finding
from sandbox.verdicts import CheckReport, Failed, Problem, Verdict

_ASCII: Mapping[str, str] = dict(
    zip(
        "\uff08\uff09\uff0c\u3001\uff1b\uff1a\uff01\uff1f\u2018\u2019\u201c\u201d\uff1d\uff1e\uff1c\u3010\u3011",
        "(),,;:!?''\"\"=><[]",
        strict=True,
    )
)
"""Full-width and curved marks of Chinese keyboards, and the marks of JavaScript that look like them."""
_MARK = re.compile(rf"""(?:'[^']*'|"[^"]*"|[\w$.\])]*)\s*([{re.escape("".join(_ASCII))}])""")
"""V8 may point at the name, text or bracket before the wrong mark."""


def report_on(source: object, verdict: Verdict, findings: Sequence[Finding] = ()) -> CheckReport:
    """Errors refuse a trigger: it can never work (syntax, unknown names) or it harms (time-out, memory). A failure that
    depends on the data, as `context.participants.user.name` without participants, is a warning. `verdict`: of one try.
    `findings`: unknown names and what lint rules found."""
    text = source if isinstance(source, str) else ""
    errors: list[Problem] = []
    warnings: list[Problem] = []
    for rule, said, line, column in findings:
        problem = Problem(rule, said, line, column, caret(text, line, column))
        (errors if rule == "reference" else warnings).append(problem)
    if isinstance(verdict, Failed):
        place = verdict.line, verdict.column
        what = foreign(verdict.message) + (_meant(text, *place) if verdict.kind == "syntax" else "")
        problem = Problem(verdict.kind, what, *place, caret(text, *place))
        match verdict.kind:
            case "syntax" | "timeout" | "out_of_memory" | "killed" | "not_evaluated":
                errors.append(problem)
            case "reference" if errors:
                pass  # it is among the unknown names
            case "reference" | "thrown":
                warnings.insert(0, problem)
            case _:
                assert_never(verdict.kind)
    return CheckReport(tuple(errors), tuple(warnings))


def _meant(source: str, line: int | None, column: int | None) -> str:
    """A hint where a Chinese punctuation mark stands that looks like one of JavaScript's."""
    start = index_of(source, line, column) if line and column else None
    found = _MARK.match(source, start) if start is not None else None
    char = found[1] if found else ""
    return _("; {char} is not part of JavaScript, write {ascii} instead", char, _ASCII[char]) if char in _ASCII else ""

"""What a check of a trigger says: which findings and failures refuse it, and which are only warnings. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import assert_never

from languages import Sentence, _, foreign
from sandbox.javascript.positions import caret, index_of
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
_PYTHON = {"and": "&&", "or": "||"}
"""Words of Python, and the marks of JavaScript that mean the same."""
_MARK = re.compile(
    rf"""(?:'[^']*'|"[^"]*"|[\w$.\])]*)\s*([{re.escape("".join(_ASCII))}]|\b(?:{"|".join(_PYTHON)})\b)"""
)
"""V8 may point at the name, text or bracket before the wrong mark."""


def report_on(source: object, verdict: Verdict, findings: Sequence[Finding] = ()) -> CheckReport:
    """Report on a trigger. Errors refuse it: it can never work (syntax, unknown names) or it harms (time-out,
    memory). A failure that depends on the data, as `context.participants.user.name` without participants, is a
    warning. `verdict`: the verdict of a try. `findings`: unknown names and what lint rules found."""
    text = source if isinstance(source, str) else ""
    errors: list[Problem] = []
    warnings: list[Problem] = []
    for finding in findings:
        problem = _problem_of_finding(text, finding)
        if problem.kind == "reference":
            errors.append(problem)
        else:
            warnings.append(problem)

    if isinstance(verdict, Failed):
        problem = _problem_of_failure(text, verdict)
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


def _problem_of_finding(text: str, finding: Finding) -> Problem:
    rule, message, line, column = finding
    return Problem(
        kind=rule,
        message=str(message),
        line=line,
        column=column,
        caret=caret(text, line, column),
        sentence=message if isinstance(message, Sentence) else None,
    )


def _problem_of_failure(text: str, failure: Failed) -> Problem:
    line = failure.line
    column = failure.column
    message = foreign(failure.message)
    if failure.kind == "syntax" and line is not None and column is not None:
        message += _hint_about_mark(text, line, column)
    return Problem(failure.kind, message, line=line, column=column, caret=caret(text, line, column))


def _hint_about_mark(source: str, line: int, column: int) -> str:
    """Return a hint where a Chinese punctuation mark or a word of Python is used in place of a mark of JavaScript; else ''."""
    start = index_of(source, line, column)
    if start is None:
        return ""
    match = _MARK.match(source, start)
    if match is None:
        return ""
    mark = match[1]
    return _(
        "; {char} is not part of JavaScript, write {ascii} instead",
        mark,
        _PYTHON.get(mark) or _ASCII[mark],
    )

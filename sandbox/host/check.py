"""What to say about a trigger before it is stored, from what was found out about it. Pure.

Errors refuse it: it can never work (syntax, unknown names) or it harms (time-out, memory). A failure that depends on
the data, as `context.participants.user.name` without participants, is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from sandbox.javascript.positions import caret_in, lines_of
from sandbox.verdicts import CheckReport, Failed, Fired, Problem, Quiet, Verdict

_ASCII: Mapping[str, str] = dict(
    zip(
        "\uff08\uff09\uff0c\u3001\uff1b\uff1a\uff01\uff1f\u2018\u2019\u201c\u201d\uff1d\uff1e\uff1c\u3010\u3011",
        "(),,;:!?''\"\"=><[]",
        strict=True,
    )
)
"""Full-width and curved marks as Chinese keyboards write them, and what stands for them in a program."""
_MARK = re.compile(rf"""(?:'[^']*'|"[^"]*"|[\w$.\])]*)\s*([{re.escape("".join(_ASCII))}])""")
"""V8 may point at the name, text or bracket before the mark that it stumbled over."""
SAMPLE_CONTEXT: Mapping[str, Any] = {
    "messages": [
        {"role": "user", "content": "Good morning! 早上好", "timestamp": 1767225600000, "name": "user"},
        {"role": "assistant", "content": "Good morning. 你好吗", "timestamp": 1767225660000, "name": "char"},
    ],
    "conversation_id": "check",
    "participants": {},
}
"""What a trigger is tried on when the caller has no messages."""


def report(
    source: str,
    verdict: Verdict,
    unknown: Sequence[Mapping[str, Any]] = (),
    findings: Sequence[Mapping[str, Any]] = (),
) -> CheckReport:
    """`verdict`: of one try. `unknown`: the names of scope.py; `findings`: those of lint rules, as reply_validation.py
    gives both.
    """
    lines = lines_of(source) if isinstance(source, str) else []
    errors = [_unknown(lines, one) for one in unknown]
    warnings: list[Problem] = []
    match verdict:
        case Fired() | Quiet():
            pass
        case Failed(kind, message, line, column, _):
            if kind == "syntax":
                message += _meant(lines, line, column)
            problem = Problem(kind, message, line, column, caret_in(lines, line, column))
            match kind:
                case "syntax" | "timeout" | "out_of_memory" | "killed" | "not_evaluated":
                    errors.append(problem)
                case "reference":
                    if not errors:
                        warnings.append(problem)
                case "thrown":
                    warnings.append(problem)
                case _:
                    assert_never(kind)
        case _:
            assert_never(verdict)
    for one in findings:
        line, column = one["line"], one["column"]
        warnings.append(Problem(one["rule"], one["message"], line, column, caret_in(lines, line, column)))
    return CheckReport(tuple(errors), tuple(warnings))


def _meant(lines: Sequence[str], line: int | None, column: int | None) -> str:
    """A hint where a Chinese punctuation mark stands that looks like one of JavaScript's."""
    if line is None or column is None or not 1 <= line <= len(lines):
        return ""
    units = lines[line - 1].encode("utf-16-le", "surrogatepass")[(column - 1) * 2 :]
    rest = units.decode("utf-16-le", "replace")
    found = _MARK.match(rest)
    char = found[1] if found else ""
    return f"; {char} is no part of JavaScript, write {_ASCII[char]} instead" if char in _ASCII else ""


def _unknown(lines: Sequence[str], one: Mapping[str, Any]) -> Problem:
    line, column = int(one["line"]), int(one["column"])
    hint = f"; did you mean {one['nearest']}?" if one.get("nearest") else ""
    return Problem("reference", f"{one['name']} is not defined{hint}", line, column, caret_in(lines, line, column))

"""Verdicts in words, and why a trigger fired, was quiet or failed: the operands of its conditions with their values.

The values come from a second run, of a traced copy (javascript/tracing.py); the verdict comes from the first run.
realm/trace.js writes the notes of the second run and changes with this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from languages import _
from sandbox import protocol
from sandbox.javascript import syntax
from sandbox.javascript.tracing import operands
from sandbox.values import JsonObject, frozen
from sandbox.verdicts import Failed, Fired, Operand, Problem, RunReport, Verdict
from sandbox.workbench.terminal import fit

WIDTH = 72
"""Cells for the text of an operand, or for the shown part of a message."""


def word(verdict: Verdict) -> str:
    """Return fired, quiet or failed, which `term` says."""
    return type(verdict).__name__.lower()


def said(verdict: Verdict) -> str:
    """Return the verdict as the end of a sentence that begins with `it`."""
    if isinstance(verdict, Failed):
        return _(
            "failed ({kind}): {reason}{place}", verdict.kind, verdict.message, place_of(verdict)
        )
    if isinstance(verdict, Fired):
        return _("fired")
    return _("was quiet")


def place_of(problem: Failed | Problem) -> str:
    """Say where it is, as the end of a sentence; '' if that is not known."""
    if problem.line is None:
        return ""
    return _(" at line {line}, column {column}", problem.line, problem.column)


def reasons(
    source: str, report: RunReport, messages: Sequence[JsonObject], first: int = 1
) -> list[str]:
    """Say the operands with their values, and the calls of match_keys with what they found; nothing if the run was not
    traced or has no operands. `first`: the number of the first of `messages`."""
    all_operands = operands(syntax.parse(source))
    if report.traced is None or not all_operands:
        return []

    *calls, end = report.trace or [{}]
    # Operands of another run than the one that gave the verdict would explain nothing.
    if "operands" not in end or word(report.traced) != word(report.verdict):
        return [
            "",
            _(
                "no operands: the second run, which records them, was stopped or gave another verdict"
            ),
        ]

    has_failed = isinstance(report.verdict, Failed)
    lines = list(_operand_lines(all_operands, _values_in(end["operands"]), has_failed=has_failed))
    for call in calls:
        lines += _call_lines(call, messages, first)

    if end["calls"] > len(calls):
        lines += ["", _("and {calls} more calls", end["calls"] - len(calls))]

    return [protocol.text(line) for line in lines]


@frozen
class _Value:
    """What the second run noted of an operand: how often it was evaluated, and its last value."""

    times: int = 0
    is_true: bool = False
    text: str = ""


def _values_in(rows: Sequence[Any]) -> dict[int, _Value]:
    """Return the values of operands by their numbers."""
    return {number: _Value(times, is_true, text) for number, times, is_true, text in rows}


def _operand_lines(
    all_operands: Sequence[Operand], values: Mapping[int, _Value], *, has_failed: bool
) -> Iterator[str]:
    """Yield a line for each operand, in the order of the trigger, and then why some have no
    value."""
    yield ""
    yield _("value  operand")
    for operand in sorted(all_operands, key=lambda operand: (operand.start, -operand.end)):
        yield _operand_line(operand, values.get(operand.number, _Value()))
    if len(values) < len(all_operands):
        yield (
            _("-      had no value before the trigger failed")
            if has_failed
            else _("-      was not evaluated")
        )


def _operand_line(operand: Operand, value: _Value) -> str:
    """Write an operand with its last value, and how often it was evaluated if more than once. It
    has `-` if it was never evaluated."""
    sign = "true" if value.is_true else "false"
    if not value.times:
        sign = "-"
    more = ""
    if operand.is_compared and value.times and value.text:
        sign = ""
        more = f" = {value.text}"
    elif value.text not in ("", "true", "false"):
        more = f" = {value.text}"
    if value.times > 1:
        more += _(" ({times} times, the last)", value.times)
    role = f"{operand.role}: " if operand.role else ""
    indent = "  " * operand.depth
    text = fit(role + operand.text, WIDTH - len(indent)).rstrip()
    return f"{sign:<5}  {indent}{text}" + more


def _call_lines(call: JsonObject, messages: Sequence[JsonObject], first: int) -> Iterator[str]:
    """Yield the lines about a call of match_keys. `call["keys"]`: each key with its hits. A hit has the position of
    the message in which the key was found (-1 if it is unknown), the text there, and how the key is spelled there, if
    otherwise."""

    def named(position: int) -> str:
        if position < 0:
            return _("the searched text")
        return f"#{first + position}"

    yield ""
    keys = fit(", ".join(key for key, _hits in call["keys"]), WIDTH).rstrip()
    yield _(
        "{trace} of {keys}; scope {scope}, depth {depth}: {result}",
        call["trace"],
        keys or _("no keys"),
        call["scope"],
        call["depth"],
        call["result"],
    )
    places = fit(", ".join(named(position) for position in call["places"]), WIDTH).rstrip()
    yield _(
        "  looked at {places}", places or _("nothing: no message has this scope within this depth")
    )
    missing: list[str] = []
    for key, hits in call["keys"]:
        if not hits:
            missing.append(key)
        for position, text, spelled in hits:
            shown_key = _("{key} (as {spelled})", key, spelled) if spelled else key
            who = _speaker(messages, position)
            yield _(
                "  {key} in {named}{who}: {fit}",
                shown_key,
                named(position),
                who,
                fit(text, WIDTH).rstrip(),
            )

    if missing:
        yield _("  not found: {fit}", fit(", ".join(missing), WIDTH).rstrip())


def _speaker(messages: Sequence[JsonObject], position: int) -> str:
    """Who said the message, behind a blank; empty if that is not known."""
    if not 0 <= position < len(messages):
        return ""
    message = messages[position]
    return f" {message.get('name') or message['role']}"

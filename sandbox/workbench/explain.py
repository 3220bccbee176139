"""Verdicts in words, and why a trigger fired, was quiet or failed: the operands of its conditions with their values.

The values come from a second run, of a traced copy (javascript/tracing.py); the verdict comes from the first run.
realm/trace.js writes the notes of the second run and changes with this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandbox import protocol
from sandbox.javascript import syntax
from sandbox.javascript.tracing import operands
from sandbox.locale import _, term, translated
from sandbox.verdicts import Failed, Fired, Operand, Problem, RunReport, Verdict
from sandbox.workbench.terminal import fit

WIDTH = 72
"""Cells for the text of an operand, or for the shown part of a message."""


def word(verdict: Verdict) -> str:
    """fired, quiet or failed, which `term` says."""
    return type(verdict).__name__.lower()


def said(verdict: Verdict) -> str:
    """The verdict as the end of a sentence that begins with `it`."""
    if not isinstance(verdict, Failed):
        return _("fired") if isinstance(verdict, Fired) else _("was quiet")
    return _("failed ({kind}): {reason}{place}", verdict.kind, verdict.message, place_of(verdict))


def place_of(found: Failed | Problem) -> str:
    """Where it is, as the end of a sentence; '' if that is not known."""
    return _(" at line {line}, column {column}", found.line, found.column) if found.line is not None else ""


def reasons(source: str, report: RunReport, messages: Sequence[Mapping[str, Any]], first: int = 1) -> list[str]:
    """The operands with their values, and the calls of match_keys with what they found. `first`: of `messages`."""
    found = operands(syntax.parse(source))
    if report.traced is None or not found:
        return []
    *calls, end = report.trace or [{}]
    if "operands" not in end or word(report.traced) != word(report.verdict):
        return ["", term("no operands: the second run, which records them, was stopped or gave another verdict")]
    lines = list(_operand_lines(found, end["operands"], isinstance(report.verdict, Failed)))
    for call in calls:
        lines += _call_lines(call, messages, first)
    if end["calls"] > len(calls):
        lines += ["", _("and {calls} more calls", end["calls"] - len(calls))]
    return [protocol.text(translated(line)) for line in lines]


def _operand_lines(found: Sequence[Operand], rows: Sequence[Any], failed: bool) -> Iterator[str]:
    """`rows`: number of an operand, how often it was evaluated, its last value: whether true, and as text."""
    values = {row[0]: row[1:] for row in rows}
    yield ""
    yield _("value  operand")
    for one in sorted(found, key=lambda operand: (operand.start, -operand.end)):
        times, last, value = values.get(one.number, (0, 0, ""))
        sign = "-" if times == 0 else "true" if last else "false"
        more = f" = {value}" if value not in ("", "true", "false") else ""
        if one.is_compared and times and value:
            sign, more = "", f" = {value}"
        if times > 1:
            more += _(" ({times} times, the last)", times)
        role = f"{one.role}: " if one.role else ""
        indent = "  " * one.depth
        yield f"{sign:<5}  {indent}{fit(role + one.text, WIDTH - len(indent)).rstrip()}" + more
    if len(values) < len(found):
        yield _("-      gave no value before it failed") if failed else _("-      was never reached")


def _call_lines(call: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], first: int) -> Iterator[str]:
    """`keys`: each with the places of messages in which it was found, -1 unknown, the text there, and how it is spelled
    there, if otherwise."""

    def named(place: int) -> str:
        return f"#{first + place}" if place >= 0 else _("its own text")

    yield ""
    keys = fit(", ".join(key for key, _ in call["keys"]), WIDTH).rstrip()
    yield _(
        "{trace} of {keys}; scope {scope}, depth {depth}: {result}",
        call["trace"],
        keys or _("no keys"),
        call["scope"],
        call["depth"],
        call["result"],
    )
    places = fit(", ".join(translated(named(place)) for place in call["places"]), WIDTH).rstrip()
    yield _("  looked at {places}", places or _("nothing: no message has this scope within this depth"))
    for given, hits in call["keys"]:
        for place, text, spelled in hits:
            key = _("{key} (as {spelled})", given, spelled) if spelled else given
            who = f" {messages[place].get('name') or messages[place]['role']}" if 0 <= place < len(messages) else ""
            yield _("  {key} in {named}{who}: {fit}", key, named(place), who, fit(text, WIDTH).rstrip())
    if missing := [key for key, hits in call["keys"] if not hits]:
        yield _("  not found: {fit}", fit(", ".join(missing), WIDTH).rstrip())

"""Why a trigger fired, was quiet or failed: the lines of `run` and `repl`. Pure.

The values come from a second run, of a traced copy (operands.py); the verdict comes from the first run.
realm/trace.js writes the notes of that run and changes with this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandbox import reply_validation
from sandbox.javascript import syntax
from sandbox.javascript.syntax import Source
from sandbox.verdicts import Failed, RunReport, Verdict
from sandbox.workbench.explain.operands import Operand, operands
from sandbox.workbench.fixtures.outcomes import word
from sandbox.workbench.terminal import fit

WIDTH = 72
"""Cells for the text of an operand, or for the shown part of a message."""


def reasons(source: str, report: RunReport, messages: Sequence[Mapping[str, Any]], first: int = 1) -> list[str]:
    """The operands with their values, and the calls of match_keys with what they found. `first`: of `messages`."""
    parsed = syntax.parse(source)
    found = operands(parsed)
    if report.traced is None or not found:
        return []
    *calls, end = report.trace or [{}]
    if "operands" not in end or word(report.traced) != word(report.verdict):
        return ["", "no operands: the second run, which records them, was stopped or gave another verdict"]
    thrown_at = _thrown_at(parsed, report.verdict)
    lines = list(_operand_lines(found, end["operands"], thrown_at, isinstance(report.verdict, Failed)))
    for call in calls:
        lines += _call_lines(call, messages, first)
    if end["calls"] > len(calls):
        lines += ["", f"and {end['calls'] - len(calls)} more calls"]
    return list(map(reply_validation.text, lines))


def _thrown_at(source: Source, verdict: Verdict) -> int:
    """The byte at which the trigger threw; -1 if it did not throw or the place is unknown."""
    if not isinstance(verdict, Failed) or verdict.kind not in ("thrown", "reference"):
        return -1
    place = source.offset(verdict.line, verdict.column) if verdict.line and verdict.column else None
    return -1 if place is None else place


def _operand_lines(found: Sequence[Operand], rows: Sequence[Any], thrown_at: int, failed: bool) -> Iterator[str]:
    """`rows`: number of an operand, how often it was evaluated and true, its last value: whether true, and as text."""
    values = {row[0]: row[1:] for row in rows}
    yield ""
    yield "value  operand"
    signs = set()
    for one in sorted(found, key=lambda operand: (operand.start, -operand.end)):
        times, trues, last, value = values.get(one.number, (0, 0, 0, ""))
        more = ""
        if times == 0:
            sign = "threw" if one.start <= thrown_at < one.end else "-"
        elif one.inner:
            sign = f"{trues}/{times}"
            signs.add("n/m")
        else:
            sign = "true" if last else "false"
            more = (f" = {value}" if value not in ("true", "false") else "") + (
                f" ({times} times, the last)" if times > 1 else ""
            )
        signs.add(sign)
        role = f"{one.role}: " if one.role else ""
        indent = "  " * one.depth
        yield f"{sign:<5}  {indent}{fit(role + one.text, WIDTH - len(indent)).rstrip()}{more}"
    if "n/m" in signs:
        yield "n/m    was true n of the m times it was evaluated"
    if "-" in signs:
        yield "-      gave no value before it failed" if failed else "-      was never reached"


def _call_lines(call: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], first: int) -> Iterator[str]:
    """`keys`: each with the places of messages in which it was found, -1 unknown, and the text there."""

    def named(place: int) -> str:
        return f"#{first + place}" if place >= 0 else "its own text"

    yield ""
    keys = fit(", ".join(key for key, _ in call["keys"]), WIDTH).rstrip()
    yield f"{call['trace']} of {keys or 'no keys'}; scope {call['scope']}, depth {call['depth']}: {call['result']}"
    places = fit(", ".join(map(named, call["places"])), WIDTH).rstrip()
    yield f"  looked at {places or 'nothing: no message has this scope within this depth'}"
    for key, hits in call["keys"]:
        for place, text in hits:
            who = f" {messages[place].get('name') or messages[place]['role']}" if 0 <= place < len(messages) else ""
            yield f"  {key} in {named(place)}{who}: {fit(text, WIDTH).rstrip()}"
    if missing := [key for key, hits in call["keys"] if not hits]:
        yield f"  not found: {fit(', '.join(missing), WIDTH).rstrip()}"

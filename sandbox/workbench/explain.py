"""Verdicts in words, and why a trigger fired, was quiet or failed: the operands of its conditions with their values.

The values come from a second run, of a traced copy with `probe(7, (operand))` in place of each operand. It is evaluated
as often, in the same order, on the same line and with the same value; the verdict comes from the first run.
realm/trace.js writes the notes of the second run and changes with this.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sandbox import protocol
from sandbox.javascript import syntax
from sandbox.javascript.syntax import COMPARISONS, FUNCTIONS, LOGICAL, Node, Source, bare, operator_of, sides
from sandbox.locale import _, term, translated
from sandbox.verdicts import Failed, Fired, Problem, RunReport, TracedCopy, Verdict
from sandbox.workbench.terminal import fit

WIDTH = 72
"""Cells for the text of an operand, or for the shown part of a message."""
MOST_OPERANDS = 250
"""Of one trigger; realm/trace.js has room for as many."""
_MOST_DEPTH = 40
_LITERALS = frozenset(("number", "string", "true", "false", "null", "undefined", "regex"))


@dataclass(frozen=True, slots=True)
class Operand:
    """`number`: that of the probe. `depth`: how deep in its decision, 0 for the decision itself. Offsets in bytes.
    `role`: of a decision that is not the verdict. `is_compared`: it is a side of a comparison, which has a value and is
    not true or false by itself."""

    number: int
    depth: int
    role: str
    text: str
    start: int
    end: int
    is_compared: bool


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


def operands(source: Source) -> list[Operand]:
    """A whole comes before its parts; empty for a text that cannot be parsed."""
    if source.broken:
        return []
    parts = (
        (part, role if part[1] == 0 and role != "verdict" else "")
        for decision, role in syntax.decisions(source)
        for part in _parts(decision)
    )
    return [
        Operand(number, depth, role, " ".join(source.of(node).split()), node.start_byte, node.end_byte, is_side)
        for number, ((node, depth, is_side), role) in enumerate(islice(parts, MOST_OPERANDS))
    ]


def _parts(decision: Node) -> Iterator[tuple[Node, int, bool]]:
    """The decision, its operands, and the sides of comparisons; each with its depth, and whether it is such a side."""
    pending = [(decision, 0, False)]
    while pending:
        node, depth, is_side = pending.pop()
        node = bare(node)
        yield node, depth, is_side
        if depth >= _MOST_DEPTH or node.type in FUNCTIONS or is_side:
            continue
        operator, both = operator_of(node), sides(node)
        below: list[Node] = []
        if operator in LOGICAL and both:
            below = syntax.chain(node, operator)
        elif operator == "!" and (argument := node.child_by_field_name("argument")):
            below = [argument]
        elif operator in COMPARISONS and both:
            below = [one for one in both if bare(one).type not in _LITERALS]
        elif node.type == "ternary_expression":
            parts = (node.child_by_field_name(name) for name in ("condition", "consequence", "alternative"))
            below = [one for one in parts if one is not None]
        pending.extend((one, depth + 1, operator in COMPARISONS) for one in reversed(below))


def copy_of(text: str) -> TracedCopy | None:
    """The traced copy of a trigger; None if there is nothing to trace."""
    source = syntax.parse(text)
    found = operands(source)
    if not found:
        return None
    probe = f"probe_{secrets.token_hex(8)}"  # a name that triggers cannot know
    marks: list[tuple[int, int, int, bytes]] = []
    for one in found:
        length = one.end - one.start
        # At the same place, ends come before starts; the longer of two starts is first, the shorter of two ends.
        marks.append((one.start, 1, -length, f"{probe}({one.number},(".encode()))
        marks.append((one.end, 0, length, b"))"))
    content = bytearray(source.content)
    for offset, _order, _length, mark in sorted(marks, reverse=True):
        content[offset:offset] = mark
    return TracedCopy(content.decode("utf-8"), text, probe)


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

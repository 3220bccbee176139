"""Why a trigger fired, was quiet or failed: the operands of its conditions with their values, for `run`, `repl`. Pure.

The values come from a second run, of a traced copy with `probe(7, (operand))` in place of each operand. It is evaluated
as often, in the same order, on the same line and with the same value; the verdict comes from the first run.
realm/trace.js writes the notes of the second run and changes with this.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox import reply_validation
from sandbox.javascript import syntax
from sandbox.javascript.syntax import COMPARISONS, FUNCTIONS, LOGICAL, Source, bare, operator_of, sides
from sandbox.verdicts import Failed, RunReport, TracedCopy
from sandbox.workbench.fixtures.outcomes import word
from sandbox.workbench.terminal import fit

if TYPE_CHECKING:
    from tree_sitter import Node

WIDTH = 72
"""Cells for the text of an operand, or for the shown part of a message."""
MOST_OPERANDS = 250
"""Of one trigger; realm/trace.js has room for as many."""
_MOST_DEPTH = 40
_LITERALS = frozenset(("number", "string", "true", "false", "null", "undefined", "regex"))


@dataclass(frozen=True, slots=True)
class Operand:
    """`number`: that of the probe. `depth`: how deep in its decision, 0 for the decision itself. Offsets in bytes.

    `role`: of a decision that is not the verdict. `inner`: a condition within a callback.
    """

    number: int
    depth: int
    role: str
    inner: bool
    text: str
    start: int
    end: int


def operands(source: Source) -> list[Operand]:
    """A whole comes before its parts; empty for a text that cannot be parsed."""
    found: list[Operand] = []
    if source.broken:
        return found

    def add(node: Node, depth: int, role: str = "", *, inner: bool = False) -> None:
        if len(found) < MOST_OPERANDS:
            text = " ".join(source.of(node).split())
            found.append(Operand(len(found), depth, role, inner, text, node.start_byte, node.end_byte))

    for decision in syntax.decisions(source):
        for node, depth, _ in _parts(decision.node, 0):
            add(node, depth, decision.role if depth == 0 and decision.role != "verdict" else "")
    for function, body in _callbacks(source):
        known = {(one.start, one.end) for one in found}
        around = [one.depth for one in found if one.start <= function.start_byte and function.end_byte <= one.end]
        for node, depth, is_side in _parts(body, max(around, default=-1) + 1):
            if not is_side and (node.start_byte, node.end_byte) not in known:
                add(node, depth, inner=True)
    return found


def _callbacks(source: Source) -> Iterator[tuple[Node, Node]]:
    """Functions with the conditions that they return, outer functions first."""
    for node in syntax.walk(source.root):
        body = node.child_by_field_name("body") if node.type in ("arrow_function", "function_expression") else None
        if body is None:
            continue
        is_predicate = syntax.is_predicate(source, node)
        if body.type != "statement_block":
            if is_predicate or syntax.is_condition(body):
                yield node, body
        elif is_predicate:
            for one in syntax.own(body):
                given = [child for child in one.named_children if child.type != "comment"]
                if one.type == "return_statement" and len(given) == 1:
                    yield node, given[0]


def _parts(whole: Node, depth: int) -> Iterator[tuple[Node, int, bool]]:
    """The decision, its operands, and the sides of comparisons; each with its depth and whether it is a side."""
    pending = [(whole, depth, False)]
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
    pieces: list[bytes] = []
    done = 0
    for offset, _, _, mark in sorted(marks):
        pieces += (source.content[done:offset], mark)
        done = offset
    pieces.append(source.content[done:])
    return TracedCopy(b"".join(pieces).decode("utf-8"), text, probe)


def reasons(source: str, report: RunReport, messages: Sequence[Mapping[str, Any]], first: int = 1) -> list[str]:
    """The operands with their values, and the calls of match_keys with what they found. `first`: of `messages`."""
    found = operands(syntax.parse(source))
    if report.traced is None or not found:
        return []
    *calls, end = report.trace or [{}]
    if "operands" not in end or word(report.traced) != word(report.verdict):
        return ["", "no operands: the second run, which records them, was stopped or gave another verdict"]
    lines = list(_operand_lines(found, end["operands"], isinstance(report.verdict, Failed)))
    for call in calls:
        lines += _call_lines(call, messages, first)
    if end["calls"] > len(calls):
        lines += ["", f"and {end['calls'] - len(calls)} more calls"]
    return list(map(reply_validation.text, lines))


def _operand_lines(found: Sequence[Operand], rows: Sequence[Any], failed: bool) -> Iterator[str]:
    """`rows`: number of an operand, how often it was evaluated and true, its last value: whether true, and as text."""
    values = {row[0]: row[1:] for row in rows}
    yield ""
    yield "value  operand"
    signs = set()
    for one in sorted(found, key=lambda operand: (operand.start, -operand.end)):
        times, trues, last, value = values.get(one.number, (0, 0, 0, ""))
        more = ""
        if times == 0:
            sign = "-"
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

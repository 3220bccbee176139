"""Operands of a trigger's conditions, and the traced copy that reports their values. Pure.

The copy has `probe(7, (operand))` in place of each operand. It is evaluated as often, in the same order, on the same
line and with the same value. realm/trace.js is the other end.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.javascript import syntax
from sandbox.javascript.syntax import COMPARISONS, FUNCTIONS, LOGICAL, Source, bare, operator_of, sides
from sandbox.verdicts import TracedCopy

if TYPE_CHECKING:
    from tree_sitter import Node

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

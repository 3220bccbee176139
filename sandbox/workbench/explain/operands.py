"""Operands of a trigger's conditions, and the traced copy that reports their values. Pure.

The copy has `probe(7, (operand))` in place of each operand. It is evaluated as often, in the same order, on the same
line and with the same value. realm/trace.js is the other end.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from sandbox.javascript import syntax
from sandbox.javascript.syntax import (
    COMPARISONS,
    FUNCTIONS,
    KEY_FUNCTIONS,
    LOGICAL,
    Source,
    bare,
    operator_of,
    sides,
)
from sandbox.verdicts import TracedCopy

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_OPERANDS = 250
"""Of one trigger; realm/trace.js has room for as many."""
_MOST_DEPTH = 40
_LITERALS = frozenset(("number", "string", "true", "false", "null", "undefined", "regex"))
Kind = Literal["decision", "operand", "side", "inner", "call"]


@dataclass(frozen=True, slots=True)
class Operand:
    """`number`: that of the probe. `depth`: how deep in its decision, 0 for the decision itself.

    `kind`: side = one side of a comparison, inner = a condition within a callback, call = another call of match_keys or
    match_keys_all. `element`: the callback's name for the element that it checks, or ''. `calls`: the name of the key
    function, if the operand is a call of one. `operator`: of a binary or unary expression. Offsets in bytes.
    """

    number: int
    kind: Kind
    depth: int
    role: str
    calls: str | None
    operator: str
    text: str
    line: int
    column: int
    start: int
    end: int
    element: str = ""


def new_probe() -> str:
    """A random name, which triggers cannot know."""
    return f"probe_{secrets.token_hex(8)}"


def operands(source: Source) -> tuple[Operand, ...]:
    """In order of appearance, a whole before its parts; empty for a text that cannot be parsed."""
    if source.broken:
        return ()
    found: list[Operand] = []
    for decision in syntax.decisions(source):
        for node, kind, depth in _parts(decision.node, 0):
            if len(found) >= MOST_OPERANDS:
                return tuple(found)
            found.append(_operand(source, len(found), node, kind, depth, decision.role))
    for node, body in _callbacks(source):
        element = _element(source, node)
        known = {(one.start, one.end) for one in found}
        outside = [one for one in found if one.start <= node.start_byte and node.end_byte <= one.end]
        base = max((one.depth for one in outside), default=-1) + 1
        for part, kind, depth in _parts(body, base):
            if kind != "side" and (part.start_byte, part.end_byte) not in known and len(found) < MOST_OPERANDS:
                found.append(replace(_operand(source, len(found), part, "inner", depth, ""), element=element))
    known = {(one.start, one.end) for one in found}
    for node in syntax.walk(source.root):
        if len(found) >= MOST_OPERANDS:
            break
        if syntax.called(node) in KEY_FUNCTIONS and (node.start_byte, node.end_byte) not in known:
            found.append(_operand(source, len(found), node, "call", 0, ""))
    return tuple(found)


def _callbacks(source: Source) -> Iterator[tuple[Node, Node]]:
    """Functions with the conditions that they return, outer functions first."""
    for node in syntax.walk(source.root):
        body = node.child_by_field_name("body") if node.type in ("arrow_function", "function_expression") else None
        if body is None:
            continue
        asked = syntax.is_predicate(source, node)
        if body.type != "statement_block":
            if asked or syntax.is_condition(body):
                yield node, body
        elif asked:
            for one in syntax.own(body):
                given = [child for child in one.named_children if child.type != "comment"]
                if one.type == "return_statement" and len(given) == 1:
                    yield node, given[0]


def _element(source: Source, node: Node) -> str:
    """The first parameter of a callback, if it is a plain name that is not declared again inside it; else ''."""
    given = syntax.parameters(node)
    if not syntax.is_predicate(source, node) or not given or given[0].type != "identifier":
        return ""
    name = source.of(given[0])
    hidden = any(one.type == "variable_declarator" and source.of(one).startswith(name) for one in syntax.walk(node))
    return "" if hidden else name


def _operand(source: Source, number: int, node: Node, kind: Kind, depth: int, role: str) -> Operand:
    line, column = source.place(node.start_byte)
    name = syntax.called(node)
    calls = name if name in KEY_FUNCTIONS else None
    return Operand(
        number,
        kind,
        depth,
        role,
        calls,
        operator_of(node),
        source.of(node),
        line,
        column,
        node.start_byte,
        node.end_byte,
    )


def _parts(whole: Node, depth: int) -> Iterator[tuple[Node, Kind, int]]:
    """The decision, its operands, and the sides of comparisons."""
    pending: list[tuple[Node, Kind, int]] = [(whole, "decision", depth)]
    while pending:
        node, kind, depth = pending.pop()
        node = bare(node)
        yield node, kind, depth
        if depth >= _MOST_DEPTH or node.type in FUNCTIONS or kind == "side":
            continue
        operator, both = operator_of(node), sides(node)
        below: list[tuple[Node, Kind, int]] = []
        if operator in LOGICAL and both:
            below = [(one, "operand", depth + 1) for one in _chain(node, operator)]
        elif operator == "!" and (argument := node.child_by_field_name("argument")):
            below = [(argument, "operand", depth + 1)]
        elif operator in COMPARISONS and both:
            below = [(one, "side", depth + 1) for one in both if bare(one).type not in _LITERALS]
        elif node.type == "ternary_expression":
            parts = (node.child_by_field_name(name) for name in ("condition", "consequence", "alternative"))
            below = [(one, "operand", depth + 1) for one in parts if one is not None]
        pending.extend(reversed(below))


def _chain(node: Node, operator: str) -> list[Node]:
    """a, b and c of `a && b && c`, which is parsed as `(a && b) && c`."""
    found: list[Node] = []
    while operator_of(node) == operator and (both := sides(node)):
        found.append(both[1])
        node = both[0]
    return [node, *reversed(found)]


def copy_of(text: str) -> TracedCopy | None:
    """The traced copy of a trigger; None if there is nothing to trace."""
    source = syntax.parse(text)
    return traced_copy(source, operands(source), new_probe())


def traced_copy(source: Source, found: tuple[Operand, ...], probe: str) -> TracedCopy | None:
    """The traced copy with these operands; None if there are none."""
    if not found:
        return None
    marks: list[tuple[int, int, int, bytes]] = []
    for one in found:
        length = one.end - one.start
        # At the same place, ends come before starts; the longer of two starts is first, the shorter of two ends.
        marks.append((one.start, 1, -length, f"{probe}({one.number},(".encode()))
        inner = f",1,{one.element or 'null'}" if one.kind == "inner" else ""
        marks.append((one.end, 0, length, f"){inner})".encode()))
    pieces: list[bytes] = []
    done = 0
    for offset, _, _, mark in sorted(marks):
        pieces += (source.content[done:offset], mark)
        done = offset
    pieces.append(source.content[done:])
    return TracedCopy(b"".join(pieces).decode("utf-8"), source.text, probe)

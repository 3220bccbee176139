"""What an author sees of a trigger that was read: the operands of its conditions, a traced copy of it, its key words.

The copy has `probe(7, (operand))` in place of each operand. It is evaluated as often, in the same order, on the same
line and with the same value. This parses, which native code does (syntax.py), so a server asks a worker for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from itertools import islice

from sandbox.javascript import syntax
from sandbox.javascript.syntax import COMPARISONS, LOGICAL, Node, Source, bare, operator_of, sides
from sandbox.values import frozen
from sandbox.verdicts import MOST_OPERANDS, Operand, TracedCopy

_MOST_DEPTH = 40
_LITERALS = frozenset(("number", "string", "true", "false", "null", "undefined", "regex"))
_PLAIN = re.compile(r"[\w '’-]+")
"""An alternative of an expression that is a word as it stands."""


def key_words(text: str) -> list[str]:
    """Return the texts that a trigger gives to match_keys, in order; of expressions, the alternatives that are words."""
    source = syntax.parse(text)
    words = list[str]()
    for node in syntax.walk(source.root):
        if syntax.called(node) in syntax.KEY_FUNCTIONS:
            for argument in syntax.arguments(node)[1:2]:
                for item in syntax.walk(argument):
                    words += _words_in(source, item)
    return list(dict.fromkeys(word for word in words if word.strip()))


def _words_in(source: Source, node: Node) -> list[str]:
    """Return the text of a string, or the alternatives of an expression that are words; nothing of another node."""
    if node.type == "string":
        with contextlib.suppress(ValueError):
            return [str(json.loads(f'"{source.of(node)[1:-1]}"'))]
    elif node.type == "regex":
        alternatives = source.of(node).rstrip("dgimsuvy").strip("/").split("|")
        return [word for word in alternatives if _PLAIN.fullmatch(word)]
    return []


def operands(source: Source) -> list[Operand]:
    """Return the first MOST_OPERANDS operands of the decisions of a trigger, in the order of the text. A whole comes
    before its parts. A text that cannot be parsed has none."""
    if source.broken:
        return []

    traced = list[Operand]()
    for decision, role in syntax.decisions(source):
        for part in islice(_parts(decision), MOST_OPERANDS - len(traced)):
            is_decision = part.depth == 0
            operand = Operand(
                number=len(traced),
                depth=part.depth,
                role=role if is_decision and role != "verdict" else "",
                text=" ".join(source.of(part.node).split()),
                start=part.node.start_byte,
                end=part.node.end_byte,
                is_compared=part.is_compared,
            )
            traced.append(operand)

    return traced


@frozen
class _Part:
    """A part of a decision. `depth`: 0 for the whole decision. `is_compared`: it is a side of a comparison."""

    node: Node
    depth: int = 0
    is_compared: bool = False


def _parts(decision: Node) -> Iterator[_Part]:
    """Yield the decision, its operands, and the sides of its comparisons, without the parentheses around them."""
    pending = [_Part(bare(decision))]
    while pending:
        part = pending.pop()
        yield part
        if part.depth >= _MOST_DEPTH or part.is_compared:
            continue
        is_comparison = operator_of(part.node) in COMPARISONS
        operands = [
            _Part(bare(node), part.depth + 1, is_comparison) for node in _operands_of(part.node)
        ]
        pending += reversed(operands)


def _operands_of(node: Node) -> list[Node]:
    """Return the operands of a logical expression, a negation or a choice, and the sides of a comparison that are not
    literals; no operands for other expressions."""
    operator = operator_of(node)
    operands = sides(node)
    if operator in LOGICAL and operands is not None:
        return syntax.chain(node, operator)
    if operator in COMPARISONS and operands is not None:
        return [operand for operand in operands if bare(operand).type not in _LITERALS]
    names: tuple[str, ...] = ()
    if operator == "!":
        names = ("argument",)
    elif node.type == "ternary_expression":
        names = ("condition", "consequence", "alternative")
    fields = [node.child_by_field_name(name) for name in names]
    return [field for field in fields if field is not None]


def copy_of(text: str) -> TracedCopy | None:
    """Return the traced copy of a trigger, or None if it has nothing to trace."""
    source = syntax.parse(text)
    traced = operands(source)
    if not traced:
        return None
    probe = f"probe_{os.urandom(8).hex()}"  # a name that triggers cannot know
    marks: list[tuple[int, int, int, bytes]] = []
    for operand in traced:
        length = operand.end - operand.start
        # At the same place, ends come before starts; the longer of two starts is first, the shorter of two ends.
        marks.append((operand.start, 1, -length, f"{probe}({operand.number},(".encode()))
        marks.append((operand.end, 0, length, b"))"))
    content = bytearray(source.content)
    for offset, _order, _length, mark in sorted(marks, reverse=True):
        content[offset:offset] = mark
    return TracedCopy(content.decode("utf-8"), text, probe)

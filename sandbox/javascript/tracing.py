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
from sandbox.javascript.syntax import COMPARISONS, FUNCTIONS, LOGICAL, Node, Source, bare, operator_of, sides
from sandbox.verdicts import MOST_OPERANDS, Operand, TracedCopy

_MOST_DEPTH = 40
_LITERALS = frozenset(("number", "string", "true", "false", "null", "undefined", "regex"))
_PLAIN = re.compile(r"[\w '’-]+")
"""An alternative of an expression that is a word as it stands."""


def key_words(text: str) -> list[str]:
    """The texts that a trigger gives to match_keys, in order; of expressions, the alternatives that are words."""
    source = syntax.parse(text)
    words = list[str]()
    for node in syntax.walk(source.root):
        if syntax.called(node) in syntax.KEY_FUNCTIONS:
            for argument in syntax.arguments(node)[1:2]:
                for item in syntax.walk(argument):
                    words += _words_in(source, item)
    return list(dict.fromkeys(word for word in words if word.strip()))


def _words_in(source: Source, node: Node) -> list[str]:
    if node.type == "string":
        with contextlib.suppress(ValueError):
            return [str(json.loads(f'"{source.of(node)[1:-1]}"'))]
    elif node.type == "regex":
        alternatives = source.of(node).rstrip("dgimsuvy").strip("/").split("|")
        return [word for word in alternatives if _PLAIN.fullmatch(word)]
    return []


def operands(source: Source) -> list[Operand]:
    """A whole comes before its parts; empty for a text that cannot be parsed."""
    if source.broken:
        return []
    traced = list[Operand]()
    for decision, role in syntax.decisions(source):
        for node, depth, is_side in islice(_parts(decision), MOST_OPERANDS - len(traced)):
            shown_role = role if depth == 0 and role != "verdict" else ""
            text = " ".join(source.of(node).split())
            traced.append(Operand(len(traced), depth, shown_role, text, node.start_byte, node.end_byte, is_side))
    return traced


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

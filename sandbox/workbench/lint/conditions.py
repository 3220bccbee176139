"""Rules about truth: always or never true, unreachable, without effect, `=` for `===`, dates that never come. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...chats.dates import MONTHS
from .. import syntax
from ..syntax import COMPARISONS, FUNCTIONS, KEY_FUNCTIONS, LOGICAL, Source, bare, operator_of, sides
from .finding import Edit, Finding, Subject, at
from .ranges import Comparison, Reader

if TYPE_CHECKING:
    from tree_sitter import Node

_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONTHS = tuple(month.capitalize() for month in MONTHS)
_TRUTHY = {
    "array": "a list is always true; ask for its length",
    "object": "an object is always true",
    "arrow_function": "a function is always true; call it, or leave out `() =>`",
    "function_expression": "a function is always true; call it",
    "regex": "a regular expression alone is always true; ask `/.../.test(text)` or give it to match_keys",
    "new_expression": "a new object is always true",
    "class": "a class is always true",
}
_NATURE = {"keys": "match_keys gives 0 or more", "length": "a length is 0 or more"}


def conditions(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    source = subject.source
    reader = Reader(source, subject.now.year)
    found = syntax.decisions(source)
    for decision in found:
        # `return true` and `if ... else false` are ordinary; a trigger that is nothing but `true` is worth a word.
        plain = bare(decision.node).type in ("true", "false", "number", "null", "undefined")
        if not (plain and len(found) > 1):
            yield from _decision(source, reader, decision.node)
    yield from _unreachable_statements(source)
    yield from _unused(source)


def _decision(source: Source, reader: Reader, whole: Node) -> Iterator[Finding]:
    pending = [whole]
    while pending:
        node = bare(pending.pop())
        if node.type == "assignment_expression":
            yield _assignment(source, node)
            continue
        operator = operator_of(node)
        if operator in ("&&", "||"):
            operands = list(_chain(node, operator))
            said = list(_chain_findings(source, reader, operator, operands))
            yield from said
            pending.extend(reversed(operands))
            continue
        if node.type == "ternary_expression":
            if (condition := node.child_by_field_name("condition")) is not None:
                pending.append(condition)
            continue
        if operator == "!" and (argument := node.child_by_field_name("argument")) is not None:
            constant = _constant(source, argument)
            if constant is not None:
                yield at("never-true" if constant[0] else "always-true", node, f"always {str(not constant[0]).lower()}")
            else:
                pending.append(argument)
            continue
        if (constant := _constant(source, node)) is not None:
            if not (constant[0] is False and _is_fallback(node)):
                yield at("always-true" if constant[0] else "never-true", node, constant[1])
        elif (one := reader.comparison(node)) is not None:
            yield from _comparison(node, one)
        else:
            yield from _types(source, reader, node)


def _assignment(source: Source, node: Node) -> Finding:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    edits: tuple[Edit, ...] = ()
    if left is not None and right is not None and bare(right).type in ("number", "string", "true", "false", "null"):
        middle = source.content[left.end_byte : right.start_byte].replace(b"=", b"===", 1)
        edits = (Edit(left.end_byte, right.start_byte, middle.decode()),)
    return at("assignment-in-condition", node, "`=` gives a value; to compare write `===`", *edits)


def _chain(node: Node, operator: str) -> Iterator[Node]:
    operands = []
    while operator_of(bare(node)) == operator and (both := sides(bare(node))):
        operands.append(both[1])
        node = both[0]
    yield node
    yield from reversed(operands)


def _chain_findings(source: Source, reader: Reader, operator: str, operands: Sequence[Node]) -> Iterator[Finding]:
    decides = operator == "||"  # the truth value after which the rest is not evaluated
    for number, operand in enumerate(operands[:-1]):
        constant = _constant(source, operand)
        if constant is not None and constant[0] is decides:
            yield at("unreachable", operands[number + 1], f"never evaluated: what stands before `{operator}` decides")
            break
    known = [(node, one) for node in operands if (one := reader.comparison(bare(node))) is not None]
    if operator == "||":
        unequal = [one for _, one in known if one.operator in ("!==", "!=")]
        for node, one in known:
            if any(o.quantity.key == one.quantity.key and o.number != one.number for o in unequal):
                yield at("always-true", node, "always true: it is always unlike one of the two")
                return
        return
    if any(one.verdict() is False for _, one in known):
        return  # said where it stands
    bounds: dict[str, tuple[float, float]] = {}
    for node, one in known:
        low, high = one.bounds()
        before = bounds.get(one.quantity.key, (one.quantity.low, one.quantity.high))
        after = (max(before[0], low), min(before[1], high))
        if after[0] > after[1]:
            yield at("never-true", node, "never true together with what stands before it")
            return
        bounds[one.quantity.key] = after
    yield from _calendar(known, bounds)


def _calendar(known: Sequence[tuple[Node, Comparison]], bounds: dict[str, tuple[float, float]]) -> Iterator[Finding]:
    """A day that its month does not have."""
    for _, month in known:
        low, high = bounds[month.quantity.key]
        if month.quantity.what != "Month" or low != high:
            continue
        number = int(low - month.quantity.shift)
        for node, day in known:
            if day.quantity.what != "Date" or day.quantity.of != month.quantity.of:
                continue
            if bounds[day.quantity.key][0] - day.quantity.shift > _DAYS[number]:
                yield at("date-never-comes", node, f"{_MONTHS[number]} has {_DAYS[number]} days at most")
                return


def _comparison(node: Node, one: Comparison) -> Iterator[Finding]:
    verdict, quantity = one.verdict(), one.quantity
    if verdict is None:
        return
    if quantity.what == "FullYear":
        nature = f"the year is {quantity.low:g} or later"
    elif quantity.what in _NATURE:
        nature = _NATURE[quantity.what]
    else:
        counted = f" {quantity.shift:+g}" if quantity.shift else ""
        nature = f"get{quantity.what}(){counted} gives {quantity.low:g} to {quantity.high:g}"
    if verdict:
        yield at("always-true", node, f"always true: {nature}")
    elif math.isinf(quantity.high) and quantity.what != "FullYear":
        yield at("never-true", node, f"never true: {nature}")
    else:
        yield at("date-never-comes", node, f"never true: {nature}")


def _types(source: Source, reader: Reader, node: Node) -> Iterator[Finding]:
    """`===` between values of different types."""
    operator, both = operator_of(node), sides(node)
    if operator not in ("===", "!==") or both is None:
        return
    for one, other in (both, both[::-1]):
        one, other = bare(one), bare(other)
        kind = "number" if reader.quantity(one) else "boolean" if syntax.called(one) == "match_keys_all" else None
        literal = {"true": "boolean", "false": "boolean"}.get(other.type, other.type)
        if kind and literal in ("number", "string", "boolean", "null") and literal != kind:
            never = operator == "==="
            what = f"{source.of(one)} is a {kind}, and never `{operator}` to another type"
            yield at("never-true" if never else "always-true", node, what if never else f"always true: a {kind}")
            return


def _constant(source: Source, node: Node) -> tuple[bool, str] | None:
    """The truth of an expression that is always the same, and what to say of it."""
    node = bare(node)
    text = source.of(node)
    if node.type in _TRUTHY:
        return True, _TRUTHY[node.type]
    match node.type:
        case "true" | "false" | "null" | "undefined":
            return node.type == "true", f"always {'true' if node.type == 'true' else 'false'}"
        case "number":
            true = text.strip("0_.") != "" and text not in ("0x0", "0b0", "0o0", "0n")
            return true, f"always {str(true).lower()}"
        case "string":
            return len(text) > 2, "a text alone is always true; give it to match_keys" if len(
                text
            ) > 2 else "empty text"
        case "identifier" if text in KEY_FUNCTIONS:
            return True, f"{text} is not called: a function is always true"
        case "identifier" if text in ("undefined", "NaN"):
            return False, "always false"
        case "unary_expression" if operator_of(node) == "typeof":
            return True, "`typeof` gives a text, which is always true; compare it"
        case "binary_expression" if operator_of(node) in COMPARISONS and (both := sides(node)):
            if all(bare(one).type in ("number", "string", "true", "false", "null") for one in both):
                same = source.of(bare(both[0])) == source.of(bare(both[1]))
                if operator_of(node) in ("===", "!=="):
                    true = same is (operator_of(node) == "===")
                    return true, f"always {str(true).lower()}: two literals"
            return None
        case _:
            return None


def _is_fallback(node: Node) -> bool:
    """The `false` of `... || false`, which people write to be sure of a boolean."""
    parent = node.parent
    while parent is not None and parent.type == "parenthesized_expression":
        parent = parent.parent
    both = sides(parent) if parent is not None else None
    return parent is not None and operator_of(parent) in LOGICAL and both is not None and bare(both[1]).id == node.id


def _unreachable_statements(source: Source) -> Iterator[Finding]:
    ended = False
    for node in source.root.named_children:
        if ended and node.type not in ("comment", "empty_statement", "function_declaration"):
            yield at("unreachable", node, "never reached: `return` or `throw` stands before it")
            return
        ended = ended or node.type in ("return_statement", "throw_statement")


def _unused(source: Source) -> Iterator[Finding]:
    statements = [one for one in source.root.named_children if one.type not in ("comment", "empty_statement")]
    last = next((one for one in reversed(statements) if one.type.endswith("statement")), None)
    for node in statements:
        inside = node.named_children
        if node.type != "expression_statement" or (last is not None and node.id == last.id) or not inside:
            continue
        if _is_condition(inside[0]) and _is_harmless(inside[0]):
            yield at("without-effect", node, "its value is not used; join it to the last line with `||` or `&&`")


def _is_condition(node: Node) -> bool:
    node = bare(node)
    operator = operator_of(node)
    return operator in COMPARISONS or operator in LOGICAL or operator == "!" or syntax.called(node) in KEY_FUNCTIONS


def _is_harmless(node: Node) -> bool:
    """Whether it can do nothing but give a value, as far as one can see."""
    for one in syntax.walk(node):
        if one.type in ("assignment_expression", "augmented_assignment_expression", "update_expression"):
            return False
        if one.type == "call_expression" and syntax.called(one) not in KEY_FUNCTIONS:
            name = one.child_by_field_name("function")
            said = (name.text or b"").decode("utf-8", "replace") if name is not None else ""
            if not said.rpartition(".")[2].startswith(("get", "includes", "test", "has", "startsWith", "endsWith")):
                return False
        if one.type in FUNCTIONS or one.type == "await_expression":
            return False
    return True

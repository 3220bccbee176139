"""Expressions whose truth is always the same. Pure."""

from __future__ import annotations

import operator as operators
from typing import TYPE_CHECKING

from sandbox.workbench.javascript.syntax import COMPARISONS, KEY_FUNCTIONS, Source, bare, operator_of, sides
from sandbox.workbench.lint.ranges import Reader, number_of

if TYPE_CHECKING:
    from tree_sitter import Node

_TRUTHY = {
    "array": "a list is always true; ask for its length",
    "object": "an object is always true",
    "arrow_function": "a function is always true; call it, or leave out `() =>`",
    "function_expression": "a function is always true; call it",
    "regex": "a regular expression alone is always true; ask `/.../.test(text)` or give it to match_keys",
    "new_expression": "a new object is always true",
    "class": "a class is always true",
}
_ORDER = {"<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge}
_EQUAL = {"===": True, "==": True, "!==": False, "!=": False}
_MOST_DEPTH = 60


def constant(source: Source, reader: Reader, node: Node, depth: int = 0) -> tuple[bool, str] | None:
    """The truth of an expression that is always the same, and what to say of it."""
    node = bare(node)
    if depth > _MOST_DEPTH:
        return None
    operator, both = operator_of(node), sides(node)
    if operator in ("&&", "||") and both is not None:
        found = [constant(source, reader, one, depth + 1) for one in chain(node, operator)]
        decides = operator == "||"
        if any(one is not None and one[0] is decides for one in found):
            return decides, f"always {_word(decides)}"
        return (not decides, f"always {_word(not decides)}") if None not in found else None
    if operator == "!" and (argument := node.child_by_field_name("argument")) is not None:
        inner = constant(source, reader, argument, depth + 1)
        return None if inner is None else (not inner[0], f"always {_word(not inner[0])}")
    return literal(source, node) or _comparison(source, reader, node)


def chain(node: Node, operator: str) -> list[Node]:
    """a, b and c of `a && b && c`, whichever way they are put into parentheses on the left."""
    found: list[Node] = []
    while operator_of(bare(node)) == operator and (both := sides(bare(node))):
        found.append(both[1])
        node = both[0]
    return [node, *reversed(found)]


def _word(truth: bool) -> str:
    return "true" if truth else "false"


def _comparison(source: Source, reader: Reader, node: Node) -> tuple[bool, str] | None:
    one = reader.comparison(node)
    if one is not None and (verdict := one.verdict()) is not None:
        return verdict, f"always {_word(verdict)}"
    return types(source, reader, node)


def types(source: Source, reader: Reader, node: Node) -> tuple[bool, str] | None:
    """`===` between values of different types."""
    operator, both = operator_of(node), sides(node)
    if operator not in ("===", "!==") or both is None:
        return None
    for one, other in (both, both[::-1]):
        one, other = bare(one), bare(other)
        quantity = reader.quantity(one)
        kind = "boolean" if quantity is not None and quantity.what == "all" else "number" if quantity else None
        literal = {"true": "boolean", "false": "boolean"}.get(other.type, other.type)
        if kind and literal in ("number", "string", "boolean", "null") and literal != kind:
            never = operator == "==="
            what = f"{' '.join(source.of(one).split())[:60]} is a {kind}, and never `===` to another type"
            return (False, f"never true: {what}") if never else (True, f"always true: {what}")
    return None


def literal(source: Source, node: Node) -> tuple[bool, str] | None:
    """Of what stands there as a value, or as a comparison of two."""
    text = source.of(node)
    if node.type in _TRUTHY:
        return True, _TRUTHY[node.type]
    match node.type:
        case "true" | "false" | "null" | "undefined":
            return node.type == "true", f"always {_word(node.type == 'true')}"
        case "number":
            number = number_of(source, node)
            true = number != 0 if number is not None else text not in ("0n", "0x0n", "0b0n", "0o0n")
            return true, f"always {_word(true)}"
        case "string" | "template_string":
            if len(text) == 2:
                return False, "empty text, which is always false"
            if node.type == "template_string" and all(c.type == "template_substitution" for c in node.named_children):
                return None
            return True, "a text alone is always true; give it to match_keys"
        case "identifier" if text in KEY_FUNCTIONS:
            return True, f"{text} is not called: a function is always true"
        case "identifier" if text in ("undefined", "NaN"):
            return False, "always false"
        case "unary_expression" if operator_of(node) == "typeof":
            return True, "`typeof` gives a text, which is always true; compare it"
        case "unary_expression" if operator_of(node) == "void":
            return False, "always false"
        case "binary_expression" if operator_of(node) in COMPARISONS and (both := sides(node)):
            return _two_literals(source, operator_of(node), bare(both[0]), bare(both[1]))
        case _:
            return None


def _two_literals(source: Source, operator: str, left: Node, right: Node) -> tuple[bool, str] | None:
    numbers = number_of(source, left), number_of(source, right)
    if operator in _ORDER:
        if any(one is not None and one != one for one in numbers):
            return False, "never true: NaN is neither less nor greater than anything"
        if numbers[0] is None or numbers[1] is None:
            return None
        true = _ORDER[operator](numbers[0], numbers[1])
    elif any(one is not None and one != one for one in numbers):
        true = not _EQUAL[operator]
        return true, f"{'always' if true else 'never'} true: NaN equals nothing; ask Number.isNaN(...)"
    elif any(one.type not in ("number", "string", "true", "false", "null") for one in (left, right)):
        return None
    elif numbers[0] is not None and numbers[1] is not None:
        true = (numbers[0] == numbers[1]) is _EQUAL[operator]
    elif left.type == right.type and "\\" not in source.of(left) + source.of(right):
        true = (source.of(left)[1:-1] == source.of(right)[1:-1] or source.of(left) == source.of(right)) is _EQUAL[
            operator
        ]
    elif left.type != right.type and operator in ("===", "!=="):
        true = operator == "!=="
    else:
        return None
    return true, f"always {_word(true)}: two literals"

"""A trigger's syntax tree, places in it, and findings about it. Shared by lint rules, scopes and operands.

The parser is native code. The server parses untrusted text only in a worker (worker/main.py); the workbench parses an
author's own file in its own process.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from languages import Sentence
from sandbox.javascript import positions
from sandbox.values import frozen

if TYPE_CHECKING:
    from tree_sitter import Node as Node
    from tree_sitter import Parser
else:
    Node = Parser = Any

FUNCTIONS = frozenset(
    (
        "function_declaration",
        "function_expression",
        "generator_function",
        "generator_function_declaration",
        *(
            "arrow_function",
            "method_definition",
            "class_static_block",
            "class",
            "class_declaration",
        ),
    )
)
LOGICAL = frozenset(("&&", "||", "??"))
ARITHMETIC = frozenset(("-", "*", "/", "%", "**"))
ORDER = frozenset(("<", "<=", ">", ">="))
COMPARISONS = ORDER | {"===", "!==", "==", "!="}
KEY_FUNCTIONS = frozenset(("match_keys", "match_keys_all"))
_MOST_NAMES = 8
"""How many aliases, as in `const a = b`, are followed."""
_BINDERS = frozenset(
    (
        "formal_parameters",
        "arrow_function",
        "function_declaration",
        "generator_function_declaration",
        *(
            "array_pattern",
            "rest_pattern",
            "assignment_pattern",
            "object_assignment_pattern",
            "pair_pattern",
        ),
        "assignment_expression",
        "augmented_assignment_expression",
        "update_expression",
        "variable_declarator",
        *("catch_clause", "for_in_statement", "class_declaration"),
    )
)


@frozen
class Source:
    """A text and its tree. Offsets of nodes are bytes of `content` (UTF-8)."""

    text: str
    content: bytes
    root: Node
    broken: bool

    def place(self, offset: int) -> tuple[int, int]:
        """Line and UTF-16 column, from 1, of a byte offset."""
        before = self.content[:offset].decode("utf-8", "replace")
        return positions.position(before, len(before))

    def of(self, node: Node) -> str:
        """Return the text of a node."""
        return self.content[node.start_byte : node.end_byte].decode("utf-8", "replace")


@cache
def parser() -> Parser:
    """Load the JavaScript parser, which is native code, so the worker calls this before it drops its privileges."""
    import tree_sitter
    import tree_sitter_javascript

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))


def parse(text: str) -> Source:
    """Never raises; `broken` is set if the parser finds that the text is not JavaScript."""
    content = text.encode("utf-8", "replace")
    root = parser().parse(content).root_node
    was_encoded = content.decode("utf-8") == text
    return Source(text, content, root, broken=root.has_error or not was_encoded)


def walk(node: Node, without: Collection[str] = ()) -> Iterator[Node]:
    """Yield the node and all named nodes below it, parents first, without nodes inside the types `without`. Not
    recursive: the text may be nested deeply."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(
            child for child in reversed(current.named_children) if child.type not in without
        )


def bare(node: Node) -> Node:
    """Return the expression without its parentheses."""
    while node.type == "parenthesized_expression":
        inside = [child for child in node.named_children if child.type != "comment"]
        if len(inside) != 1:
            return node
        node = inside[0]
    return node


def with_parentheses(node: Node) -> Node:
    """Return the outermost parentheses directly around an expression, or the expression itself without parentheses."""
    outermost = node
    while outermost.parent is not None and outermost.parent.type == "parenthesized_expression":
        outermost = outermost.parent
    return outermost


def operator_of(node: Node) -> str:
    """Return the operator of a binary or unary expression, else ''."""
    if node.type not in ("binary_expression", "unary_expression"):
        return ""
    operator = node.child_by_field_name("operator")
    if operator is None:
        return ""
    return operator.type


def sides(node: Node) -> tuple[Node, Node] | None:
    """Return the left and the right side of a node that has both."""
    left_side = node.child_by_field_name("left")
    right = node.child_by_field_name("right")
    if left_side is None or right is None:
        return None
    return left_side, right


def chain(node: Node, operator: str) -> list[Node]:
    """Return a, b and c of `a && b && c`, which is parsed as `(a && b) && c`; also with parentheses on the left."""
    operands_from_right: list[Node] = []
    while operator_of(bare(node)) == operator:
        operands = sides(bare(node))
        if operands is None:
            break
        node, right = operands
        operands_from_right.append(right)
    return [node, *reversed(operands_from_right)]


def called(node: Node) -> str | None:
    """Return the name of the function that a call expression calls, if it is a plain name. Return
    None otherwise."""
    if node.type != "call_expression":
        return None
    function = node.child_by_field_name("function")
    if function is None or function.type != "identifier":
        return None
    if any(child.type == "optional_chain" for child in node.children):
        return None
    return (function.text or b"").decode("utf-8", "replace")


def arguments(node: Node) -> list[Node]:
    """Return the arguments of a call expression, without comments."""
    list_node = node.child_by_field_name("arguments")
    if list_node is None or list_node.type != "arguments":
        return []
    return _without_comments(list_node)


def _without_comments(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def number_of(source: Source, node: Node) -> float | None:
    """Return the value of a number literal, with or without a sign. Return None for anything
    else."""
    sign = 1
    if node.type == "unary_expression" and operator_of(node) == "-":
        sign = -1
        node = node.child_by_field_name("argument") or node
    if node.type != "number":
        return None
    text = source.of(node).replace("_", "").lower()
    has_prefix = text.startswith(("0x", "0b", "0o"))
    try:
        number = float(int(text, base=0) if has_prefix else text)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return sign * number


def parameters(node: Node) -> list[Node]:
    """Return the parameters of a function, in order: names and patterns."""
    only_parameter = node.child_by_field_name("parameter")
    if only_parameter is not None:
        return [only_parameter]
    all_parameters = node.child_by_field_name("parameters")
    if all_parameters is None:
        return []
    return _without_comments(all_parameters)


def member(source: Source, node: Node) -> tuple[Node | None, str]:
    """Return the owner and the name of `owner.name` or of a call `owner.name(...)`; (None, '') for anything else."""
    if node.type == "call_expression":
        node = node.child_by_field_name("function") or node
    name = node.child_by_field_name("property")
    if node.type != "member_expression" or name is None:
        return None, ""
    return node.child_by_field_name("object"), source.of(name)


def call_with(function: Node) -> Node | None:
    """Return the call whose first argument is this function, as in `list.some((m) => ...)`. Return
    None if no call has it there."""
    if function.type not in ("arrow_function", "function_expression") or function.parent is None:
        return None
    call = function.parent.parent
    if call is None:
        return None
    call_arguments = arguments(call)
    is_first_argument = bool(call_arguments) and call_arguments[0].id == function.id
    return call if is_first_argument else None


_LEAST_LIKENESS = 0.75
"""The least likeness of two names, from 0 to 1, at which a name is taken for a slip of the other."""


def meant_name(name: str, other_names: Mapping[str, str], names: Collection[str]) -> str | None:
    """Return the one of `names` that was perhaps meant: by its name in other programs, or by its spelling. Return None
    if none is near."""
    meant = other_names.get(name)
    if meant in names:
        return meant
    return next(iter(difflib.get_close_matches(name, names, 1, _LEAST_LIKENESS)), None)


TESTS = frozenset(("some", "every", "find", "findLast", "findIndex", "findLastIndex", "filter"))
"""Methods that ask a function about each element."""


_NO_VALUE = frozenset(
    (
        *("comment", "html_comment", "hash_bang_line", "empty_statement", "lexical_declaration"),
        "variable_declaration",
        "using_declaration",
        "function_declaration",
        "generator_function_declaration",
        "class_declaration",
    )
)


def decisions(source: Source) -> Iterator[tuple[Node, str]]:
    """Yield the expressions that decide outside of functions, each with its role: verdict (a last value), return, if,
    or the name that gets its value."""
    for node in walk(source.root, FUNCTIONS):
        inside = _without_comments(node)
        condition = node.child_by_field_name("condition")
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if node.type == "return_statement" and len(inside) == 1:
            yield inside[0], "return"
        elif node.type == "expression_statement" and len(inside) == 1 and _is_last(node):
            yield inside[0], "verdict"
        elif node.type == "if_statement" and condition is not None:
            yield bare(condition), "if"
        elif (
            name is not None
            and name.type == "identifier"
            and value is not None
            and is_condition(value)
        ):
            yield value, source.of(name)


def _is_last(statement: Node) -> bool:
    """Tell whether the value of the statement can be the value of the whole text."""
    node = statement
    parent = node.parent
    while parent is not None:
        if parent.type in ("program", "statement_block") and _has_value_after(node):
            return False
        if parent.type in ("switch_case", "switch_default", "finally_clause"):
            return False
        if parent.type == "for_statement" and parent.child_by_field_name("body") != node:
            return False
        node = parent
        parent = node.parent
    return True


def _has_value_after(statement: Node) -> bool:
    """Tell whether a later statement of the same block has a value."""
    following = statement.next_named_sibling
    while following is not None and not has_value(following):
        following = following.next_named_sibling
    return following is not None


def has_value(node: Node) -> bool:
    """Tell whether a statement can give the trigger its verdict."""
    return node.type not in _NO_VALUE


def place_of_verdict(source: Source) -> tuple[int, int]:
    """Return where `return` is missing: the last statement that has a value. Line and UTF-16 column, from 1."""
    statements = list(filter(has_value, source.root.named_children))
    if not statements:
        return source.place(0)
    return source.place(statements[-1].start_byte)


def is_condition(node: Node) -> bool:
    """Tell whether the expression compares, negates or joins conditions."""
    operator = operator_of(bare(node))
    return operator in LOGICAL or operator in COMPARISONS or operator == "!"


@frozen
class LintFinding:
    """`rule`: its name in docs/reference/lint-rules.md. `start`: byte offset in the source."""

    rule: str
    message: Sentence
    start: int


def at(rule: str, node: Node, message: Sentence | str, *values: object) -> LintFinding:
    """Return a finding that points at a node. A message that is not made yet has these values in its places."""
    if isinstance(message, str):
        message = Sentence(message, *values)
    return LintFinding(rule, message, node.start_byte)


@dataclass(frozen=True)
class Subject:
    """A trigger that rules check. `now`: aware; times before it are past."""

    source: Source
    now: datetime

    @cached_property
    def constants(self) -> dict[str, Node]:
        """Return the values of names that are declared once, at the top level, and never assigned
        again."""
        declared: dict[str, Node] = {}
        for statement in self.source.root.named_children:
            if statement.type not in ("lexical_declaration", "variable_declaration"):
                continue
            for declarator in statement.named_children:
                name = declarator.child_by_field_name("name")
                value = declarator.child_by_field_name("value")
                if name is not None and value is not None and name.type == "identifier":
                    declared[self.source.of(name)] = bare(value)
        if not declared:
            return declared
        times_bound = Counter(map(self.source.of, filter(_is_binding, walk(self.source.root))))
        return {name: value for name, value in declared.items() if times_bound[name] == 1}

    def value(self, node: Node) -> Node:
        """Return the expression that a name means, without parentheses; the node itself if it is not such a name."""
        node = bare(node)
        for _ in range(_MOST_NAMES):
            if node.type != "identifier":
                break
            value = self.constants.get(self.source.of(node))
            if value is None:
                break
            node = value
        return node

    def key(self, node: Node) -> str:
        """Equal for expressions that mean the same: names are replaced by their values, blanks do not count."""
        head, dot, rest = self.text(bare(node)).partition(".")
        owner = self.constants.get(head)
        if owner is not None and owner.type in ("new_expression", "call_expression"):
            head = self.text(owner)
        return head + dot + rest

    def text(self, node: Node) -> str:
        """Return the text of a node without blanks."""
        return "".join(self.source.of(node).split())


def _is_binding(node: Node) -> bool:
    """Tell whether the node is a name that may get a value here."""
    if node.type == "shorthand_property_identifier_pattern":
        return True
    return node.type == "identifier" and _is_bound(node)


def _is_bound(node: Node) -> bool:
    """Tell whether an identifier may get a value by the pattern, assignment or declaration that it is directly in.
    True for each of its parts, except a value: the right side, a default, or what a loop goes over."""
    parent = node.parent
    if parent is None or parent.type not in _BINDERS:
        return False
    if parent.type == "arrow_function":
        return parent.child_by_field_name("parameter") == node
    if parent.type == "pair_pattern":  # its field `value` is the name that gets the value
        return True
    value = parent.child_by_field_name("value") or parent.child_by_field_name("right")
    return value != node

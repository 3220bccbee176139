"""A trigger's syntax tree, places in it, and findings about it. Shared by lint rules, scopes and operands.

The parser is native code. The server parses untrusted text only in a worker (worker/main.py); the workbench parses an
author's own file in its own process.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from sandbox.javascript import positions

if TYPE_CHECKING:
    from tree_sitter import Node as Node
    from tree_sitter import Parser
else:
    Node = Parser = Any

FUNCTIONS = frozenset(
    (
        *("function_declaration", "function_expression", "generator_function", "generator_function_declaration"),
        *("arrow_function", "method_definition", "class_static_block", "class", "class_declaration"),
    )
)
LOGICAL = frozenset(("&&", "||", "??"))
COMPARISONS = frozenset(("===", "!==", "==", "!=", "<", "<=", ">", ">="))
KEY_FUNCTIONS = frozenset(("match_keys", "match_keys_all"))
_MOST_NAMES = 8
"""How many aliases, as in `const a = b`, are followed."""
_BINDERS = frozenset(
    (
        *("formal_parameters", "arrow_function", "function_declaration", "generator_function_declaration"),
        *("array_pattern", "rest_pattern", "assignment_pattern", "object_assignment_pattern", "pair_pattern"),
        *("assignment_expression", "augmented_assignment_expression", "update_expression", "variable_declarator"),
        *("catch_clause", "for_in_statement", "class_declaration"),
    )
)


@dataclass(frozen=True, slots=True)
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
        """The text of a node."""
        return self.content[node.start_byte : node.end_byte].decode("utf-8", "replace")


@cache
def parser() -> Parser:
    """The JavaScript parser; loads native code, so the worker calls this before it drops its privileges."""
    import tree_sitter
    import tree_sitter_javascript

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))


def parse(text: str) -> Source:
    """Never raises; `broken` is set if the parser finds that the text is not JavaScript."""
    content = text.encode("utf-8", "replace")
    root = parser().parse(content).root_node
    return Source(text, content, root, root.has_error or content.decode("utf-8") != text)


def walk(node: Node, without: Collection[str] = ()) -> Iterator[Node]:
    """The node and all named nodes below it, parents first, without those in nodes of the types `without`. Not
    recursive: the text may be nested deeply."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending.extend(child for child in reversed(one.named_children) if child.type not in without)


def bare(node: Node) -> Node:
    """The expression without its parentheses."""
    while node.type == "parenthesized_expression":
        inside = [child for child in node.named_children if child.type != "comment"]
        if len(inside) != 1:
            return node
        node = inside[0]
    return node


def operator_of(node: Node) -> str:
    """The operator of a binary or unary expression, else ''."""
    if node.type not in ("binary_expression", "unary_expression"):
        return ""
    found = node.child_by_field_name("operator")
    return found.type if found is not None else ""


def sides(node: Node) -> tuple[Node, Node] | None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    return (left, right) if left is not None and right is not None else None


def chain(node: Node, operator: str) -> list[Node]:
    """a, b and c of `a && b && c`, which is parsed as `(a && b) && c`; also with parentheses on the left."""
    found: list[Node] = []
    while operator_of(bare(node)) == operator and (both := sides(bare(node))):
        found.append(both[1])
        node = both[0]
    return [node, *reversed(found)]


def called(node: Node) -> str | None:
    """The name of the function that a call expression calls, if it is a plain name."""
    function = node.child_by_field_name("function") if node.type == "call_expression" else None
    if function is None or function.type != "identifier" or any(c.type == "optional_chain" for c in node.children):
        return None
    return (function.text or b"").decode("utf-8", "replace")


def arguments(node: Node) -> list[Node]:
    """The arguments of a call expression, without comments."""
    found = node.child_by_field_name("arguments")
    if found is None or found.type != "arguments":
        return []
    return [child for child in found.named_children if child.type != "comment"]


def number_of(source: Source, node: Node) -> float | None:
    """The value of a number literal, with or without a sign."""
    sign = 1
    if node.type == "unary_expression" and operator_of(node) == "-":
        sign, node = -1, node.child_by_field_name("argument") or node
    if node.type != "number":
        return None
    text = source.of(node).replace("_", "").lower()
    try:
        number = float(int(text, 0)) if text.startswith(("0x", "0b", "0o")) else float(text)
    except (ValueError, OverflowError):
        return None
    return sign * number if math.isfinite(number) else None


def parameters(node: Node) -> list[Node]:
    """The parameters of a function, in order: names and patterns."""
    if (single := node.child_by_field_name("parameter")) is not None:
        return [single]
    found = node.child_by_field_name("parameters")
    return [child for child in found.named_children if child.type != "comment"] if found is not None else []


def member(source: Source, node: Node) -> tuple[Node | None, str]:
    """The owner and the name of `owner.name` or of a call `owner.name(...)`; (None, '') for anything else."""
    if node.type == "call_expression":
        node = node.child_by_field_name("function") or node
    owner, name = node.child_by_field_name("object"), node.child_by_field_name("property")
    return (owner, source.of(name)) if node.type == "member_expression" and name is not None else (None, "")


def call_with(function: Node) -> Node | None:
    """The call whose first argument is this function, as in `list.some((m) => ...)`."""
    call = function.parent.parent if function.parent is not None else None
    if function.type not in ("arrow_function", "function_expression") or call is None:
        return None
    return call if [one.id for one in arguments(call)][:1] == [function.id] else None


_NO_VALUE = frozenset(
    (
        *("comment", "html_comment", "hash_bang_line", "empty_statement", "lexical_declaration"),
        *("variable_declaration", "using_declaration", "function_declaration", "generator_function_declaration"),
        "class_declaration",
    )
)


def decisions(source: Source) -> Iterator[tuple[Node, str]]:
    """The expressions that decide outside of functions, each with its role: verdict (a last value), return, if, or the
    name that gets its value."""
    for node in walk(source.root, FUNCTIONS):
        inside = [child for child in node.named_children if child.type != "comment"]
        condition = node.child_by_field_name("condition")
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if node.type == "return_statement" and len(inside) == 1:
            yield inside[0], "return"
        elif node.type == "expression_statement" and len(inside) == 1 and _is_last(node):
            yield inside[0], "verdict"
        elif node.type == "if_statement" and condition is not None:
            yield bare(condition), "if"
        elif name is not None and name.type == "identifier" and value is not None and is_condition(value):
            yield value, source.of(name)


def _is_last(statement: Node) -> bool:
    """Whether the value of the statement can be that of the whole text."""
    node = statement
    while (parent := node.parent) is not None:
        if parent.type in ("program", "statement_block"):
            after = node.next_named_sibling
            while after is not None and not has_value(after):
                after = after.next_named_sibling
            if after is not None:
                return False
        if parent.type in ("switch_case", "switch_default", "finally_clause"):
            return False
        if parent.type == "for_statement" and parent.child_by_field_name("body") != node:
            return False
        node = parent
    return True


def has_value(node: Node) -> bool:
    """Whether a statement can give the trigger its verdict."""
    return node.type not in _NO_VALUE


def place_of_verdict(source: Source) -> tuple[int, int]:
    """Where `return` is missing: the last statement that has a value. Line and UTF-16 column, from 1."""
    valued = [one for one in source.root.named_children if has_value(one)]
    return source.place(valued[-1].start_byte if valued else 0)


def is_condition(node: Node) -> bool:
    operator = operator_of(bare(node))
    return operator in LOGICAL or operator in COMPARISONS or operator == "!"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """`rule`: its name in docs/reference/lint-rules.md. `start`: byte offset in the source."""

    rule: str
    message: str
    start: int


def at(rule: str, node: Node, message: str) -> LintFinding:
    """A finding that points at a node."""
    return LintFinding(rule, message, node.start_byte)


@dataclass(frozen=True)
class Subject:
    """A trigger that rules check. `now`: aware; times before it are past."""

    source: Source
    now: datetime

    @cached_property
    def constants(self) -> dict[str, Node]:
        """The values of names that are declared once, at the top level, and never assigned again."""
        found: dict[str, Node] = {}
        for node in self.source.root.named_children:
            if node.type not in ("lexical_declaration", "variable_declaration"):
                continue
            for one in node.named_children:
                name, value = one.child_by_field_name("name"), one.child_by_field_name("value")
                if name is not None and value is not None and name.type == "identifier":
                    found[self.source.of(name)] = bare(value)
        if not found:
            return found
        bound = Counter(
            self.source.of(node)
            for node in walk(self.source.root)
            if node.type == "shorthand_property_identifier_pattern" or (node.type == "identifier" and _is_bound(node))
        )
        return {name: value for name, value in found.items() if bound[name] == 1}

    def value(self, node: Node) -> Node:
        """The expression that a name means, without parentheses; the node itself if it is not such a name."""
        node = bare(node)
        for _ in range(_MOST_NAMES):
            meant = self.constants.get(self.source.of(node)) if node.type == "identifier" else None
            if meant is None:
                break
            node = meant
        return node

    def key(self, node: Node) -> str:
        """Equal for expressions that mean the same: names are replaced by their values, blanks do not count."""
        head, dot, rest = self.text(bare(node)).partition(".")
        owner = self.constants.get(head)
        if owner is not None and owner.type in ("new_expression", "call_expression"):
            head = self.text(owner)
        return head + dot + rest

    def text(self, node: Node) -> str:
        """The text of a node without blanks."""
        return "".join(self.source.of(node).split())


def _is_bound(node: Node) -> bool:
    """Whether the name may get a value here; if in doubt, True."""
    parent = node.parent
    if parent is None or parent.type not in _BINDERS:
        return False
    if parent.type == "arrow_function":
        return parent.child_by_field_name("parameter") == node
    value = parent.child_by_field_name("value") or parent.child_by_field_name("right")
    return value != node

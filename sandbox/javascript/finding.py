"""What a lint rule checks, and what it reports. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from sandbox.javascript import syntax
from sandbox.javascript.syntax import Source, bare

if TYPE_CHECKING:
    from tree_sitter import Node

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
class Finding:
    """`rule`: its name in docs/reference/lint-rules.md. `start`: byte offset in the source."""

    rule: str
    message: str
    start: int


def at(rule: str, node: Node, message: str) -> Finding:
    """A finding that points at a node."""
    return Finding(rule, message, node.start_byte)


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
            for node in syntax.walk(self.source.root)
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

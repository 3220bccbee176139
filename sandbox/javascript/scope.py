"""Names of a trigger that do not exist: scope analysis of its syntax tree. Pure; runs inside the worker.

A run of the trigger does not find them all (`a || nope` stops at `a`). The parser is native code that reads the text of
a stranger, so it runs in the worker. There is no recursion, because a stranger decides how deep the tree is.
Sources: ECMA-262 sections 8, 10.2.11 and 14 (scopes, parameters, var hoisting), node names of
tree-sitter-javascript 0.25.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.javascript.syntax import FUNCTIONS, Source, operator_of, parameters
from sandbox.reply_validation import MOST_UNKNOWN

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS = FUNCTIONS - {"class", "class_declaration"}
_BLOCKS = frozenset(("statement_block", "for_statement", "for_in_statement", "catch_clause", "switch_body", "class"))
_DECLARATIONS = frozenset(("variable_declaration", "lexical_declaration", "using_declaration"))
_REFERENCES = frozenset(("identifier", "shorthand_property_identifier", "shorthand_property_identifier_pattern"))
_HOISTED_NAMES = frozenset(("function_declaration", "generator_function_declaration", "class_declaration"))
_OWN_NAMES = frozenset(("function_expression", "generator_function", "class"))
_ESCAPE = re.compile(r"\\u(?:\{([0-9a-fA-F]{1,8})\}|([0-9a-fA-F]{4}))")
MOST_CANDIDATES = 1_000
MOST_SHOWN = 100
"""Characters of a name in a message."""
LONGEST_GUESSED = 60
"""Characters: comparing two texts takes time by the product of their lengths."""
# Not names of anything, though the parser may see them so.
_WORDS = frozenset(("await", "arguments", "undefined"))


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name that resolves to nothing. Line and UTF-16 column from 1. `nearest`: what was perhaps meant."""

    name: str
    line: int
    column: int
    nearest: str | None

    @property
    def message(self) -> str:
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        name = self.name if len(self.name) <= MOST_SHOWN else f"{self.name[:MOST_SHOWN]}…"
        return f"{name} is not defined{hint}"


@dataclass(slots=True)
class _Scope:
    parent: _Scope | None
    function: _Scope | None  # None: this is a function scope itself
    names: set[str] = field(default_factory=set)

    def home_of_var(self) -> _Scope:
        return self.function or self


def unknown_names(source: Source, known: Iterable[str]) -> list[Unknown]:
    """The first MOST_UNKNOWN unknown names, each once, in order. `source` compiles; `known`: the global names."""
    known = tuple(known)
    if source.root.has_error:
        return []  # V8 has compiled it, so the parser does not know this syntax, and its tree proves nothing
    top = _Scope(None, None, {*known} | _WORDS)
    found: dict[str, Unknown] = {}
    for node, scope in sorted(_references(source.root, top), key=lambda use: use[0].start_byte):
        if len(found) == MOST_UNKNOWN:
            break
        name = _name(node)
        if name in found or _resolves(name, scope):
            continue
        found[name] = Unknown(name, *source.place(node.start_byte), _nearest(name, scope, known))
    return list(found.values())


def _name(node: Node) -> str:
    """The name that an identifier means: it may be written with escapes, as `\\u0061bc`."""
    written = (node.text or b"").decode("utf-8", "replace")
    return _ESCAPE.sub(_character, written) if "\\" in written else written


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1] or escape[2], 16)
    return chr(code) if code <= 0x10FFFF else escape[0]


def _references(root: Node, top: _Scope) -> list[tuple[Node, _Scope]]:
    """Declares every name in its scope and gives the uses, to be resolved when all declarations are known."""
    uses: list[tuple[Node, _Scope]] = []
    bound: set[int] = set()
    pending: list[tuple[Node, _Scope]] = [(root, top)]
    while pending:
        node, scope = pending.pop()
        kind = node.type
        if kind in _REFERENCES:
            if node.id not in bound and not _is_only_asked_for(node):
                uses.append((node, scope))
            continue
        inner = scope
        if kind in _FUNCTIONS or _is_body(node):
            # Defaults of parameters do not see the `var`s of the body: it has a scope of its own.
            inner = _Scope(scope, None)
        elif kind in _BLOCKS:
            inner = _Scope(scope, scope.home_of_var())
        for home, pattern in _declared(node, scope, inner):
            for name in _bound_names(pattern):
                bound.add(name.id)
                home.names.add(_name(name))
        pending.extend((child, inner) for child in node.named_children)
    return uses


def _is_body(node: Node) -> bool:
    """Whether it is the block of a function."""
    return node.type == "statement_block" and node.parent is not None and node.parent.type in _FUNCTIONS


def _declared(node: Node, scope: _Scope, inner: _Scope) -> Iterator[tuple[_Scope, Node]]:
    """The patterns that a node binds, each with the scope that gets its names."""
    kind = node.type
    if kind in _DECLARATIONS:
        home = scope.home_of_var() if kind == "variable_declaration" else scope
        for child in node.named_children:
            if child.type == "variable_declarator" and (name := child.child_by_field_name("name")):
                yield home, name
    elif kind == "for_in_statement":
        declaration = node.child_by_field_name("kind")
        left = node.child_by_field_name("left")
        using = any(child.type == "using" for child in node.children)
        if left is not None and (declaration is not None or using):
            yield (scope.home_of_var() if declaration is not None and declaration.type == "var" else inner), left
    elif (kind in _HOISTED_NAMES or kind in _OWN_NAMES) and (name := node.child_by_field_name("name")):
        yield (scope if kind in _HOISTED_NAMES else inner), name
    if kind in _FUNCTIONS or kind == "catch_clause":
        for pattern in parameters(node):
            yield inner, pattern


def _bound_names(pattern: Node) -> Iterator[Node]:
    """The identifiers that a pattern binds; defaults and computed keys are uses and not among them."""
    pending = [pattern]
    while pending:
        node = pending.pop()
        match node.type:
            case "identifier" | "shorthand_property_identifier_pattern":
                yield node
            case "assignment_pattern" | "object_assignment_pattern":
                if left := node.child_by_field_name("left"):
                    pending.append(left)
            case "pair_pattern":
                if value := node.child_by_field_name("value"):
                    pending.append(value)
            case "object_pattern" | "array_pattern" | "rest_pattern":
                pending.extend(node.named_children)
            case _:
                pass


def _is_only_asked_for(node: Node) -> bool:
    """`typeof name` is allowed for a name that does not exist."""
    return node.parent is not None and operator_of(node.parent) == "typeof"


def _resolves(name: str, scope: _Scope | None) -> bool:
    while scope is not None:
        if name in scope.names:
            return True
        scope = scope.parent
    return False


def _nearest(name: str, scope: _Scope | None, known: Sequence[str]) -> str | None:
    """What was perhaps meant: among the global names and, from the inside out, those of the source."""
    if len(name) > LONGEST_GUESSED:
        return None
    names: dict[str, None] = dict.fromkeys(known)
    while scope is not None and len(names) < MOST_CANDIDATES:
        # Sorted, so that the same source gets the same guess.
        names |= dict.fromkeys(sorted(scope.names)[: MOST_CANDIDATES - len(names)])
        scope = scope.parent
    candidates = sorted(one for one in names if one not in _WORDS and len(one) <= LONGEST_GUESSED)
    by_fold = {one.casefold().replace("_", ""): one for one in candidates}
    close = difflib.get_close_matches(name.casefold().replace("_", ""), by_fold, n=1, cutoff=0.7)
    return by_fold[close[0]] if close else None

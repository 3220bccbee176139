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
from itertools import chain, islice

from sandbox.javascript.syntax import FUNCTIONS, LintFinding, Node, Source, at, operator_of, parameters
from sandbox.locale import _
from sandbox.protocol import MOST_UNKNOWN

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


@dataclass(slots=True)
class _Scope:
    parent: _Scope | None
    function: _Scope | None  # None: this is a function scope itself
    names: set[str] = field(default_factory=set)

    def home_of_var(self) -> _Scope:
        return self.function or self

    def around(self) -> Iterator[_Scope]:
        """This scope and those around it, from the inside out."""
        scope: _Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


def unknown_names(source: Source, known: Iterable[str]) -> list[LintFinding]:
    """The first MOST_UNKNOWN unknown names, each once, in order. `source` compiles; `known`: the global names."""
    known = tuple(known)
    if source.root.has_error:
        return []  # V8 has compiled it, so the parser does not know this syntax, and its tree proves nothing
    top = _Scope(None, None, {*known} | _WORDS)
    found: dict[str, LintFinding] = {}
    for node, scope in sorted(_references(source.root, top), key=lambda use: use[0].start_byte):
        if len(found) == MOST_UNKNOWN:
            break
        name = _name(node)
        if name in found or any(name in one.names for one in scope.around()):
            continue
        shown = name if len(name) <= MOST_SHOWN else f"{name[:MOST_SHOWN]}…"
        nearest = _nearest(name, scope, known)
        found[name] = at(
            "reference",
            node,
            _("{shown} is not defined{nearest}", shown, _("; did you mean {nearest}?", nearest) if nearest else ""),
        )
    return list(found.values())


def _name(node: Node) -> str:
    """The name that an identifier means: it may be written with escapes, as `\\u0061bc`."""

    def character(escape: re.Match[str]) -> str:
        code = int(escape[1] or escape[2], 16)
        return chr(code) if code <= 0x10FFFF else escape[0]

    return _ESCAPE.sub(character, (node.text or b"").decode("utf-8", "replace"))


def _references(root: Node, top: _Scope) -> list[tuple[Node, _Scope]]:
    """Declares every name in its scope and gives the uses, to be resolved when all declarations are known."""
    uses: list[tuple[Node, _Scope]] = []
    bound: set[int] = set()
    pending: list[tuple[Node, _Scope]] = [(root, top)]
    while pending:
        node, scope = pending.pop()
        kind = node.type
        if kind in _REFERENCES:
            # `typeof name` is allowed for a name that does not exist.
            if node.id not in bound and (node.parent is None or operator_of(node.parent) != "typeof"):
                uses.append((node, scope))
            continue
        inner = scope
        is_body = kind == "statement_block" and node.parent is not None and node.parent.type in _FUNCTIONS
        if kind in _FUNCTIONS or is_body:
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
    pending: list[Node | None] = [pattern]
    while pending:
        if (node := pending.pop()) is None:
            continue
        match node.type:
            case "identifier" | "shorthand_property_identifier_pattern":
                yield node
            case "assignment_pattern" | "object_assignment_pattern":
                pending.append(node.child_by_field_name("left"))
            case "pair_pattern":
                pending.append(node.child_by_field_name("value"))
            case "object_pattern" | "array_pattern" | "rest_pattern":
                pending.extend(node.named_children)


def _nearest(name: str, scope: _Scope, known: Sequence[str]) -> str | None:
    """What was perhaps meant: among the global names and, from the inside out, those of the source."""
    if len(name) > LONGEST_GUESSED:
        return None
    # Sorted, so that the same source gets the same guess.
    names = islice(chain(known, *(sorted(one.names) for one in scope.around())), MOST_CANDIDATES)
    candidates = sorted(one for one in {*names} - _WORDS if len(one) <= LONGEST_GUESSED)
    by_fold = {one.casefold().replace("_", ""): one for one in candidates}
    close = difflib.get_close_matches(name.casefold().replace("_", ""), by_fold, n=1, cutoff=0.7)
    return by_fold[close[0]] if close else None

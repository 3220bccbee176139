"""Names of a trigger that do not exist: scope analysis of its syntax tree. Pure; runs inside the worker.

A run of the trigger does not find them all (`a || nope` stops at `a`). The parser is native code that reads the text
of a stranger, so it runs in the worker. It does not recurse, because a stranger decides how deep the tree is.
Sources: ECMA-262 sections 8, 10.2.11 and 14 (scopes, parameters, var hoisting), node names of tree-sitter-javascript
0.25."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from languages import Sentence
from sandbox.javascript.syntax import (
    FUNCTIONS,
    LintFinding,
    Node,
    Source,
    at,
    operator_of,
    parameters,
)
from sandbox.protocol import MOST_UNKNOWN
from sandbox.values import frozen

_FUNCTIONS = FUNCTIONS - {"class", "class_declaration"}
_BLOCKS = frozenset(
    ("statement_block", "for_statement", "for_in_statement", "catch_clause", "switch_body", "class")
)
_DECLARATIONS = frozenset(("variable_declaration", "lexical_declaration", "using_declaration"))
_REFERENCES = frozenset(
    ("identifier", "shorthand_property_identifier", "shorthand_property_identifier_pattern")
)
_HOISTED_NAMES = frozenset(
    ("function_declaration", "generator_function_declaration", "class_declaration")
)
_OWN_NAMES = frozenset(("function_expression", "generator_function", "class"))
_ESCAPE = re.compile(r"\\u(?:\{([0-9a-fA-F]{1,8})\}|([0-9a-fA-F]{4}))")
MOST_CANDIDATES = 1_000
MOST_SHOWN = 100
"""Characters of a name in a message."""
LEAST_LIKENESS = 0.7
"""The least likeness of two names, from 0 to 1, at which a name is taken for a slip of the other."""
LONGEST_GUESSED = 60
"""Characters: comparing two texts takes time by the product of their lengths."""
# Not names of anything, though the parser may see them so.
_WORDS = frozenset(("await", "arguments", "undefined"))


@dataclass(slots=True)
class _Scope:
    """A scope with the names that are declared in it. `function`: the function scope around it, or None if it is
    itself a function scope."""

    parent: _Scope | None
    function: _Scope | None
    names: set[str] = field(default_factory=set)

    def home_of_var(self) -> _Scope:
        """Return the scope that gets the names of a `var`."""
        return self.function or self

    def around(self) -> Iterator[_Scope]:
        """Yield this scope and the scopes around it, from the inside out."""
        scope: _Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def sees(self, name: str) -> bool:
        """Tell whether the name is declared here or in a scope around."""
        return any(name in scope.names for scope in self.around())


@frozen
class _Use:
    """An identifier that is used and not declared, and the scope in which it stands."""

    node: Node
    scope: _Scope


def unknown_names(source: Source, global_names: Iterable[str]) -> list[LintFinding]:
    """Return the first MOST_UNKNOWN unknown names, each once, in order. `source` compiles."""
    global_names = tuple(global_names)
    if source.root.has_error:
        return []  # V8 has compiled it, so the parser does not know this syntax, and its tree proves nothing
    top = _Scope(None, None, {*global_names} | _WORDS)
    uses = sorted(_uses(source.root, top), key=lambda use: use.node.start_byte)
    findings: dict[str, LintFinding] = {}
    for use in uses:
        if len(findings) == MOST_UNKNOWN:
            break
        name = _name(use.node)
        if name not in findings and not use.scope.sees(name):
            message = _not_defined(name, _nearest(name, use.scope, global_names))
            findings[name] = at("reference", use.node, message)
    return list(findings.values())


def _not_defined(name: str, nearest: str | None) -> Sentence:
    """Return the message about an unknown name. `nearest`: the name that was perhaps meant."""
    shown = name
    if len(name) > MOST_SHOWN:
        shown = f"{name[:MOST_SHOWN]}…"
    hint: Sentence | str = ""
    if nearest is not None:
        hint = Sentence("; did you mean {nearest}?", nearest)
    return Sentence("{shown} is not defined{nearest}", shown, hint)


def _name(node: Node) -> str:
    """Return the name that an identifier means: it may be written with escapes, as `\\u0061bc`."""

    def character(escape: re.Match[str]) -> str:
        code = int(escape[1] or escape[2], 16)
        if code > sys.maxunicode:
            return escape[0]
        return chr(code)

    text = (node.text or b"").decode("utf-8", "replace")
    return _ESCAPE.sub(character, text)


def _uses(root: Node, top: _Scope) -> list[_Use]:
    """Declare every name in its scope and return the uses, to be resolved when all declarations are known."""
    uses: list[_Use] = []
    declared_nodes: set[int] = set()
    pending: list[tuple[Node, _Scope]] = [(root, top)]
    while pending:
        node, scope = pending.pop()
        if node.type in _REFERENCES:
            # `typeof name` is allowed for a name that does not exist.
            is_asked_for = node.parent is not None and operator_of(node.parent) == "typeof"
            if node.id not in declared_nodes and not is_asked_for:
                uses.append(_Use(node, scope))
            continue
        inner = _scope_inside(node, scope)
        for declaration in _declarations(node, scope, inner):
            for name in _bound_names(declaration.pattern):
                declared_nodes.add(name.id)
                declaration.home.names.add(_name(name))
        pending.extend((child, inner) for child in node.named_children)

    return uses


def _scope_inside(node: Node, scope: _Scope) -> _Scope:
    """Return the scope inside a node: a new scope, or the scope of the node itself."""
    is_body = (
        node.type == "statement_block"
        and node.parent is not None
        and node.parent.type in _FUNCTIONS
    )
    if node.type in _FUNCTIONS or is_body:
        # Defaults of parameters do not see the `var`s of the body: it has a scope of its own.
        return _Scope(scope, None)
    if node.type in _BLOCKS:
        return _Scope(scope, scope.home_of_var())
    return scope


@frozen
class _Declaration:
    """A pattern with names, and the scope that gets them."""

    home: _Scope
    pattern: Node


def _declarations(node: Node, scope: _Scope, inner: _Scope) -> Iterator[_Declaration]:
    """Yield what a node declares. `scope`: the scope around the node; `inner`: the scope inside it."""
    kind = node.type
    if kind in _DECLARATIONS:
        home = scope.home_of_var() if kind == "variable_declaration" else scope
        for pattern in _declared_patterns(node):
            yield _Declaration(home, pattern)
    elif kind == "for_in_statement":
        target = node.child_by_field_name("left")
        keyword = _loop_keyword(node)
        if target is not None and keyword is not None:
            yield _Declaration(scope.home_of_var() if keyword == "var" else inner, target)
    elif kind in _HOISTED_NAMES or kind in _OWN_NAMES:
        name = node.child_by_field_name("name")
        if name is not None:
            yield _Declaration(scope if kind in _HOISTED_NAMES else inner, name)

    if kind in _FUNCTIONS or kind == "catch_clause":
        for parameter in parameters(node):
            yield _Declaration(inner, parameter)


def _declared_patterns(declaration: Node) -> Iterator[Node]:
    """Yield `a` and `{b}` of `let a = 1, {b} = c`."""
    for declarator in declaration.named_children:
        name = declarator.child_by_field_name("name")
        if declarator.type == "variable_declarator" and name is not None:
            yield name


def _loop_keyword(loop: Node) -> str | None:
    """Return the word that declares the name of a `for ... of` or `for ... in`, or None if the loop declares nothing."""
    keyword = loop.child_by_field_name("kind")
    if keyword is not None:
        return keyword.type
    return "using" if any(child.type == "using" for child in loop.children) else None


def _bound_names(pattern: Node) -> Iterator[Node]:
    """Yield the identifiers that a pattern binds; defaults and computed keys are uses and not among them."""
    pending: list[Node | None] = [pattern]
    while pending:
        node = pending.pop()
        if node is None:
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


def _nearest(name: str, scope: _Scope, global_names: Sequence[str]) -> str | None:
    """Return the name that was perhaps meant: among the global names and, from the inside out, the
    names of the source. Return None if none is near."""
    if len(name) > LONGEST_GUESSED:
        return None
    # Sorted, so that the same source gets the same guess.
    names_of_source = [sorted(around.names) for around in scope.around()]
    names = islice(chain(global_names, *names_of_source), MOST_CANDIDATES)
    candidates = sorted(
        candidate for candidate in {*names} - _WORDS if len(candidate) <= LONGEST_GUESSED
    )
    by_fold = {_folded(candidate): candidate for candidate in candidates}
    closest = difflib.get_close_matches(_folded(name), by_fold, n=1, cutoff=LEAST_LIKENESS)
    return by_fold[closest[0]] if closest else None


def _folded(name: str) -> str:
    return name.casefold().replace("_", "")

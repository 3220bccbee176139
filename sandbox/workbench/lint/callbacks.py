"""Rules about functions that `some`, `find` or `filter` ask: promises, and bodies that return nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import syntax
from .finding import Finding, Subject, at

if TYPE_CHECKING:
    from tree_sitter import Node

PREDICATES = frozenset(("some", "every", "find", "findLast", "findIndex", "findLastIndex", "filter"))
"""Methods that ask a function about each element and look whether its answer is true."""


def callbacks(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    for node in syntax.walk(subject.source.root):
        if not is_predicate(subject, node):
            continue
        body = node.child_by_field_name("body")
        if any(child.type == "async" for child in node.children):
            yield at("always-true", node, "an async function gives a promise, which is always true; leave out `async`")
        elif body is not None and body.type == "statement_block" and not _returns(body):
            yield at("never-true", node, "this function returns nothing: write `return`, or leave out the braces")


def is_predicate(subject: Subject, node: Node) -> bool:
    """Whether the function is the first argument of one of PREDICATES."""
    if node.type not in ("arrow_function", "function_expression") or node.parent is None:
        return False
    call = node.parent.parent
    if call is None or call.type != "call_expression" or [one.id for one in syntax.arguments(call)][:1] != [node.id]:
        return False
    function = call.child_by_field_name("function")
    name = function.child_by_field_name("property") if function is not None else None
    return name is not None and subject.source.of(name) in PREDICATES


def _returns(body: Node) -> bool:
    """Whether anything comes back, or the body throws; a function inside is not part of it."""
    return any(one.type in ("return_statement", "throw_statement") for one in own(body))


def own(body: Node) -> Iterator[Node]:
    """The nodes of a function's body without those of functions inside it."""
    pending = [body]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(child for child in reversed(node.named_children) if child.type not in syntax.FUNCTIONS)

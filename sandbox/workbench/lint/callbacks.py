"""Rules about functions that `some`, `find` or `filter` ask: promises, and bodies that return nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sandbox.workbench.javascript import syntax
from sandbox.workbench.lint.finding import Finding, Subject, at

if TYPE_CHECKING:
    from tree_sitter import Node


def callbacks(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    if "=>" not in subject.source.text and "function" not in subject.source.text:
        return
    for node in syntax.walk(subject.source.root):
        if not syntax.is_predicate(subject.source, node):
            continue
        body = node.child_by_field_name("body")
        if any(child.type == "async" for child in node.children):
            yield at("always-true", node, "an async function gives a promise, which is always true; leave out `async`")
        elif body is not None and body.type == "statement_block" and not _returns(body):
            yield at("never-true", node, "this function returns nothing: write `return`, or leave out the braces")


def _returns(body: Node) -> bool:
    """Whether anything comes back, or the body throws; a function inside is not part of it."""
    return any(one.type in ("return_statement", "throw_statement") for one in syntax.own(body))

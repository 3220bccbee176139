"""Rules about `context.last_fired`: fields that it does not have, and its null, which nothing tests. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from languages import Sentence
from sandbox.javascript import syntax
from sandbox.javascript.syntax import LintFinding, Node, Subject, at, bare, operator_of, sides

_NAMES = ("context.last_fired", "args.last_fired")
_FIELDS = ("messages", "ms")
_OTHER_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("message", "count", "turns", "turn", "message_count"), "messages"),
    **dict.fromkeys(
        ("time", "date", "at", "ago", "seconds", "minutes", "hours", "days", "timestamp"), "ms"
    ),
}
"""What people may write for a field."""
_NEAR = 0.7


def firing_times(subject: Subject) -> Iterator[LintFinding]:
    source = subject.source
    if "last_fired" not in source.text:
        return

    uses = [node for node in syntax.walk(source.root) if _is_last_fired(subject, node)]
    is_tested = any(_field_read(node) is None for node in uses)
    for node in uses:
        read = _field_read(node)
        if read is None:
            continue
        name = read.child_by_field_name("property")
        field = "" if name is None else source.of(name)
        if name is not None and field not in _FIELDS:
            yield at(
                "unknown-field",
                name,
                Sentence("{value} has no {field}; {hint}", source.of(node), field, _hint(field)),
            )
        elif not is_tested:
            yield from _without_test(subject, node, read)


def _is_last_fired(subject: Subject, node: Node) -> bool:
    return node.type == "member_expression" and subject.source.of(node).replace("?.", ".") in _NAMES


def _field_read(node: Node) -> Node | None:
    """Return the expression that reads a field of this object, or None if the object is used as a whole, so its null
    may be tested."""
    parent = node.parent
    if parent is None or parent.type != "member_expression":
        return None
    owner = parent.child_by_field_name("object")
    return parent if owner is not None and owner.id == node.id else None


def _without_test(subject: Subject, node: Node, read: Node) -> Iterator[LintFinding]:
    text = subject.source.of(read)
    # `?.` does not fail for null, but gives undefined, and a comparison with it is false.
    if any(child.type == "optional_chain" for child in read.children):
        if _wants_large_number(read):
            yield at(
                "last-fired-null",
                node,
                Sentence(
                    "null until the memory has come, so it never comes: write `({text} ?? Infinity)`",
                    text,
                ),
            )
        return

    name = subject.source.of(node)
    yield at(
        "last-fired-null",
        node,
        Sentence(
            "null until the memory has come, and then this fails: test `{name} === null ||` before it",
            name,
        ),
    )


def _wants_large_number(read: Node) -> bool:
    """Tell whether the field is on the greater side of a comparison, as in `read > 10` and `10 < read`. Such a
    comparison is never true before the first firing, when the field is undefined."""
    comparison = syntax.with_parentheses(read).parent
    if comparison is None:
        return False
    operands = sides(comparison)
    if operands is None:
        return False
    left, _right = operands
    if bare(left).id == read.id:
        return operator_of(comparison) in (">", ">=")
    return operator_of(comparison) in ("<", "<=")


def _hint(field: str) -> Sentence:
    near = [_OTHER_FIELDS.get(field, ""), *difflib.get_close_matches(field, _FIELDS, 1, _NEAR)]
    meant = next(filter(None, near), None)
    if meant is None:
        return Sentence("there are {fields}", ", ".join(_FIELDS))
    return Sentence("did you mean {meant}?", meant)

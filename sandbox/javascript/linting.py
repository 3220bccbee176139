"""All lint rules on one trigger: code that runs but cannot be what the author meant. Pure; runs in the worker.

Each module of rules has one function: message_fields.py, key_calls.py, conditions.py, dates.py, date_traps.py,
and day_counts.py; this one has those about `context.last_fired`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from languages import Sentence
from sandbox.javascript import syntax
from sandbox.javascript.conditions import conditions
from sandbox.javascript.date_traps import date_traps
from sandbox.javascript.dates import dates
from sandbox.javascript.day_counts import day_counts
from sandbox.javascript.key_calls import key_calls
from sandbox.javascript.message_fields import message_fields
from sandbox.javascript.syntax import (
    LintFinding,
    Node,
    Source,
    Subject,
    at,
    bare,
    meant_name,
    operator_of,
    sides,
)
from sandbox.values import by_name

# --- rules ----------------------------------------------------------------------------------------

_NAMES = ("context.last_fired", "args.last_fired")
_FIELDS = ("messages", "ms")
_OTHER_FIELDS: Mapping[str, str] = by_name(
    {
        "messages": ["message", "count", "turns", "turn", "message_count"],
        "ms": ["time", "date", "at", "ago", "seconds", "minutes", "hours", "days", "timestamp"],
    }
)
"""What people may write for a field."""


def firing_times(subject: Subject) -> Iterator[LintFinding]:
    """Yield fields of `context.last_fired` that do not exist. If nothing tests it for null, yield
    also the reads that null breaks."""
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
                "{value} has no {field}; {hint}",
                source.of(node),
                field,
                _hint(field),
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
    """Find a read of a field that fails as long as `last_fired` is null. With `?.` it does not
    fail; then find one in a comparison that is not true before the first firing."""
    text = subject.source.of(read)
    # `?.` does not fail for null, but gives undefined, and a comparison with it is false.
    if any(child.type == "optional_chain" for child in read.children):
        if _wants_large_number(read):
            yield at(
                "last-fired-null",
                node,
                "null until the memory has come, so it never comes: write `({text} ?? Infinity)`",
                text,
            )
        return

    name = subject.source.of(node)
    yield at(
        "last-fired-null",
        node,
        "null until the memory has come, and then this fails: test `{name} === null ||` before it",
        name,
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
    quotient, _right = operands
    if bare(quotient).id == read.id:
        return operator_of(comparison) in (">", ">=")
    return operator_of(comparison) in ("<", "<=")


def _hint(field: str) -> Sentence:
    meant = meant_name(field, _OTHER_FIELDS, _FIELDS)
    if meant is None:
        return Sentence("there are {fields}", ", ".join(_FIELDS))
    return Sentence("did you mean {meant}?", meant)


# --- all rules --------------------------------------------------------------------------------

LONGEST_CHARS = 20_000
"""Characters of a trigger that is checked: the time of the rules grows with the square of the length."""
DEEPEST = 200
"""Levels of a syntax tree that is checked: the time of the rules grows with the square of the depth too."""
_RULES = (conditions, dates, day_counts, firing_times, date_traps, message_fields, key_calls)


def lint(source: Source, now: datetime) -> list[LintFinding]:
    """Return the findings in order of place; nothing for a text that does not parse, because V8 reports its error."""
    if source.broken or len(source.text) > LONGEST_CHARS or _is_too_deep(source.root):
        return []
    subject = Subject(source, now)
    findings: list[LintFinding] = []
    for rule in _RULES:
        findings += rule(subject)
    return sorted(findings, key=lambda finding: finding.start)


def _is_too_deep(root: Node) -> bool:
    """Tell whether nodes are nested more than DEEPEST levels."""
    level = [root]
    for _depth in range(DEEPEST):
        children: list[Node] = []
        for node in level:
            children += node.named_children
        level = children
    return bool(level)

"""All lint rules on one trigger: code that runs but cannot be what the author meant. Pure; runs in the worker."""

from __future__ import annotations

from datetime import datetime

from sandbox.javascript.conditions import conditions
from sandbox.javascript.dates import dates
from sandbox.javascript.finding import Finding, Subject
from sandbox.javascript.keys import keys
from sandbox.javascript.messages import messages
from sandbox.javascript.syntax import Source

LONGEST_CHARS, DEEPEST = 20_000, 200
"""Longer or deeper triggers are not checked: the time of the rules grows with the square of both."""


def lint(source: Source, now: datetime) -> list[Finding]:
    """The findings in order of place; none for a text that does not parse, because V8 reports its error."""
    if source.broken or len(source.text) > LONGEST_CHARS or _is_deep(source):
        return []
    subject = Subject(source, now)
    found = [*conditions(subject), *dates(subject), *messages(subject), *keys(subject)]
    return sorted(found, key=lambda one: one.start)


def _is_deep(source: Source) -> bool:
    level = [source.root]
    for _ in range(DEEPEST):
        level = [child for node in level for child in node.named_children]
    return bool(level)

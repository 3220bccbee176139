"""All lint rules over one trigger: what compiles and runs, and yet cannot be meant. Pure; runs inside the worker."""

from __future__ import annotations

from datetime import datetime

from sandbox.javascript.conditions import conditions
from sandbox.javascript.dates import dates
from sandbox.javascript.finding import Finding, Subject
from sandbox.javascript.keys import keys
from sandbox.javascript.messages import messages
from sandbox.javascript.syntax import Source

LONGEST_CHARS, DEEPEST = 20_000, 200
"""No longer trigger is looked at, and none that is nested deeper: rules take time by the square of both."""


def lint(source: Source, now: datetime) -> list[Finding]:
    """The findings by their place; nothing of a text that does not parse, of which V8 says what is wrong."""
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

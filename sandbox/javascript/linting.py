"""All lint rules on one trigger: code that runs but cannot be what the author meant. Pure; runs in the worker.

Each module of rules has one function: message_fields.py, key_calls.py, conditions.py, dates.py, date_traps.py,
day_counts.py and firing_times.py.
"""

from __future__ import annotations

from datetime import datetime

from sandbox.javascript.conditions import conditions
from sandbox.javascript.date_traps import date_traps
from sandbox.javascript.dates import dates
from sandbox.javascript.day_counts import day_counts
from sandbox.javascript.firing_times import firing_times
from sandbox.javascript.key_calls import key_calls
from sandbox.javascript.message_fields import message_fields
from sandbox.javascript.syntax import LintFinding, Node, Source, Subject

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
    level = [root]
    for _depth in range(DEEPEST):
        children: list[Node] = []
        for node in level:
            children += node.named_children
        level = children
    return bool(level)

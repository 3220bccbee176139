"""All rules over many sources: the pure ones one by one, the timed one in a single request for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sandbox.host.code_frame import caret
from sandbox.verdicts import Problem
from sandbox.workbench.javascript import syntax
from sandbox.workbench.javascript.syntax import Source
from sandbox.workbench.lint.callbacks import callbacks
from sandbox.workbench.lint.conditions import conditions
from sandbox.workbench.lint.dates import dates
from sandbox.workbench.lint.fields import fields
from sandbox.workbench.lint.finding import Edit, Finding, Subject
from sandbox.workbench.lint.keys import keys
from sandbox.workbench.lint.ranges import constants
from sandbox.workbench.lint.roles import roles
from sandbox.workbench.lint.slow_expressions import Suspect, slow_expressions, suspects
from sandbox.workbench.lint.switches import switched

_MOST_ROUNDS = 20
"""One is enough for most texts; an end is needed if two rules should ever disagree."""


def plain_findings(source: Source, now: datetime) -> list[Finding]:
    """What can be said without running anything. Nothing for a text that does not parse: V8 says what is wrong."""
    if source.broken:
        return []
    subject = Subject(source, now, constants(source))
    return [
        *conditions(subject),
        *callbacks(subject),
        *dates(subject),
        *roles(subject),
        *fields(subject),
        *keys(subject),
    ]


async def lint(texts: Sequence[str], now: datetime) -> list[list[Finding]]:
    """The findings of each text, in order, without those that its comments switch off. Raises SandboxError."""
    sources = [syntax.parse(text) for text in texts]
    found = [plain_findings(source, now) for source in sources]
    suspected: list[Suspect] = [
        one for number, source in enumerate(sources) if not source.broken for one in suspects(number, source)
    ]
    for number, finding in await slow_expressions(suspected, now):
        found[number].append(finding)
    return [switched(source, one) for source, one in zip(sources, found, strict=True)]


def problem(source: Source, finding: Finding) -> Problem:
    """As other findings about a trigger; the kind is the name of the rule."""
    line, column = source.place(finding.start)
    return Problem(finding.rule, finding.message, line, column, caret(source.text, line, column))


def fixed(source: Source, findings: Sequence[Finding]) -> tuple[str, int]:
    """The text with every certain fix that does not overlap an earlier one, and how many findings were fixed."""
    taken: list[Edit] = []
    count = 0
    for finding in sorted(findings, key=lambda one: one.start):
        overlaps = any(edit.start < one.end and one.start < edit.end for edit in finding.edits for one in taken)
        if finding.edits and not overlaps and not any(edit in taken for edit in finding.edits):
            taken += finding.edits
            count += 1
    content, done = b"", 0
    for edit in sorted(taken, key=lambda edit: (edit.start, edit.end)):
        content += source.content[done : edit.start] + edit.text.encode()
        done = edit.end
    return (content + source.content[done:]).decode(), count


def mended(text: str, now: datetime) -> tuple[str, int]:
    """The text after all certain fixes, also those that others made possible, and how many findings were fixed."""
    total = 0
    for _ in range(_MOST_ROUNDS):
        source = syntax.parse(text)
        better, count = fixed(source, switched(source, plain_findings(source, now)))
        if not count or syntax.parse(better).broken:
            break
        text, total = better, total + count
    return text, total

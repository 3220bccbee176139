"""`trigger-sandbox check` and `pack check`: all errors and warnings of triggers."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from languages import _, counted, foreign
from sandbox.host.supervisor import TriggerSandbox
from sandbox.rules import RULE_FIELDS, groups_of, rule_of
from sandbox.values import frozen
from sandbox.verdicts import CheckReport, Problem
from sandbox.workbench.explain import place_of
from sandbox.workbench.files import NamedTrigger, PackMemory, say_unusable, triggers_of
from sandbox.workbench.terminal import Terminal, settled

EXIT_FINE = 0
EXIT_PROBLEMS = 1
EXIT_MISUSE = 2
AT_ONCE = 200
"""Triggers in a request: they share its time, and a trigger that runs out of it is tried again alone."""
FEW = 50
"""As many triggers as one worker checks while a second one starts."""


def check(options: argparse.Namespace) -> int:
    """Check triggers. Return 1 when there is an error or a warning, 2 when a memory of a pack cannot be used. Raises
    UsageError."""
    triggers, unusable = triggers_of(options.files, options.encoding, code=options.code)
    reports = _checked(triggers)
    errors = sum(len(report.errors) for report in reports)
    warnings = sum(len(report.warnings) for report in reports)
    summary = _(
        "{triggers}: {errors}, {warnings}",
        counted(len(reports), "trigger"),
        counted(errors, "error") if errors else _("no errors"),
        counted(warnings, "warning") if warnings else _("no warnings"),
    )
    color = "green"
    if errors:
        color = "red"
    elif warnings:
        color = "yellow"

    rows = [_Row(trigger, report) for trigger, report in zip(triggers, reports, strict=True)]
    _show(rows, unusable, summary, color=color)
    # A memory that cannot be used was not checked at all.
    if unusable:
        return EXIT_MISUSE

    return EXIT_PROBLEMS if errors or warnings else EXIT_FINE


def check_pack(options: argparse.Namespace) -> int:
    """Check packs. Return 1 when a trigger of a pack has an error, 2 when a memory cannot be used. Raises UsageError."""
    triggers, unusable = triggers_of(options.packs, packs=True)
    started = time.perf_counter()
    reports = _checked(triggers)
    warnings_by_trigger = _rule_warnings(triggers)
    rows = [_Row(*parts) for parts in zip(triggers, reports, warnings_by_trigger, strict=True)]
    errors = sum(bool(row.report.errors) for row in rows)
    warnings = sum(bool(row.report.warnings or row.rule_warnings) for row in rows)
    summary = _(
        "{triggers}: {errors} with errors, {warnings} with warnings",
        counted(len(rows), "trigger"),
        errors,
        warnings,
    )
    summary += _(" ({perf_counter:.2f} s)", time.perf_counter() - started)
    _show(rows, unusable, summary, color="red" if errors else "green")
    if unusable:
        return EXIT_MISUSE

    return EXIT_PROBLEMS if errors else EXIT_FINE


@frozen
class _Row:
    """What is known of a trigger. `rule_warnings`: sentences about the rules of its memory."""

    trigger: NamedTrigger
    report: CheckReport
    rule_warnings: Sequence[str] = ()


def _rule_warnings(triggers: Sequence[NamedTrigger]) -> list[Sequence[str]]:
    """Return for each trigger the sentences about the rules of its memory."""
    packs: dict[str, list[PackMemory]] = {}
    for trigger in triggers:
        if trigger.memory is not None:
            packs.setdefault(trigger.file, []).append(trigger.memory)
    warnings = {pack: iter(rule_warnings(memories)) for pack, memories in packs.items()}
    return [() if trigger.memory is None else next(warnings[trigger.file]) for trigger in triggers]


def _checked(triggers: Sequence[NamedTrigger]) -> list[CheckReport]:
    """Return the report about each trigger, in order. Raises UsageError when nothing can be run
    here."""
    sources = [trigger.source for trigger in triggers]
    now = datetime.now().astimezone()
    workers = None if len(sources) > FEW else 1

    async def work() -> list[CheckReport]:
        reports: list[CheckReport] = []
        async with TriggerSandbox(workers=workers) as sandbox:
            for begin in range(0, len(sources), AT_ONCE):
                reports += await sandbox.check_all(
                    sources[begin : begin + AT_ONCE], now=now, seed=0
                )
        return reports

    return settled(work())


def _show(
    rows: Sequence[_Row], unusable: Sequence[tuple[str, str]], summary: str, *, color: str
) -> None:
    """Show the errors and warnings of each trigger, the memories that cannot be used, and the
    summary."""
    terminal = Terminal(sys.stdout)
    say_unusable(terminal, unusable)
    has_several_files = len({row.trigger.file for row in rows}) > 1
    for row in rows:
        name = row.trigger.name
        if has_several_files and name != row.trigger.file:
            name = f"{row.trigger.file}: {name}"
        for problem in row.report.errors:
            _show_problem(terminal, f"{name}: {_('error')}", problem, color="red")
        for problem in row.report.warnings:
            _show_problem(terminal, f"{name}: {_('warning')}", problem, color="yellow")
        for sentence in row.rule_warnings:
            terminal.show(f"{name}: {_('warning')}: " + sentence, "yellow")
    terminal.show(summary, color)
    if unusable:
        terminal.show(_("{unusable} more cannot be used", len(unusable)), "red")


def _show_problem(terminal: Terminal, heading: str, problem: Problem, *, color: str) -> None:
    sentence = foreign(problem.message) + f" ({problem.kind})" + place_of(problem)
    terminal.show(f"{heading}: " + sentence, color)
    for line in problem.caret.splitlines():
        terminal.show(f"    {line}")


# --- rules of a pack ------------------------------------------------------------------------------

_OF_RECURSION = (
    "excludeRecursion",
    "preventRecursion",
    "delayUntilRecursion",
    "maxRecursionSteps",
)
_OTHER_FIELDS = (
    "book",
    "uid",
    "entryKeys",
    "groupKeys",
    "imported",
    "placement",
    "notes",
    "conversation_id",
    "createdAt",
    "updatedAt",
)
"""Fields that are no rules, and near to one or not."""
_NEAR = 0.8
"""How near an unknown field must be to a rule to be taken for its misspelling."""


def rule_warnings(memories: Sequence[PackMemory]) -> list[list[str]]:
    """For each memory of a pack a sentence about each of its rules that cannot be or changes nothing."""
    members = Counter(chain.from_iterable(groups_of(memory.extra) for memory in memories))
    return [list(_warnings_of(memory, members)) for memory in memories]


def _warnings_of(memory: PackMemory, members: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each rule of a memory that has no effect: its value or name is wrong, or
    other fields make it void. `members`: how many memories each group has."""
    fields = {name: memory.extra[name] for name in RULE_FIELDS if name in memory.extra}
    for name, value in fields.items():
        if not RULE_FIELDS[name].admits(value):
            yield _(
                "`{field}` must be {what}, not {value}; it has no effect",
                name,
                _(RULE_FIELDS[name].may_be),
                _shown(value),
            )

    for name in memory.extra:
        near = _rule_near(name)
        if near is not None:
            yield _("`{field}` is no rule; did you mean `{near}`?", name, near)

    for group in groups_of(memory.extra):
        if members[group] == 1:
            yield _(
                "no other memory of this pack is in the group `{group}`, so the group changes nothing",
                group,
            )

    has_cooldown = rule_of(memory.extra, "cooldown") > 0
    if rule_of(memory.extra, "once") and (has_cooldown or rule_of(memory.extra, "sticky")):
        field = "cooldown" if has_cooldown else "sticky"
        yield _(
            "`{field}` has no effect beside `once`: the memory comes in one message of a chat",
            field,
        )

    is_recursive = rule_of(memory.extra, "recursive")
    if not is_recursive:
        for name in _OF_RECURSION:
            if fields.get(name):
                yield _("`{field}` has no effect without `recursive: true`", name)

    if is_recursive and not _book_of(memory):
        yield _(
            "`recursive` has no effect without `book`: only texts of the same book are searched"
        )


def _rule_near(name: str) -> str | None:
    """Return the rule of which this field is a misspelling, or None if it is a rule, or another field."""
    if name in RULE_FIELDS or name in _OTHER_FIELDS:
        return None
    rules = {_plain(rule): rule for rule in RULE_FIELDS}
    near = difflib.get_close_matches(_plain(name), rules, n=1, cutoff=_NEAR)
    if not near:
        return None
    return rules[near[0]]


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _book_of(memory: PackMemory) -> str:
    """Return the id of the book of a memory, as an export writes it, or ""."""
    book = memory.extra.get("book")
    book_id = book.get("id") if isinstance(book, dict) else None
    if not isinstance(book_id, str):
        return ""
    return book_id


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

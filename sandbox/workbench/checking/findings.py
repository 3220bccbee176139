"""What is wrong with a trigger before it is stored; every command uses this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sandbox.host.supervisor import TriggerSandbox
from sandbox.javascript import syntax
from sandbox.javascript.positions import caret
from sandbox.javascript.syntax import Source
from sandbox.verdicts import CheckReport, Problem
from sandbox.workbench.usage import settled

AT_ONCE = 200
"""Triggers in one request: they share its time, and one that runs out of it is tried again alone."""


FEW = 50
"""As many triggers as one worker checks while a second one starts."""


def checked(sources: Sequence[str], now: datetime) -> list[CheckReport]:
    """`of_sources` with a new sandbox. Raises UsageError when nothing can be run here."""

    async def all_of_them() -> list[CheckReport]:
        async with TriggerSandbox(workers=None if len(sources) > FEW else 1) as sandbox:
            return await of_sources(sandbox, sources, now)

    return settled(all_of_them())


async def of_sources(sandbox: TriggerSandbox, sources: Sequence[str], now: datetime) -> list[CheckReport]:
    """Everything known about each trigger, in order. Raises SandboxError when nothing can be run here."""
    found: list[CheckReport] = []
    for begin in range(0, len(sources), AT_ONCE):
        part = sources[begin : begin + AT_ONCE]
        reports = await sandbox.check_all(part, now=now, seed=0)
        for source, report in zip(part, reports, strict=True):
            parsed = syntax.parse(source)
            errors = tuple(_placed(parsed, one) for one in report.errors)
            found.append(CheckReport(errors, tuple(_placed(parsed, one) for one in report.warnings)))
    return found


def as_json(name: str, file: str, found: CheckReport) -> dict[str, Any]:
    """The row of one trigger in `check --json` and `pack check --json`."""
    return {
        "file": file,
        "name": name,
        "errors": [_row(one) for one in found.errors],
        "warnings": [_row(one) for one in found.warnings],
    }


def unusable_as_json(file: str, sentence: str) -> dict[str, Any]:
    """The row of a memory that has no trigger to check."""
    return as_json("", file, CheckReport((Problem("unusable", sentence, None, None, ""),), ()))


def _row(problem: Problem) -> dict[str, Any]:
    row = asdict(problem)
    return {"rule": row.pop("kind"), **row}


def sentence(problem: Problem) -> str:
    """What is wrong, the rule, and where."""
    place = f" at line {problem.line}, column {problem.column}" if problem.line is not None else ""
    return f"{problem.message} ({problem.kind}){place}"


def _placed(source: Source, problem: Problem) -> Problem:
    """The problem with a place. A problem of the whole trigger, such as a timeout, points at its beginning."""
    if problem.line is not None and problem.column is not None:
        return problem
    throws = [one for one in syntax.walk(source.root) if one.type == "throw_statement"]
    first = next((one for one in source.root.named_children if one.type != "comment"), source.root)
    node = throws[0] if problem.kind == "thrown" and len(throws) == 1 else first
    line, column = source.place(node.start_byte)
    return replace(problem, line=line, column=column, caret=caret(source.text, line, column))

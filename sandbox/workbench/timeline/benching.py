"""`trigger-sandbox bench`: what a search with these triggers costs, the slowest of them, and their slowest operands.

The clock of a search is exact to 1 ms, and an honest trigger takes a fraction of that. So the slowest are run again,
many times in one request, and an operand is timed as the trigger that has nothing else in its place.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sandbox.errors import SandboxError
from sandbox.host.supervisor import TriggerSandbox
from sandbox.limits import Limits
from sandbox.verdicts import Failed
from sandbox.workbench.explain.operands import Operand, operands
from sandbox.workbench.javascript import syntax
from sandbox.workbench.progress import Bar
from sandbox.workbench.sources.files import UsageError
from sandbox.workbench.sources.subjects import Subject, subjects_to_run
from sandbox.workbench.terminal import Terminal, cells, fit
from sandbox.workbench.timeline.chat_replay import Journey
from sandbox.workbench.timeline.picture import journey_of

EXIT_MISUSE = 2
SAMPLES = 12
"""Messages of the chat at which a search is timed, spread evenly."""
LEAST_RUNS = 60
"""Of triggers at each sampled message, before the slowest are chosen: a few are run again and again."""
TIMES = 40
"""Runs of one trigger in one request."""
_MOST_NAME = 24


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of one run, at the dearest of the sampled messages."""

    subject: Subject
    ms: float
    operands: tuple[tuple[Operand, float], ...] = ()


@dataclass(slots=True)
class Report:
    """`searches`: wall milliseconds of a search with all triggers, at each sampled message.

    `failures`: of each trigger that failed, by its place, the number of the first message and what happened there.
    """

    searches: list[float] = field(default_factory=list)
    slowest: list[Cost] = field(default_factory=list)
    failures: dict[int, tuple[int, Failed]] = field(default_factory=dict)


def bench(options: argparse.Namespace) -> int:
    """Returns 0, 1 when a trigger failed or a search is over its budget, 2 when a memory of a pack cannot be used.

    Raises UsageError.
    """
    given = subjects_to_run(options.files, options.encoding)
    subjects = given.found
    if options.top < 1:
        raise UsageError("--top must be at least 1")
    journey = journey_of(options)
    limits = Limits()
    try:
        report = asyncio.run(_measured(subjects, journey, options.tz, options.top, limits))
    except SandboxError as error:
        raise UsageError(str(error)) from error
    code = _show(Terminal(sys.stdout), subjects, report, limits)
    return EXIT_MISUSE if given.unusable else code


async def _measured(
    subjects: Sequence[Subject], journey: Journey, timezone: str | None, top: int, limits: Limits
) -> Report:
    numbers = _spread(len(journey.messages))
    moments = journey.moments()
    sources = [one.source for one in subjects]
    report = Report()
    totals = [0] * len(subjects)
    bar = Bar(len(numbers) + top, "measurements")
    async with TriggerSandbox(limits, timezone=timezone, workers=1) as sandbox:
        await sandbox.evaluate(["1"], {"messages": []}, now=moments[0], seed=0)
        for done, number in enumerate(numbers, start=1):
            began = time.perf_counter()
            context, now = journey.context(number), moments[number - 1]
            verdicts = await sandbox.evaluate(sources, context, now=now, seed=journey.seed)
            report.searches.append((time.perf_counter() - began) * 1000)
            for index, one in enumerate(verdicts):
                if isinstance(one, Failed):
                    report.failures.setdefault(index, (number, one))
            sound = [index for index in range(len(sources)) if index not in report.failures]
            rounds = max(0, LEAST_RUNS // len(sources) - 1)
            if again := [index for _ in range(rounds) for index in sound]:
                verdicts += await sandbox.evaluate([sources[n] for n in again], context, now=now, seed=journey.seed)
            for index, one in zip([*range(len(sources)), *again], verdicts, strict=True):
                totals[index] += one.elapsed_us
            bar(done)

        async def cost(source: str) -> float | None:
            """Of one run, at the last sampled message; None when none came to its end."""
            number = numbers[-1]
            verdicts = await sandbox.evaluate(
                [source] * TIMES, journey.context(number), now=moments[number - 1], seed=journey.seed
            )
            # Many runs of a slow one fill the time of a request: those that were stopped say nothing.
            spans = [one.elapsed_us for one in verdicts if not isinstance(one, Failed)]
            return sum(spans) / len(spans) / 1000 if spans else None

        # What failed has no time of its own: it was stopped, or left by a throw.
        dearest = sorted(sound, key=lambda index: -totals[index])[:top]
        for done, index in enumerate(dearest, start=len(numbers) + 1):
            source = sources[index]
            timed = [(part, await cost(_alone(source, part))) for part in _parts(source)]
            parts = sorted(((part, ms) for part, ms in timed if ms is not None), key=lambda pair: -pair[1])
            if (whole := await cost(source)) is not None:
                report.slowest.append(Cost(subjects[index], whole, tuple(parts[:3])))
            bar(done)
    bar.end()
    report.slowest.sort(key=lambda one: -one.ms)
    return report


def _spread(total: int) -> list[int]:
    """Message numbers from 1, the last always among them."""
    count = min(SAMPLES, total)
    return [total * step // count for step in range(1, count + 1)]


def _parts(source: str) -> list[Operand]:
    """The operands of the last value or of a `return`."""
    found = operands(syntax.parse(source))
    return [one for one in found if one.kind == "operand" and one.depth == 1 and one.role in ("verdict", "return")]


def _alone(source: str, part: Operand) -> str:
    """The trigger with an operand in place of the decision that it is a part of.

    Negated, which costs nothing: after a line without a semicolon a bracket would make a call of it.
    """
    found = operands(syntax.parse(source))
    whole = next(one for one in found if one.kind == "decision" and one.start <= part.start and part.end <= one.end)
    content = source.encode()
    operand = b"!(" + content[part.start : part.end] + b")"
    return (content[: whole.start] + operand + content[whole.end :]).decode()


def _show(terminal: Terminal, subjects: Sequence[Subject], report: Report, limits: Limits) -> int:
    count = len(subjects)
    worst = max(report.searches)
    mean = sum(report.searches) / len(report.searches)
    budget = limits.search_seconds * 1000
    plural = "" if count == 1 else "s"
    terminal.say(
        f"a search with {count} trigger{plural}: {mean:.1f} ms, at most {worst:.1f} ms; "
        f"{worst / budget:.1%} of the budget of {limits.search_seconds:g} s",
        "red" if worst > budget else "green",
    )
    for index, (number, failed) in sorted(report.failures.items()):
        place = f" at line {failed.line}, column {failed.column}" if failed.line is not None else ""
        terminal.say(f"{subjects[index].name}: failed at #{number} ({failed.kind}): {failed.message}{place}", "red")
    if report.failures:
        terminal.say("their time is in that of the search, and they are left out below", "faint")
    if not report.slowest:
        return 1
    width = min(_MOST_NAME, max(cells(cost.subject.name) for cost in report.slowest))
    room = max(20, min(terminal.width, 120) - width - 16)
    terminal.say(f"{'slowest':<{width}}  {'ms':>8}", "faint")
    for cost in report.slowest:
        terminal.say(f"{fit(cost.subject.name, width)}  {cost.ms:>8.3f}")
        for part, ms in cost.operands:
            terminal.say(f"{'':<{width}}  {ms:>8.3f}  {fit(part.text, room).rstrip()}", "faint")
    return int(worst > budget or bool(report.failures))

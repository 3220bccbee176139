"""`trigger-sandbox timeline`: where along a chat triggers fire, as a picture, a page or a comparison."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Failed, Fired, Verdict
from sandbox.workbench.fixtures.outcomes import said, word
from sandbox.workbench.journey import Journey, journey_of
from sandbox.workbench.sources.files import read_text, write_files
from sandbox.workbench.sources.subjects import say_unusable, subjects_of
from sandbox.workbench.terminal import Terminal, bar, cells, counted, fit
from sandbox.workbench.timeline import page
from sandbox.workbench.timeline.chat_replay import Course, follow, rhythm
from sandbox.workbench.usage import UsageError, settled

EXIT_FINE, EXIT_DIFFERENT, EXIT_MISUSE = 0, 1, 2
FIRED, QUIET, FAILED = "#", ".", "!"
_MOST_NAME = 24
_FIGURES = 24
"""Cells of the columns right of the picture."""
_STYLES = {FIRED: "green", FAILED: "red", QUIET: "dim"}


def timeline(options: argparse.Namespace) -> int:
    """Returns 1 when a trigger failed somewhere, or with --compare when a verdict changed.

    2 when a memory of a pack cannot be used. Raises UsageError.
    """
    given = subjects_of(options.files, options.encoding)
    subjects = given.found
    if not subjects:
        raise UsageError(f"{' and '.join(options.files)}: no trigger in it; give a pack or a file with a trigger")
    say_unusable(Terminal(sys.stderr), given.unusable)
    journey = journey_of(options)
    if not journey.messages:
        raise UsageError(f"{options.chat} has no messages; give a chat with some")
    file = _page_file(options.html) if options.html else None
    terminal = Terminal(sys.stdout)
    if options.compare is not None:
        if len(subjects) != 1:
            raise UsageError("--compare takes one new trigger and the old one; name one FILE")
        old = read_text(options.compare, options.encoding)
        before, after = travel([old, subjects[0].source], journey)
        changed = _compare(terminal, journey, before, after)
        return EXIT_MISUSE if given.unusable else EXIT_DIFFERENT if changed else EXIT_FINE
    courses = travel([one.source for one in subjects], journey)
    names = [Path(one.name).stem if one.path else one.name for one in subjects]
    _draw(terminal, names, courses)
    if file:
        text = page.page(names, courses, journey.messages, journey.moments())
        write_files([(file, text)], force=True)
        terminal.say(f"written: {file}")
    if given.unusable:
        return EXIT_MISUSE
    failed = any(isinstance(verdict, Failed) for course in courses for verdict in course.verdicts)
    return EXIT_DIFFERENT if failed else EXIT_FINE


def travel(sources: Sequence[str], journey: Journey) -> list[Course]:
    """The courses; shows a progress bar. Raises UsageError when nothing can be run here."""

    async def work() -> list[Course]:
        async with TriggerSandbox(timezone=journey.timezone) as sandbox:
            with bar(len(journey.messages), "messages") as progress:
                return await follow(sandbox, sources, journey, progress)

    return settled(work())


def _page_file(name: str) -> Path:
    path = Path(name)
    try:
        ours = not path.exists() or path.read_text(encoding="utf-8", errors="replace").startswith(page.MARK)
    except OSError as error:
        raise UsageError(f"{name} cannot be written: {error.strerror}") from error
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist; make it first")
    if not ours:
        raise UsageError(f"{name} exists and is not a timeline; choose another name")
    return path


def _draw(terminal: Terminal, names: Sequence[str], courses: Sequence[Course]) -> None:
    total = len(courses[0].verdicts) if courses else 0
    width = min(_MOST_NAME, max((cells(name) for name in names), default=0))
    each = per_mark(total, max(10, min(terminal.width, 160) - width - _FIGURES - 2))
    marks = -(-total // each)
    scale = counted(each, "message")
    terminal.say(f"{counted(total, 'message')}, {scale} per mark: {FIRED} fired  {QUIET} quiet  {FAILED} failed", "dim")
    terminal.say(f"{'':<{width}}  {'':<{marks}}  fired    rate silence", "dim")
    for name, course in zip(names, courses, strict=True):
        beat = rhythm(course.verdicts)
        terminal.say(f"{fit(name, width)}  ", end="")
        for mark, run in groupby(picture(course.verdicts, each)):
            terminal.say("".join(run), _STYLES[mark], end="")
        terminal.say(f"  {beat.fired:>5} {beat.rate:>7.1%} {beat.silence:>7}")
    for name, course in zip(names, courses, strict=True):
        for line in _remarks(course):
            terminal.say(f"{name}: {line}", "yellow")


def per_mark(total: int, width: int) -> int:
    """How many messages one mark stands for, so that the picture has at most `width` marks."""
    return max(1, -(-total // max(1, width)))


def picture(verdicts: Sequence[Verdict], each: int) -> str:
    """One mark for `each` messages: failed if one failed, else fired if one fired."""
    marks = "".join(
        FIRED if isinstance(one, Fired) else FAILED if isinstance(one, Failed) else QUIET for one in verdicts
    )
    parts = (marks[begin : begin + each] for begin in range(0, len(marks), each))
    return "".join(FAILED if FAILED in part else FIRED if FIRED in part else QUIET for part in parts)


def _remarks(course: Course) -> Iterator[str]:
    beat = rhythm(course.verdicts)
    for text, count in beat.failures:
        yield f"failed {count} time{'' if count == 1 else 's'}, first at #{beat.first_failure}: {text}"
    for one in course.never:
        yield f"never true: {fit(one.text, 70).rstrip()} (line {one.line})"
    for one in course.unreached:
        yield f"never reached: {fit(one.text, 70).rstrip()} (line {one.line})"


def _compare(terminal: Terminal, journey: Journey, before: Course, after: Course) -> int:
    """Prints the verdicts that changed. Returns how many."""
    changed = 0
    pairs = zip(before.verdicts, after.verdicts, strict=True)
    for number, (old, new) in enumerate(pairs, start=1):
        if _told_apart(old) == _told_apart(new):
            continue
        changed += 1
        message = journey.messages[number - 1]
        who = message.get("name") or message["role"]
        terminal.say(f"#{number} {who}: {fit(message['content'], 60).rstrip()}")
        terminal.say(
            f"    the old one {said(old)}; the new one {said(new)}", _STYLES[FIRED if word(new) == "fired" else QUIET]
        )
    total = len(before.verdicts)
    terminal.say(f"{changed} of {counted(total, 'verdict')} changed", "yellow" if changed else "green")
    return changed


def _told_apart(verdict: Verdict) -> str:
    return verdict.kind if isinstance(verdict, Failed) else word(verdict)

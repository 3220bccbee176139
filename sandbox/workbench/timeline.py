"""`trigger-sandbox timeline`: where along a chat triggers fire, as a picture or a comparison.

The verdicts are those of a search for each message, as the server makes it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count, groupby
from pathlib import Path

from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.locale import _, counted, term
from sandbox.verdicts import Failed, Fired, Verdict
from sandbox.workbench.chat_replay import Replay, replay_of
from sandbox.workbench.explain import said, word
from sandbox.workbench.files import NamedTrigger, read_text, say_unusable, triggers_of
from sandbox.workbench.terminal import Terminal, UsageError, bar, cells, fit, settled

EXIT_FINE, EXIT_DIFFERENT, EXIT_MISUSE = 0, 1, 2
MOST_AT_ONCE = 4
"""Searches in flight: as many as a sandbox has workers."""
FIRED, QUIET, FAILED = "#", ".", "!"
_MOST_NAME, _MOST_CODE = 24, 60
_FIGURES = 24
"""Cells of the columns right of the picture."""
_MOST_KINDS = 3
"""Different failures of a trigger that are named, the most frequent first."""
_STYLES = {FIRED: "green", FAILED: "red", QUIET: "dim"}


def timeline(options: argparse.Namespace) -> int:
    """Returns 1 when a trigger failed somewhere, or with --compare when a verdict changed. 2 when a memory of a pack
    cannot be used. Raises UsageError."""
    triggers, unusable = triggers_of(options.files, options.encoding, code=options.code)
    if not triggers:
        raise UsageError("{files}: no trigger in it; give a pack or a file with a trigger", " and ".join(options.files))
    say_unusable(Terminal(sys.stderr), unusable)
    replay = replay_of(options)
    if not replay.messages:
        raise UsageError("{chat} has no messages; give a chat with some", options.chat)
    terminal = Terminal(sys.stdout)
    if options.compare is not None:
        if len(triggers) != 1:
            raise UsageError("--compare takes one new trigger and the old one; name one FILE")
        old = read_text(options.compare, options.encoding)
        before, after = replayed([old, triggers[0].source], replay)
        changed = _compare(terminal, replay, before, after)
        return EXIT_MISUSE if unusable else EXIT_DIFFERENT if changed else EXIT_FINE
    series = replayed([one.source for one in triggers], replay)
    _draw(terminal, list(map(_shown_name, triggers)), series)
    if unusable:
        return EXIT_MISUSE
    failed = any(isinstance(verdict, Failed) for verdicts in series for verdict in verdicts)
    return EXIT_DIFFERENT if failed else EXIT_FINE


def _shown_name(trigger: NamedTrigger) -> str:
    """The name of a memory, the beginning of a file's name, or the code of -e."""
    if trigger.file == "-e":
        return fit(trigger.source, _MOST_CODE).rstrip()
    return Path(trigger.name).stem if trigger.name == trigger.file else trigger.name


def replayed(sources: Sequence[str], replay: Replay) -> list[tuple[Verdict, ...]]:
    """For each source the verdicts at all messages; shows a progress bar. Raises UsageError."""

    async def work() -> list[tuple[Verdict, ...]]:
        async with TriggerSandbox(timezone=replay.timezone) as sandbox:
            with bar(len(replay.messages), _("messages")) as progress:
                return await verdicts_along(sandbox, sources, replay.scenes(), progress)

    return list(zip(*settled(work()), strict=True))


async def verdicts_along(
    sandbox: TriggerSandbox,
    sources: Sequence[str],
    scenes: Sequence[Scene],
    progress: Callable[[int], None] = lambda _: None,
) -> list[tuple[Verdict, ...]]:
    """The verdicts of a search for each scene. Calls `progress` with the number of finished ones. Raises
    SandboxError."""
    places, finished = asyncio.Semaphore(MOST_AT_ONCE), count(1)

    async def search(scene: Scene) -> tuple[Verdict, ...]:
        async with places:
            verdicts = await sandbox.evaluate(sources, scene.context, now=scene.now, seed=scene.seed)
        progress(next(finished))
        return verdicts

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(search(scene)) for scene in scenes]
    return [task.result() for task in tasks]


def _draw(terminal: Terminal, names: Sequence[str], series: Sequence[Sequence[Verdict]]) -> None:
    total = len(series[0])
    width = min(_MOST_NAME, max(map(cells, names)))
    each = per_mark(total, max(10, min(terminal.width, 160) - width - _FIGURES - 2))
    marks = -(-total // each)
    scale = counted(each, "message")
    terminal.show(
        _(
            "{messages}, {scale} per mark: {fired} fired  {quiet} quiet  {failed} failed",
            counted(total, "message"),
            scale,
            FIRED,
            QUIET,
            FAILED,
        ),
        "dim",
    )
    terminal.show(f"{'':<{width}}  {'':<{marks}}  {term('fired    rate silence')}", "dim")
    for name, verdicts in zip(names, series, strict=True):
        terminal.show(f"{fit(name, width)}  ", end="")
        for mark, run in groupby(picture(verdicts, each)):
            terminal.show("".join(run), _STYLES[mark], end="")
        fired = sum(isinstance(verdict, Fired) for verdict in verdicts)
        terminal.show(f"  {fired:>5} {fired / total:>7.1%} {longest_silence(verdicts):>7}")
    for name, verdicts in zip(names, series, strict=True):
        failed = [(number, one) for number, one in enumerate(verdicts, start=1) if isinstance(one, Failed)]
        kinds = Counter(_("{kind}: {reason}", one.kind, one.message) for _number, one in failed)
        for text, times in kinds.most_common(_MOST_KINDS):
            terminal.show(
                _(
                    "{name}: failed {times}, first at #{failed}: {text}",
                    name,
                    counted(times, "time"),
                    failed[0][0],
                    text,
                ),
                "yellow",
            )


def longest_silence(verdicts: Sequence[Verdict]) -> int:
    runs = groupby(isinstance(one, Fired) for one in verdicts)
    return max((len(list(run)) for fired, run in runs if not fired), default=0)


def per_mark(total: int, width: int) -> int:
    """How many messages one mark stands for, so that the picture has at most `width` marks."""
    return max(1, -(-total // max(1, width)))


def picture(verdicts: Sequence[Verdict], each: int) -> str:
    """One mark for `each` messages: failed if one failed, else fired if one fired."""
    kinds = [type(one) for one in verdicts]
    parts = (kinds[begin : begin + each] for begin in range(0, len(kinds), each))
    return "".join(FAILED if Failed in part else FIRED if Fired in part else QUIET for part in parts)


def _compare(terminal: Terminal, replay: Replay, before: Sequence[Verdict], after: Sequence[Verdict]) -> int:
    changed = 0
    for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
        kinds = [one.kind if isinstance(one, Failed) else word(one) for one in (old, new)]
        if kinds[0] == kinds[1]:
            continue
        changed += 1
        message = replay.messages[number - 1]
        who = message.get("name") or message["role"]
        terminal.show(f"#{number} {who}: {fit(message['content'], 60).rstrip()}")
        terminal.show(
            _("    the old one {said}; the new one {said2}", said(old), said(new)),
            _STYLES[FIRED if word(new) == "fired" else QUIET],
        )
    said_of_all = _("{changed} of {verdicts} changed", changed, counted(len(before), "verdict"))
    terminal.show(said_of_all, "yellow" if changed else "green")
    return changed

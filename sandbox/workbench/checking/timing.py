"""`trigger-sandbox check --time`: how long one run of each trigger takes along a chat.

The clock of a search has steps of 1 ms, and most triggers take less. So each runs many times in a request.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import datetime

from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Failed
from sandbox.workbench.chat_replay import Replay
from sandbox.workbench.fixtures.outcomes import said
from sandbox.workbench.sources.files import read_chat
from sandbox.workbench.sources.packs import Subject
from sandbox.workbench.terminal import Terminal, bar, cells, fit
from sandbox.workbench.usage import UsageError, settled

SAMPLES = 12
"""Messages of the chat at which triggers are timed, evenly spread."""
RUNS = 40
"""Runs of one trigger in one request."""
_MOST_NAME = 40


def show_times(terminal: Terminal, subjects: Sequence[Subject], chat: str, encoding: str | None, now: datetime) -> bool:
    """Prints the median and the longest time of each trigger, the slowest first. Returns whether all finished.

    Raises UsageError.
    """
    messages = read_chat(chat, encoding)
    if not messages:
        raise UsageError(f"{chat} has no messages; give a chat with some")
    found = settled(_measured([one.source for one in subjects], Replay(messages=messages, now=now)))
    timed = {one.name: ms for one, ms in zip(subjects, found, strict=True) if not isinstance(ms, str)}
    width = min(_MOST_NAME, max(map(cells, timed), default=0))
    terminal.say(f"{'ms of one run':<{width}}    median   slowest", "dim")
    for name, ms in sorted(timed.items(), key=lambda row: -max(row[1])):
        terminal.say(f"{fit(name, width)}  {statistics.median(ms):>8.3f}  {max(ms):>8.3f}")
    for one, failure in zip(subjects, found, strict=True):
        if isinstance(failure, str):
            terminal.say(f"{one.name}: not timed: {failure}", "red")
    return len(timed) == len(subjects)


async def _measured(sources: Sequence[str], replay: Replay) -> list[list[float] | str]:
    """The result of `_times` for each source; shows a progress bar."""
    scenes = replay.scenes()
    sample = [(number, scenes[number - 1]) for number in sampled(len(scenes))]
    found: list[list[float] | str] = []
    async with TriggerSandbox(workers=1) as sandbox:
        await sandbox.warm()  # its start does not count for a trigger
        with bar(len(sources), "triggers") as progress:
            for source in sources:
                found.append(await _times(sandbox, source, sample))
                progress(len(found))
    return found


async def _times(sandbox: TriggerSandbox, source: str, sample: Sequence[tuple[int, Scene]]) -> list[float] | str:
    """Milliseconds of one run at each message, or where and how the trigger failed."""
    found: list[float] = []
    for number, scene in sample:
        (alone,) = await sandbox.evaluate([source], scene.context, now=scene.now, seed=scene.seed)
        if isinstance(alone, Failed):
            return f"at #{number} it {said(alone)}"
        verdicts = await sandbox.evaluate([source] * RUNS, scene.context, now=scene.now, seed=scene.seed)
        # Many runs of a slow trigger use up the time of a request: runs that were stopped do not count.
        whole = [one.elapsed_us for one in verdicts if not isinstance(one, Failed)] or [alone.elapsed_us]
        found.append(sum(whole) / len(whole) / 1000)
    return found


def sampled(total: int) -> list[int]:
    """Message numbers from 1; the last one is always included."""
    count = min(SAMPLES, total)
    return [total * step // count for step in range(1, count + 1)]

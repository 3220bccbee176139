"""Runs the same triggers at each message of a chat: a search for each message, with many searches in one request.

A new realm for each message costs several times what its triggers do. So the messages of a batch share one realm, as
the triggers of a search do. If a trigger has to be stopped, the batch is discarded: each of its messages is searched
alone, and the next batches are short until no trigger was stopped for a while.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence

from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Verdict

MOST_AT_ONCE = 4
"""Batches in flight, so that the workers stay busy while answers are read."""
MOST_MESSAGES = 40
BATCH_SECONDS = 0.5
"""The time that a batch should take: far less than the time limit of one search, which applies to it."""
MOST_TURNS = 4_000
"""Runs of triggers in one batch."""
MOST_CHARACTERS = 1_000_000
"""Of the contexts in one batch: a few MB of the V8 heap."""


class BatchSizer:
    """Chooses how many messages the next batch has."""

    def __init__(self) -> None:
        self._calm = 1  # messages since a trigger was last stopped
        self._seconds = 0.0

    def size(self, runs: int, characters: int) -> int:
        """`runs`: triggers at each message. `characters`: of a context."""
        most = min(MOST_MESSAGES, self._calm, MOST_TURNS // max(1, runs), MOST_CHARACTERS // max(1, characters))
        if self._seconds:
            most = min(most, int(BATCH_SECONDS / self._seconds))
        return max(1, most)

    def note(self, messages: int, seconds: float, *, stopped: bool) -> None:
        """Takes in how long a batch took."""
        self._calm = 0 if stopped else self._calm + messages
        self._seconds = seconds / messages


async def verdicts_along(
    sandbox: TriggerSandbox,
    sources: Sequence[str],
    scenes: Sequence[Scene],
    progress: Callable[[int], None] = lambda _: None,
) -> list[tuple[Verdict, ...]]:
    """The verdicts of `TriggerSandbox.evaluate` for each scene. Calls `progress` with the number of finished scenes.

    Raises SandboxError.
    """
    rows: list[tuple[Verdict, ...]] = [()] * len(scenes)
    sizer = BatchSizer()
    begun = done = 0

    async def walk() -> None:
        nonlocal begun, done
        while begun < len(scenes):
            first = begun
            characters = len(json.dumps(scenes[first].context, default=str))
            begun = min(len(scenes), first + sizer.size(len(sources), characters))
            part = scenes[first:begun]
            at = time.monotonic()
            found = await sandbox.evaluate_scenes(sources, part)
            sizer.note(len(part), time.monotonic() - at, stopped=found is None)
            for number, scene in enumerate(part, start=first):
                (rows[number],) = (
                    [found[number - first]] if found else await sandbox.evaluate_scenes(sources, [scene]) or [()]
                )
                done += 1
                progress(done)

    async with asyncio.TaskGroup() as group:
        for _ in range(MOST_AT_ONCE):
            group.create_task(walk())
    return rows

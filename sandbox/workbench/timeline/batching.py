"""Runs the same triggers at each message of a chat: a search for each message, with many searches in one request.

A new realm for each message costs several times what its triggers do. So a stretch of messages shares one realm, as
the triggers of a search do. If a trigger has to be stopped, the stretch is discarded: each of its messages is searched
alone, and the next stretches are short until no trigger was stopped for a while.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import TracedCopy, Verdict
from sandbox.workbench.explain.operands import Operand

CONDITIONS = ("decision", "operand")
"""Kinds of operands that are conditions themselves."""
MOST_AT_ONCE = 4
"""Stretches in flight, so that the workers stay busy while answers are read."""
MOST_MESSAGES = 40
STRETCH_SECONDS = 0.5
"""The time that a stretch should take: far less than the time limit of one search, which applies to it."""
MOST_TURNS = 4_000
"""Runs of triggers in one stretch."""
MOST_CHARACTERS = 1_000_000
"""Of the contexts in one stretch: a few MB of the V8 heap."""


@dataclass(slots=True)
class Traced:
    """A copy, its operands, and the values seen so far: bit 1 for false, bit 2 for true."""

    copy: TracedCopy
    operands: Sequence[Operand]
    seen: list[int]

    def note(self, digits: str) -> None:
        for number, digit in enumerate(digits[: len(self.seen)]):
            self.seen[number] |= int(digit)

    @property
    def settled(self) -> bool:
        return all(seen & 2 for seen, one in zip(self.seen, self.operands, strict=True) if one.kind in CONDITIONS)


class Pace:
    """Chooses how many messages the next stretch has."""

    def __init__(self) -> None:
        self._calm = 1  # messages since a trigger was last stopped
        self._seconds = 0.0

    def stretch(self, runs: int, characters: int) -> int:
        """`runs`: triggers and copies at each message. `characters`: of a context."""
        most = min(MOST_MESSAGES, self._calm, MOST_TURNS // max(1, runs), MOST_CHARACTERS // max(1, characters))
        if self._seconds:
            most = min(most, int(STRETCH_SECONDS / self._seconds))
        return max(1, most)

    def went(self, messages: int, seconds: float, *, stopped: bool) -> None:
        self._calm = 0 if stopped else self._calm + messages
        self._seconds = seconds / messages


async def verdicts_along(
    sandbox: TriggerSandbox,
    sources: Sequence[str],
    scenes: Sequence[Scene],
    traced: Sequence[Traced] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> list[tuple[Verdict, ...]]:
    """The verdicts of `TriggerSandbox.evaluate` for each scene. Calls `progress` with the number of finished scenes.

    Raises SandboxError.
    """
    rows: list[tuple[Verdict, ...]] = [()] * len(scenes)
    pace = Pace()
    begun = done = 0

    async def ask(part: Sequence[Scene]) -> list[tuple[Verdict, ...]] | None:
        wanted = [one for one in traced if not one.settled]
        answer = await sandbox.evaluate_scenes(sources, [one.copy for one in wanted], part)
        for _, bits in answer or ():
            for position, digits in bits.items():
                wanted[position].note(digits)
        return None if answer is None else [verdicts for verdicts, _ in answer]

    async def walk() -> None:
        nonlocal begun, done
        while begun < len(scenes):
            runs = len(sources) + sum(not one.settled for one in traced)
            first = begun
            begun = min(len(scenes), first + pace.stretch(runs, _characters(scenes[first])))
            part = scenes[first:begun]
            at = time.monotonic()
            found = await ask(part)
            pace.went(len(part), time.monotonic() - at, stopped=found is None)
            for number, scene in enumerate(part, start=first):
                (rows[number],) = [found[number - first]] if found else await ask([scene]) or [()]
                done += 1
                progress(done)

    async with asyncio.TaskGroup() as group:
        for _ in range(MOST_AT_ONCE):
            group.create_task(walk())
    return rows


def _characters(scene: Scene) -> int:
    return len(json.dumps(scene.context, default=str))

"""One life of a home from its first step to its last look, and what was found wrong in it."""

from __future__ import annotations

import asyncio
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from lived_in import lore as _lore
from lived_in import plans as _plans
from lived_in import steps as _steps
from lived_in import world as _world
from lived_in.counts import contents, faults_of_counts
from lived_in.elsewhere import faults_of_copies, faults_of_the_laptop
from lived_in.faces import Look, faults_of_output
from lived_in.house import House
from lived_in.life import Step
from lived_in.workshop import lived_in

from sandbox import TriggerSandbox

LOOK_EVERY = 12
"""Steps between two looks at all faces."""


@dataclass
class Run:
    """What a life consisted of, and the faults that were found."""

    steps: Sequence[Step]
    taken: int = 0
    asked: int = 0
    looks: int = 0
    faults: list[str] = field(default_factory=list)

    def report(self) -> str:
        lives = " ".join(map(str, self.steps[: self.taken]))
        return "\n".join(
            [*self.faults, f"Replay: .venv/bin/python -m lived_in '{lives}'  (in the folder tests)"]
        )


def live(
    steps: Sequence[Step],
    runner: asyncio.Runner,
    sandbox: TriggerSandbox,
    *,
    look_every: int = LOOK_EVERY,
    most_pages: int = 60,
) -> Run:
    """Take the steps one after the other in an empty home, and look at all faces every few steps and at the end."""
    run = Run(steps)
    with (
        tempfile.TemporaryDirectory(prefix="lived-in-", ignore_cleanup_errors=True) as folder,
        lived_in(Path(folder), runner, sandbox) as house,
    ):
        for number, step in enumerate(steps, 1):
            run.taken = number
            _take(step, house, run)
            if number % look_every == 0 or number == len(steps):
                _look(house, run, Random(number), most_pages, copies=number == len(steps))
            if run.faults:
                break
    return run


def _take(step: Step, house: House, run: Run) -> None:
    try:
        output = step.take(house)
    except Exception:
        run.faults.append(f"step {step}: {traceback.format_exc()[-4_000:]}")
        return
    if output is not None:
        run.faults += [
            f"step {step}, {' '.join(output.words)}: {fault}" for fault in faults_of_output(output)
        ]
    run.faults += [f"step {step}: the log has {text[-1_500:]}" for text in house.log.texts]
    house.log.texts.clear()


def _look(house: House, run: Run, rng: Random, most_pages: int, *, copies: bool) -> None:
    look = Look(house, rng, most_pages)
    try:
        before = contents(house)
        look.at_everything()
        look.faults += faults_of_counts(house)
        after = contents(house)
        look.faults += [f"looking took away {record[:600]}" for record in before - after]
        look.faults += [f"looking brought {record[:600]}" for record in after - before]
        look.faults += faults_of_the_laptop(house)
        if copies:
            look.faults += faults_of_copies(house)
    except Exception:
        look.faults.append(traceback.format_exc()[-4_000:])
    run.asked += look.asked
    run.looks += 1
    run.faults += look.faults


HAPPENS = (_steps, _world, _lore, _plans)
"""The modules whose steps a life is drawn from."""

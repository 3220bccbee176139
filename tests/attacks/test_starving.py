"""No trigger takes another's time: innocent triggers stored after hostile ones have their verdicts, the first time too.

Each search is the first of a new process, as in the hook, which knows no record of anybody and keeps no spare worker.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from attacks.cases import Attack, every_attack, sample
from attacks.driver import CROWDED_TRIES, EXPECTED, INNOCENT, crowded, outcome

from sandbox import Fired

ROOT = Path(__file__).resolve().parents[2]
STARVING = [attack for attack in every_attack() if attack.category == "starving"]
DEMANDING = "Array.from({ length: 60000 }, (_, i) => ({ i })).length === 60000"
"""Some 10 ms and 4 MB."""
INNOCENTS = dict(zip((*INNOCENT, DEMANDING), (*EXPECTED, Fired), strict=True))
ENDLESS = "for (;;) /* {} */;"
BURNING = "let x = {}; for (let i = 0; i < {:.0f}; i++) x = (x * 31 + i) | 0; false"
"""Turns of the loop: 20 to 25 million take a second."""
SEARCH = """
import asyncio, json, sys
from attacks.driver import CONTEXT, NOW, outcome
from sandbox import SandboxLimits, TriggerSandbox

async def search(triggers, times):
    seconds = {
        name: times * getattr(SandboxLimits(), name)
        for name in ("trigger_seconds", "sprint_seconds", "after_timeout_seconds", "search_seconds")
    }
    limits = SandboxLimits(**seconds)
    async with TriggerSandbox(limits, workers=1, spare=False) as sandbox:
        return await sandbox.evaluate(triggers, CONTEXT, now=NOW, seed=7)

verdicts = asyncio.run(search(json.load(sys.stdin), int(sys.argv[1])))
print(json.dumps([(outcome(verdict), str(verdict)) for verdict in verdicts]))
"""


def verdicts_of(triggers: Sequence[str], times: int) -> list[tuple[str, str]]:
    """The verdicts of a search in a new process with so many times the usual seconds, each as one word and in full."""
    process = subprocess.run(
        [sys.executable, "-c", SEARCH, str(times)],
        input=json.dumps(triggers),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        timeout=60,
        check=True,
    )
    return [(word, whole) for word, whole in json.loads(process.stdout)]


def check(triggers: Sequence[str]) -> None:
    """Seconds of a search are those of a clock on the wall: where others crowd the processors, it is repeated with more
    of them, as much as the processors are slower."""
    indices = [index for index, trigger in enumerate(triggers) if trigger in INNOCENTS]
    expected = [outcome(INNOCENTS[triggers[index]](1)) for index in indices]
    for number in range(CROWDED_TRIES):
        verdicts = verdicts_of(triggers, 1 + number)
        innocent = [verdicts[index] for index in indices]
        if [word for word, _ in innocent] == expected or not crowded():
            break
    assert [word for word, _ in innocent] == expected, innocent


@pytest.mark.parametrize("attack", sample(STARVING, 28), ids=lambda attack: attack.name)
def test_a_trigger_that_is_stored_before_others_takes_no_verdict_from_them(attack: Attack) -> None:
    check([attack.source, *INNOCENTS])


@pytest.mark.full
@pytest.mark.parametrize("attack", STARVING, ids=lambda attack: attack.name)
def test_no_trigger_that_is_stored_before_others_takes_a_verdict_from_them(attack: Attack) -> None:
    check([attack.source, *INNOCENTS])


def mixed(seed: int, count: int) -> list[str]:
    return [attack.source for attack in random.Random(seed).sample(STARVING, count)]


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 23))]
)
def test_several_hostile_triggers_take_no_verdict_from_the_others(seed: int) -> None:
    check([*mixed(seed, 5), *INNOCENTS])


@pytest.mark.full
def test_hostile_triggers_between_the_others_take_no_verdict_from_them() -> None:
    triggers: list[str] = []
    for number, innocent in enumerate(INNOCENTS):
        triggers.append(BURNING.format(number, 15e6))
        triggers.append(innocent)
    check(triggers)


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(
            [ENDLESS.format(number) for number in range(24)], marks=pytest.mark.full, id="endless"
        ),
        pytest.param(
            [BURNING.format(number, 2.5e6) for number in range(24)], id="below their limit"
        ),
        pytest.param(
            [f"new Array(2 ** 32 - 1 - {number}).copyWithin(1, 0).length" for number in range(4)],
            id="stuck in a function of V8",
        ),
        pytest.param(
            [f"new Array(1e9 + {number}).fill(0).length" for number in range(4)],
            marks=pytest.mark.full,
            id="crashing",
        ),
    ],
)
def test_many_of_one_kind_take_no_verdict_from_the_others(hostile: list[str]) -> None:
    check([*hostile, *INNOCENT])


@pytest.mark.full
def test_many_that_need_nearly_a_sprint_take_no_verdict_from_the_others() -> None:
    check([*(BURNING.format(number, 1e6) for number in range(48)), *INNOCENT])


def test_there_are_a_hundred_ways_to_starve_others() -> None:
    assert len({attack.source for attack in STARVING}) >= 100

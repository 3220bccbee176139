"""A home that was lived in: whatever happened in it, each face says sensible things, and all say the same counts.

A life is drawn as steps with seeds; a failing one prints its steps, which `python -m lived_in 'STEPS'` takes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest
from lived_in.runs import live
from lived_in.steps import random_life
from lived_in.workshop import workshop

from sandbox import TriggerSandbox


@pytest.fixture(scope="module")
def workroom() -> Iterator[tuple[asyncio.Runner, TriggerSandbox]]:
    with workshop() as made:
        yield made


@pytest.mark.parametrize(
    "number", [*range(4), *(pytest.param(number, marks=pytest.mark.full) for number in range(4, 300))]
)
def test_a_home_that_was_lived_in(workroom: tuple[asyncio.Runner, TriggerSandbox], number: int) -> None:
    run = live(random_life(Random(number), 24 if number < 4 else 60), *workroom)
    assert not run.faults, run.report()

"""A home that was lived in: whatever happened in it, each face says sensible things, and all say the same counts.

A life is drawn as steps with seeds; a failing one prints its steps, which `python -m lived_in 'STEPS'` takes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest
from lived_in.life import random_life
from lived_in.runs import live
from lived_in.workshop import workshop

from sandbox import TriggerSandbox


@pytest.fixture(scope="module")
def workroom() -> Iterator[tuple[asyncio.Runner, TriggerSandbox]]:
    with workshop() as runner_and_sandbox:
        yield runner_and_sandbox


SHORT = 4
"""Lives of `make test`."""
LONG = 200
"""Lives of `make test-full`."""


@pytest.mark.parametrize("number", range(SHORT))
def test_a_home_that_was_lived_in(
    workroom: tuple[asyncio.Runner, TriggerSandbox], number: int
) -> None:
    run = live(random_life(Random(number), 20), *workroom, look_every=10, most_pages=20)
    assert not run.faults, run.report()


@pytest.mark.full
@pytest.mark.parametrize("number", range(SHORT, SHORT + LONG))
def test_a_home_that_was_lived_in_for_long(
    workroom: tuple[asyncio.Runner, TriggerSandbox], number: int
) -> None:
    run = live(random_life(Random(number), 60), *workroom, look_every=20)
    assert not run.faults, run.report()

"""A home that was lived in: whatever happened in it, each face says sensible things, and all say the same counts.

A short life takes one step of each kind and is looked at when it ends: a look takes longer than all steps. A long one
draws its steps by weight and is looked at on its way, too. Each step has a seed; a failing life prints its steps, which
`python -m lived_in 'STEPS'` takes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest
from lived_in.life import life_of_every_kind, random_life
from lived_in.runs import live
from lived_in.workshop import workshop

from sandbox import TriggerSandbox


@pytest.fixture(scope="module")
def workroom() -> Iterator[tuple[asyncio.Runner, TriggerSandbox]]:
    with workshop() as runner_and_sandbox:
        yield runner_and_sandbox


SHORT = (5, 7)
"""Lives of `make test`. The first ends in Chinese, with a linked machine and a tenant; the second in English, with
many rooms and notes and without a tenant, so that its copy in PostgreSQL is compared, too."""
LONG = 200
"""Lives of `make test-full`."""


@pytest.mark.parametrize("number", SHORT)
def test_a_home_that_was_lived_in(
    workroom: tuple[asyncio.Runner, TriggerSandbox], number: int
) -> None:
    run = live(life_of_every_kind(Random(number)), *workroom, look_every=100, most_pages=10)
    assert not run.faults, run.report()


@pytest.mark.full
@pytest.mark.parametrize("number", range(LONG))
def test_a_home_that_was_lived_in_for_long(
    workroom: tuple[asyncio.Runner, TriggerSandbox], number: int
) -> None:
    run = live(random_life(Random(number), 60), *workroom, look_every=20)
    assert not run.faults, run.report()

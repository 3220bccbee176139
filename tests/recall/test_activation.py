"""Which long-term memories come to mind, given the verdicts."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from sample_memories import trigger

from memory_server.conversations.recall.activation import Activation, Shelved, activate
from sandbox import Failed, Fired, Quiet, Verdict

FIRED, QUIET = Fired(10), Quiet(10)
BROKEN = Failed("thrown", "x is undefined", 1, 3, 10)
LATE = Failed("timeout", "it ran longer than 1 s", None, None, 10)


def activated(*verdicts: Verdict, seed: int = 1, count: int = 2) -> Activation:
    with_shared = [Shelved("chat", trigger(f"t{n}")) for n in range(len(verdicts))]
    return activate(with_shared, dict(enumerate(verdicts)), rng=Random(seed), random_count=count)


def names(items: tuple[Shelved, ...]) -> list[str]:
    return [item.memory.name for item in items]


def test_verdicts_sort_the_memories() -> None:
    found = activated(FIRED, QUIET, BROKEN, FIRED, LATE)
    assert names(found.activated) == ["t0", "t3"]
    assert [(item.memory.name, verdict) for item, verdict in found.failed] == [("t2", BROKEN), ("t4", LATE)]
    assert found.searched == 5


@pytest.mark.parametrize(
    ("verdicts", "count", "drawn"),
    [
        ([], 2, 0),
        ([FIRED, FIRED], 2, 0),
        ([QUIET], 2, 1),
        ([QUIET, QUIET, QUIET], 2, 2),
        ([QUIET, FIRED, BROKEN], 2, 2),
        ([QUIET, QUIET], 0, 0),
        ([QUIET, QUIET], 9, 2),
    ],
)
def test_up_to_two_that_did_not_fire_come_by_chance(verdicts: list[Verdict], count: int, drawn: int) -> None:
    found = activated(*verdicts, count=count)
    assert len(found.random) == drawn
    assert len(set(names(found.random))) == drawn
    assert not set(names(found.random)) & set(names(found.activated))


def test_chance_is_even() -> None:
    rounds = 2000
    drawn = Counter(
        name
        for seed in range(rounds)
        for name in names(activated(QUIET, BROKEN, QUIET, QUIET, FIRED, seed=seed).random)
    )
    assert set(drawn) == {"t0", "t1", "t2", "t3"}
    # Each is expected in half of the rounds, with a standard deviation of 22.
    assert all(abs(count - rounds / 2) < 5 * 22 for count in drawn.values())


def test_the_same_seed_draws_the_same() -> None:
    assert activated(*[QUIET] * 9, seed=5) == activated(*[QUIET] * 9, seed=5)


def test_a_trigger_without_a_verdict_was_quiet() -> None:
    with_shared = [Shelved("chat", trigger(f"t{n}")) for n in range(9)]
    whole = {index: FIRED if index in (0, 4, 5) else BROKEN if index == 7 else QUIET for index in range(9)}
    ran = {index: verdict for index, verdict in whole.items() if verdict is not QUIET}
    for seed in range(50):
        found = activate(with_shared, ran, rng=Random(seed), random_count=3)
        assert found == activate(with_shared, whole, rng=Random(seed), random_count=3)
        assert not set(names(found.random)) & {"t0", "t4", "t5"}

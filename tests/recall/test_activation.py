"""Which long-term memories come to mind, given the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import pytest
from sample_memories import trigger

from memory_server.conversations.trigger_search import drawn_by_chance, failed_in, fired_in
from memory_server.lore.shelf import Shelved
from sandbox import Failed, Fired, Quiet, Verdict

FIRED = Fired(10)
QUIET = Quiet(10)
BROKEN = Failed("thrown", "x is undefined", 1, 3, 10)
LATE = Failed("timeout", "it ran longer than 1 s", None, None, 10)


@dataclass(frozen=True)
class Sorted:
    """What one search makes of verdicts, by the names of the memories `t0`, `t1` and so on."""

    fired: list[str]
    random: list[str]
    failed: list[tuple[str, Failed]]


def sorted_by(
    verdicts: Mapping[int, Verdict], memories: int, seed: int = 1, count: int = 2
) -> Sorted:
    shelf = [Shelved("chat", trigger(f"t{number}")) for number in range(memories)]
    fired = fired_in(verdicts)
    drawn = drawn_by_chance(shelf, frozenset(fired), rng=Random(seed), count=count)
    return Sorted(
        fired=[shelf[index].memory.name for index in fired],
        random=[item.memory.name for item in drawn],
        failed=[(item.memory.name, failure) for item, failure in failed_in(verdicts, shelf)],
    )


def activated(*verdicts: Verdict, seed: int = 1, count: int = 2) -> Sorted:
    return sorted_by(dict(enumerate(verdicts)), len(verdicts), seed, count)


def test_verdicts_sort_the_memories() -> None:
    answer = activated(FIRED, QUIET, BROKEN, FIRED, LATE)
    assert answer.fired == ["t0", "t3"]
    assert answer.failed == [("t2", BROKEN), ("t4", LATE)]


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
def test_up_to_two_that_did_not_fire_come_by_chance(
    verdicts: list[Verdict], count: int, drawn: int
) -> None:
    answer = activated(*verdicts, count=count)
    assert len(answer.random) == drawn
    assert len(set(answer.random)) == drawn
    assert not set(answer.random) & set(answer.fired)


def test_chance_is_even() -> None:
    rounds = 2000
    drawn: Counter[str] = Counter()
    for seed in range(rounds):
        drawn.update(activated(QUIET, BROKEN, QUIET, QUIET, FIRED, seed=seed).random)
    assert set(drawn) == {"t0", "t1", "t2", "t3"}
    # Each is expected in half of the rounds, with a standard deviation of 22.
    assert all(abs(count - rounds / 2) < 5 * 22 for count in drawn.values())


def test_the_same_seed_draws_the_same() -> None:
    assert activated(*[QUIET] * 9, seed=5) == activated(*[QUIET] * 9, seed=5)


def test_a_trigger_without_a_verdict_was_quiet() -> None:
    without_quiet: dict[int, Verdict] = {0: FIRED, 4: FIRED, 5: FIRED, 7: BROKEN}
    with_quiet: dict[int, Verdict] = dict.fromkeys(range(9), QUIET) | without_quiet
    for seed in range(50):
        answer = sorted_by(without_quiet, 9, seed, 3)
        assert answer == sorted_by(with_quiet, 9, seed, 3)
        assert not set(answer.random) & {"t0", "t4", "t5"}

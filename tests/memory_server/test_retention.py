"""What the clean-up forgets."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, NOW, memory

from memory_server.model import ShortTermMemory
from memory_server.recall.parameters import Parameters, RetentionParameters
from memory_server.recall.relevance import relevance
from memory_server.recall.retention import plan

STRICT = Parameters(retention=RetentionParameters(always_kept=0))


@pytest.mark.parametrize(
    ("age", "score", "reason"),
    [
        (0, 0, None),
        (2 * DAY, 0, None),
        (2.34 * DAY, 0, None),
        (2.36 * DAY, 0, "faded"),
        (364 * DAY, 9.99, "faded"),
        (364 * DAY, 10, None),
        (365 * DAY, 10, None),
        (365 * DAY + 1, 10, "too_old"),
        (365 * DAY + 1, 100, "too_old"),
        (4000 * DAY, 0, "too_old"),
        (-DAY, 0, None),
        (-DAY, -5, None),
        (-DAY, -5.01, "faded"),
    ],
)
def test_old_and_faded_memories_fail(age: float, score: float, reason: str | None) -> None:
    found = plan([memory(age=round(age), score=score)], NOW, STRICT)
    assert [forgotten.reason for forgotten in found] == ([] if reason is None else [reason])


def test_pinned_memories_never_fail_and_fill_the_places_that_are_always_kept() -> None:
    pinned = [memory(f"p{n}", age=900 * DAY, pinned=True) for n in range(2)]
    failing = [memory(f"f{n}", age=(400 + n) * DAY) for n in range(3)]
    parameters = Parameters(retention=RetentionParameters(always_kept=3))
    assert [f.memory.id for f in plan([*pinned, *failing], NOW, parameters)] == ["f2", "f1"]


@pytest.mark.parametrize(("count", "forgotten"), [(0, 0), (1, 0), (511, 0), (512, 0), (513, 1), (600, 88)])
def test_512_are_always_kept_by_default(count: int, forgotten: int) -> None:
    memories = [memory(f"{n:04}", age=400 * DAY + n) for n in range(count)]
    found = plan(memories, NOW, Parameters())
    assert len(found) == forgotten
    # The least relevant go first: of equal decay (it is saturated) the oldest.
    assert [f.memory.id for f in found] == [f"{n:04}" for n in range(count - 1, count - 1 - forgotten, -1)]


def test_what_does_not_fail_is_kept_beyond_512() -> None:
    good = [memory(f"g{n}", age=DAY) for n in range(600)]
    bad = [memory(f"b{n}", age=30 * DAY) for n in range(5)]
    assert {f.memory.id for f in plan([*bad, *good], NOW, Parameters())} == {f"b{n}" for n in range(5)}


def test_the_most_relevant_of_the_failing_are_spared() -> None:
    memories = [memory(f"s{score}", age=30 * DAY, score=score) for score in range(8)]
    found = plan(memories, NOW, Parameters(retention=RetentionParameters(always_kept=3)))
    assert [f.memory.id for f in found] == [f"s{score}" for score in range(5)]


MEMORIES = st.lists(st.tuples(st.integers(-2, 500), st.integers(-10, 20), st.booleans()), max_size=20).map(
    lambda facts: [
        memory(f"m{n}", age=age * DAY, score=score, pinned=pinned) for n, (age, score, pinned) in enumerate(facts)
    ]
)


@given(MEMORIES, st.integers(0, 15), st.randoms(use_true_random=False))
def test_retention_keeps_its_promises(memories: list[ShortTermMemory], kept: int, shuffler: Random) -> None:
    parameters = Parameters(retention=RetentionParameters(always_kept=kept))
    gone = plan(memories, NOW, parameters)
    names = [forgotten.memory.id for forgotten in gone]
    assert len(set(names)) == len(names)
    assert not any(forgotten.memory.pinned for forgotten in gone)
    left = [m for m in memories if m.id not in set(names)]
    assert len(left) >= min(kept, len(memories))
    assert set(names) <= {f.memory.id for f in plan(memories, NOW, STRICT)}
    # Idempotent: what is left after a clean-up stays at the next one.
    assert plan(left, NOW, parameters) == ()
    # No failing one stays in the place of a more relevant one.
    failing_left = [m for m in left if m.id in {f.memory.id for f in plan(memories, NOW, STRICT)}]
    if gone and failing_left:
        worth = {m.id: relevance(m, {}, NOW, parameters.recall) for m in memories}
        assert max(worth[name] for name in names) <= min(worth[m.id] for m in failing_left)
    shuffled = list(memories)
    shuffler.shuffle(shuffled)
    assert plan(shuffled, NOW, parameters) == gone


def test_every_constant_counts() -> None:
    memories = [memory("a", age=10 * DAY, score=20), memory("b", age=10 * DAY)]
    stricter = replace(STRICT.retention, max_age_ms=9 * DAY)
    assert len(plan(memories, NOW, Parameters(retention=stricter))) == 2
    milder = replace(STRICT.retention, min_relevance=-16.0)
    assert plan(memories, NOW, Parameters(retention=milder)) == ()

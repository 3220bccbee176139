"""What the clean-up forgets."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, NOW, memory

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import (
    NODE_RETENTION,
    Parameters,
    RetentionParameters,
)
from memory_server.conversations.recall.relevance import age_of
from memory_server.conversations.recall.retention import plan_cleanup, worth

STRICT = Parameters(retention=RetentionParameters(always_kept=0))
NODE = Parameters(retention=NODE_RETENTION)


def keeping(count: int, *, like: RetentionParameters = STRICT.retention) -> Parameters:
    return Parameters(retention=replace(like, always_kept=count))


def ids_forgotten_of(memories: list[ShortTermMemory], parameters: Parameters) -> list[str]:
    return [forgotten.memory.id for forgotten in plan_cleanup(memories, NOW, parameters).forgotten]


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
def test_where_there_are_too_many_old_and_faded_memories_go(
    age: float, score: float, reason: str | None
) -> None:
    dropped = plan_cleanup([memory(age=round(age), score=score)], NOW, STRICT).forgotten
    assert [forgotten.reason for forgotten in dropped] == ([] if reason is None else [reason])


@pytest.mark.parametrize(("count", "forgotten"), [(0, 0), (20_000, 0), (20_003, 3)])
def test_up_to_20_000_memories_nothing_is_forgotten_however_old(count: int, forgotten: int) -> None:
    memories = [memory(f"{n:05}", age=400 * DAY + n) for n in range(count)]
    # Of equal decay (it is saturated) the oldest go first.
    assert ids_forgotten_of(memories, Parameters()) == [
        f"{n:05}" for n in range(count - 1, count - 1 - forgotten, -1)
    ]


@pytest.mark.parametrize(("count", "forgotten"), [(0, 0), (512, 0), (513, 1), (600, 88)])
def test_the_node_original_keeps_512(count: int, forgotten: int) -> None:
    memories = [memory(f"{n:04}", age=300 * DAY + n) for n in range(count)]
    assert ids_forgotten_of(memories, NODE) == [
        f"{n:04}" for n in range(count - 1, count - 1 - forgotten, -1)
    ]


@pytest.mark.parametrize("young", [0, 28, 511, 600])
@pytest.mark.parametrize("score", [0, 100])
def test_the_node_original_keeps_nothing_longer_than_a_year_however_few_there_are(
    young: int, score: int
) -> None:
    """Its document says "Age > 1 year? Delete"; only "Relevance < -5?" has "unless top 512"."""
    old = [memory(f"old{n}", age=(370 + n) * DAY, score=score) for n in range(5)]
    pinned = memory("pinned", age=900 * DAY, pinned=True)
    others = [memory(f"young{n}", age=DAY) for n in range(young)]
    assert ids_forgotten_of([*others, pinned, *old], NODE) == [f"old{n}" for n in range(4, -1, -1)]
    assert ids_forgotten_of([*others, pinned, *old], keeping(1_000)) == []


def test_what_was_never_recalled_goes_before_what_was() -> None:
    memories = [
        memory("recalled and faded", age=300 * DAY, score=2),
        memory("recalled long ago", age=900 * DAY, score=90),
        memory("never, lately", age=3 * DAY),
        memory("never, long ago", age=200 * DAY),
    ]
    never = ["never, long ago", "never, lately"]
    assert ids_forgotten_of(memories, keeping(2)) == never
    assert ids_forgotten_of(memories, STRICT) == [*never, "recalled and faded", "recalled long ago"]
    # To the Node original only points count.
    assert ids_forgotten_of(memories, keeping(1, like=NODE_RETENTION)) == [
        "recalled long ago",
        "never, long ago",
        "recalled and faded",
    ]


def test_what_is_worth_least_goes_first_then_the_oldest_then_by_id() -> None:
    memories = [
        memory("c", age=4000 * DAY),
        memory("b", age=4000 * DAY),
        memory("a", age=4001 * DAY),
        memory("d", age=4 * DAY),
    ]
    assert ids_forgotten_of(memories, STRICT) == ["a", "b", "c", "d"]


def test_pinned_memories_never_go_and_count_among_those_that_are_kept() -> None:
    pinned = [memory(f"p{n}", age=900 * DAY, pinned=True) for n in range(2)]
    failing = [memory(f"f{n}", age=(400 + n) * DAY) for n in range(3)]
    assert ids_forgotten_of([*pinned, *failing], keeping(3)) == ["f2", "f1"]
    assert ids_forgotten_of(pinned, STRICT) == []


def test_what_has_not_faded_stays_however_many_there_are() -> None:
    good = [memory(f"g{n}", age=DAY) for n in range(600)]
    bad = [memory(f"b{n}", age=30 * DAY) for n in range(5)]
    assert set(ids_forgotten_of([*bad, *good], keeping(512))) == {f"b{n}" for n in range(5)}


def test_one_run_forgets_no_more_than_it_may_and_says_what_is_due_later() -> None:
    memories = [memory(f"m{n}", age=(30 + n) * DAY) for n in range(10)]
    whole = plan_cleanup(memories, NOW, keeping(3))
    assert (len(whole.forgotten), whole.due) == (7, 0)
    first = plan_cleanup(memories, NOW, keeping(3), most=4)
    assert (first.forgotten, first.due) == (whole.forgotten[:4], 3)


MEMORIES = st.lists(
    st.tuples(st.integers(-2, 500), st.integers(-10, 20), st.booleans()), max_size=20
).map(
    lambda facts: [
        memory(f"m{n}", age=age * DAY, score=score, pinned=pinned)
        for n, (age, score, pinned) in enumerate(facts)
    ]
)


@given(
    MEMORIES, st.integers(0, 15), st.sampled_from([STRICT, NODE]), st.randoms(use_true_random=False)
)
def test_retention_keeps_its_promises(
    memories: list[ShortTermMemory], count: int, rule: Parameters, shuffler: Random
) -> None:
    parameters = keeping(count, like=rule.retention)
    names = ids_forgotten_of(memories, parameters)
    all_failing = ids_forgotten_of(memories, keeping(0, like=rule.retention))
    assert len(set(names)) == len(names)
    assert not any(m.pinned for m in memories if m.id in names)
    remaining = [m for m in memories if m.id not in names]
    lasting = [
        m
        for m in memories
        if not rule.retention.age_counts_alone or m.pinned or NOW - m.time_ms <= 365 * DAY
    ]
    assert len(remaining) >= min(count, len(lasting))
    # Those that go are the first of all that could.
    assert names == all_failing[: len(names)]
    # Idempotent: what is left after a clean-up stays at the next one.
    assert ids_forgotten_of(remaining, parameters) == []
    shuffled = list(memories)
    shuffler.shuffle(shuffled)
    assert ids_forgotten_of(shuffled, parameters) == names


@given(MEMORIES, st.integers(0, 15))
def test_for_the_node_original_the_faded_fill_up_what_the_others_leave_open(
    memories: list[ShortTermMemory], count: int
) -> None:
    """Its rule as its document says it: what is older than a year goes; of what has faded, the most relevant stay until
    there are 512."""
    points = {m.id: worth(m, NOW, NODE.recall) for m in memories}
    lasting = [m for m in memories if m.pinned or age_of(m.time_ms, NOW) <= 365 * DAY]
    good = [m for m in lasting if m.pinned or points[m.id] >= -5]
    faded = [m for m in lasting if m not in good]
    faded.sort(key=lambda m: (points[m.id], m.time_ms, m.id), reverse=True)
    stays = {m.id for m in [*good, *faded[: max(0, count - len(good))]]}
    names = ids_forgotten_of(memories, keeping(count, like=NODE_RETENTION))
    assert {m.id for m in memories} - set(names) == stays


def test_every_constant_counts() -> None:
    memories = [memory("a", age=10 * DAY, score=20), memory("b", age=10 * DAY)]
    stricter = replace(STRICT.retention, max_age_ms=9 * DAY)
    assert len(ids_forgotten_of(memories, Parameters(retention=stricter))) == 2
    milder = replace(STRICT.retention, min_relevance=-16.0)
    assert ids_forgotten_of(memories, Parameters(retention=milder)) == []

"""Changes are absolute: twice is once, and a journal may be replayed over a newer snapshot."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import (
    CHANGES,
    NOW,
    contents,
    copy_of,
    memory,
    random_changes,
    state_of,
    trigger,
)

from memory_server.conversations.change_forms import change_json, changes_of
from memory_server.conversations.changes import (
    Added,
    Change,
    CleanedUp,
    Edited,
    Forgotten,
    Muted,
    Pinned,
    Reinforced,
    Restored,
    Unpinned,
    apply,
    merged,
)
from memory_server.conversations.model import ConversationState, UnusableRecord
from memory_server.lore.memory import TriggerRemoved, TriggerSet

A = memory("a", score=1)
B = memory("b")
T = trigger("t")


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        (Added(A), state_of(), state_of(A)),
        (Added(A), state_of(memory("a", score=9), B), state_of(A, B)),
        (Reinforced("a", 1, 6), state_of(A, B), state_of(memory("a", score=6), B)),
        (Reinforced("gone", 1, 6), state_of(A), state_of(A)),
        (Forgotten(A, "deleted"), state_of(A, B), state_of(B)),
        (Forgotten(A, "faded"), state_of(B), state_of(B)),
        (Edited(memory("a", text="new"), A), state_of(A, B), state_of(memory("a", text="new"), B)),
        (Edited(memory("a", text="new"), A), state_of(B), state_of(B)),
        (Restored(A, "faded"), state_of(B), state_of(B, A)),
        (Pinned("a"), state_of(A), state_of(memory("a", score=1, pinned=True))),
        (Pinned("gone"), state_of(A), state_of(A)),
        (Unpinned("b"), state_of(memory("b", pinned=True)), state_of(B)),
        (
            Muted("a", (), ("everywhere",)),
            state_of(A),
            state_of(memory("a", score=1, muted=("everywhere",))),
        ),
        (Muted("gone", (), ("everywhere",)), state_of(A), state_of(A)),
        (TriggerSet(T, None), state_of(), state_of(T)),
        (TriggerSet(T, trigger("t", source="1")), state_of(trigger("t", source="1")), state_of(T)),
        (TriggerRemoved(T), state_of(T, A), state_of(A)),
        (TriggerRemoved(T), state_of(A), state_of(A)),
    ],
)
def test_what_each_change_does(
    change: Change, before: ConversationState, after: ConversationState
) -> None:
    state = copy_of(before)
    apply(state, [change])
    assert contents(state) == contents(after)
    assert state.version == before.version


def test_a_clean_up_notes_its_time() -> None:
    state = state_of()
    apply(state, [CleanedUp(NOW, None), CleanedUp(NOW + 5, NOW)])
    assert state.last_cleanup_ms == NOW + 5


@given(st.lists(CHANGES, max_size=6), CHANGES)
def test_applying_a_change_twice_is_the_same_as_once(before: list[Change], change: Change) -> None:
    state = ConversationState("chat")
    apply(state, [*before, change])
    once = contents(state)
    apply(state, [change])
    assert contents(state) == once


@given(st.randoms(use_true_random=False), st.integers(0, 25))
def test_replaying_a_whole_journal_over_any_later_snapshot_changes_nothing(
    rng: Random, count: int
) -> None:
    start = ConversationState("chat")
    random_changes(start, rng, 5)
    final = copy_of(start)
    changes = random_changes(final, rng, count)
    for done in range(count + 1):
        state = copy_of(start)
        apply(state, changes[:done])
        apply(state, changes)
        # The order of the memories may differ; what they are may not.
        assert state.short_term == final.short_term
        assert state.long_term == final.long_term
        assert state.last_cleanup_ms == final.last_cleanup_ms


@pytest.mark.parametrize("edited_words", [{"pizza": 9.0}, {"pasta": 5.0}, {"pizza": 5.0}])
def test_an_edit_by_hand_changes_words_and_weights_together_beside_a_reindex(
    edited_words: dict[str, float],
) -> None:
    base = memory("a", words={"pizza": 5.0})
    edited = memory("a", words=edited_words, score=3.0)
    reindexed = memory("a", words={"pizza": 4.0, "evening": 3.0, "rome": 2.0})

    after = merged(base, edited, reindexed)
    assert len(after.words) == len(after.weights)
    assert after.score == 3.0
    if edited_words == {"pizza": 5.0}:
        assert after.words == reindexed.words
    else:
        assert dict(zip(after.words, after.weights, strict=True)) == edited_words


def test_a_record_that_is_no_change_is_passed_over_and_named_if_somebody_asks() -> None:
    whole = [change_json(Pinned("a")), {"type": "dreamt"}, change_json(Unpinned("a")), 7]
    changes = (Pinned("a"), Unpinned("a"))
    assert changes_of(whole) == (changes, 0)
    unusable: list[UnusableRecord] = []
    assert changes_of(whole, unusable=unusable) == (changes, 0)
    assert [(record.kind, record.record) for record in unusable] == [
        ("change", {"type": "dreamt"}),
        ("change", 7),
    ]
    assert changes_of(whole, 1) == (changes[:1], 3)
    assert changes_of(change_json(Pinned("a"))) == (changes[:1], 0)

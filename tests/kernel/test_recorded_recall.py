"""A line of the record of recalls as a value: whatever a line has or lacks, each field has its type."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passing_recalls import PassingRecalls

from memory_server.kernel.recorded_recall import recorded_recall
from memory_server.memories.recalls import Recalls

FIELDS = (
    "id",
    "at",
    "conversation",
    "by",
    "client",
    "cwd",
    "folder",
    "session",
    "turn",
    "said",
    "came",
    "near",
)
FIELDS += ("needed", "failed", "held", "chars", "tokens", "used")
ITEM = (
    "id",
    "tier",
    "relevance",
    "counted",
    "words",
    "around",
    "lacked",
    "points",
    "kept_in",
    "chars",
)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    PLAIN | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(ITEM) | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), VALUES, max_size=len(FIELDS)))
def test_every_line_has_every_field_with_its_type(line: dict[str, Any]) -> None:
    recall = recorded_recall(line)
    texts = (
        recall.id,
        recall.conversation,
        recall.by,
        recall.client,
        recall.cwd,
        recall.session,
        recall.said,
    )
    assert all(isinstance(text, str) for text in texts)
    for number in (recall.at_ms, recall.chars, recall.tokens, *recall.held.values()):
        assert isinstance(number, int)
    for item in (*recall.came, *recall.near):
        assert isinstance(item.id, str)
        assert all(isinstance(points, float) for points in item.words.values())
        assert isinstance(item.around, float)
    assert recall.is_quiet is (len(recall.came) == 0)
    assert len(recall.memories) + len(recall.others) == len(recall.came)


@pytest.mark.parametrize(
    ("fields", "begins", "in_context"),
    [
        ({}, False, False),
        ({"said": "hello"}, False, False),
        ({"came": [{"id": "a", "tier": "last"}], "tokens": 9}, True, False),
        ({"came": [{"id": "a", "tier": "pinned"}]}, True, True),
        ({"said": "hello", "came": [{"id": "a", "tier": "top"}]}, False, True),
        ({"said": "hello", "came": [{"id": "a", "tier": "top"}], "tokens": 9}, False, False),
        ({"said": "hello", "came": [{"id": "a", "tier": "last"}], "tokens": 9}, False, False),
    ],
)
def test_what_a_line_is_about(fields: dict[str, Any], begins: bool, in_context: bool) -> None:
    recall = recorded_recall({"at": "2026-06-20T12:00:00.000Z", **fields})
    assert recall.begins_session == begins
    assert recall.was_in_context == in_context


def test_a_line_that_was_broken_by_hand_takes_no_other_with_it() -> None:
    at = "2026-06-20T12:00:00.000Z"
    recall_log = PassingRecalls()
    recall_log.append(
        {"at": at, "conversation": "a", "id": "1", "turn": ["x"], "came": 3, "session": {}}
    )
    recall_log.append({"at": at, "conversation": "a", "used": 7}, {"at": at, "conversation": "a"})
    recall_log.append(
        {"at": at, "conversation": "a", "id": "2", "came": [{"id": "m", "tier": "top"}]}
    )
    recalls = Recalls(recall_log, lambda: 1_781_956_800_000, 30, lambda: True, 0.01)
    assert [recall.id for recall in recalls.found()] == ["1", "2"]

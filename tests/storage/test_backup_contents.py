"""What bringing contents back changes, and the lines in which contents travel."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import (
    DAY,
    HOUR,
    LONG_TERM,
    NOW,
    SHORT_TERM,
    contents,
    copy_of,
    memory,
    state_of,
    trigger,
)

from memory_server.conversations import record_lines
from memory_server.conversations.changes import apply
from memory_server.conversations.contents import Contents, contents_of, restore_changes
from memory_server.conversations.model import ConversationState
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.json_text import NotARecord

CONTENTS = st.builds(
    Contents,
    st.just("chat"),
    st.lists(SHORT_TERM, max_size=4, unique_by=lambda memory: memory.id).map(tuple),
    st.lists(LONG_TERM, max_size=4, unique_by=lambda memory: memory.name).map(tuple),
)


def lines_of(*conversations: Contents) -> list[bytes]:
    body = chain.from_iterable(map(record_lines.conversation_lines, conversations))
    return [record_lines.first_line(NOW), *body, record_lines.last_line(len(conversations))]


@given(CONTENTS)
def test_what_is_written_is_read_again(written: Contents) -> None:
    assert [contents_of(ConversationState("chat"))] == list(
        record_lines.parse(lines_of(Contents("chat")))
    )
    (read,) = record_lines.parse(lines_of(written))
    assert read == written


@given(CONTENTS, CONTENTS)
def test_overwriting_gives_exactly_what_was_brought_and_doing_it_again_changes_nothing(
    present: Contents, brought: Contents
) -> None:
    state = state_of(*present.short_term, *present.long_term)
    apply(state, restore_changes(state, brought, "overwrite")[0])
    assert set(state.short_term) == {memory.id for memory in brought.short_term}
    assert all(state.short_term[memory.id] == memory for memory in brought.short_term)
    assert all(state.long_term[trigger.name] == trigger for trigger in brought.long_term)
    assert restore_changes(state, brought, "overwrite")[0] == []


@given(CONTENTS, CONTENTS)
def test_merging_removes_nothing(present: Contents, brought: Contents) -> None:
    state = state_of(*present.short_term, *present.long_term)
    before = copy_of(state)
    changes, tally = restore_changes(state, brought, "merge")
    apply(state, changes)
    assert set(before.short_term) <= set(state.short_term)
    assert set(before.long_term) <= set(state.long_term)
    assert tally.removed == 0
    assert tally.added + tally.replaced + tally.unchanged + tally.kept_newer == brought.count


def test_overwriting_leaves_a_memory_whose_record_cannot_be_read() -> None:
    state = state_of(memory("a"), memory("b"), trigger("t"), trigger("u"))
    lines = lines_of(Contents("chat", (memory("a"),), (trigger("t"),)))
    lines[2] = b'{"short":{"id":"a","timestamp":"never"}}'
    lines[3] = lines[3].replace(b'"trigger":"true"', b'"trigger":[]')
    (brought,) = record_lines.parse(lines)
    assert len(brought.unusable) == 2
    changes, counts = restore_changes(state, brought, "overwrite")
    apply(state, changes)
    assert ([*state.short_term], [*state.long_term]) == (["a"], ["t"])
    assert counts == MergeCounts(removed=2)


def test_merging_keeps_the_newer_of_two() -> None:
    state = state_of(
        memory("a", text="here, newer", age=HOUR),
        memory("b", text="here, older", age=DAY),
        trigger("c", updated_ms=NOW + HOUR),
        trigger("d"),
    )
    brought = Contents(
        "chat",
        (memory("a", age=DAY), memory("b", age=HOUR), memory("e")),
        (
            trigger("c", source="false"),
            trigger("d", source="false", updated_ms=NOW + DAY),
            trigger("f"),
        ),
    )
    changes, tally = restore_changes(state, brought, "merge")
    apply(state, changes)
    assert tally == MergeCounts(added=2, replaced=2, kept_newer=2)
    assert state.short_term["a"].text == "here, newer"
    assert state.short_term["b"] == memory("b", age=HOUR)
    assert state.long_term["c"].trigger == "true"
    assert state.long_term["d"].trigger == "false"


def test_the_time_of_the_last_clean_up_comes_along() -> None:
    state = state_of()
    apply(state, restore_changes(state, Contents("chat", last_cleanup_ms=NOW), "merge")[0])
    assert contents(state)[2] == NOW
    assert restore_changes(state, Contents("chat", last_cleanup_ms=NOW - DAY), "merge")[0] == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda lines: lines[:-1], "ends too early"),
        (lambda lines: [*lines[:2], *lines[3:]], "memories of the conversation chat are missing"),
        (lambda lines: [lines[0], lines[-1]], "conversations are missing"),
        (lambda lines: [*lines, lines[1]], "line 6 cannot be read: something follows"),
        (lambda lines: [lines[0], lines[2], *lines[1:]], "before the first conversation"),
        (
            lambda lines: [lines[0], lines[1], b"{", *lines[3:]],
            "line 3 cannot be read: it is not JSON",
        ),
        (
            lambda lines: [lines[0], lines[1], b"{}", *lines[3:]],
            "neither a memory nor a conversation",
        ),
        (
            lambda lines: [b'{"format":"memory-server","version":2}', *lines[1:]],
            "newer memory-server",
        ),
        (lambda lines: [b"[]", *lines[1:]], "it is not a JSON object"),
        (lambda lines: [b'{"a":1}', *lines[1:]], "it is not an export of memory-server"),
    ],
)
def test_lines_that_are_not_whole_are_refused_with_their_number(
    damage: object, reason: str
) -> None:
    lines = lines_of(Contents("chat", (memory("a"), memory("b"))))
    with pytest.raises(NotARecord, match=reason):
        list(record_lines.parse(damage(lines)))  # type: ignore[operator]

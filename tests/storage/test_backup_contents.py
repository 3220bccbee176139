"""What bringing contents back changes, and the lines in which contents travel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, HOUR, LONG_TERM, NOW, SHORT_TERM, contents, copy_of, memory, state_of, trigger

from memory_server.conversations import record_lines
from memory_server.conversations.changes import apply
from memory_server.conversations.contents import Contents, contents_of, restore_changes
from memory_server.conversations.model import ConversationState
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.json_text import NotARecord

CONTENTS = st.builds(
    lambda short, long: Contents(
        "chat", tuple({m.id: m for m in short}.values()), tuple({t.name: t for t in long}.values())
    ),
    st.lists(SHORT_TERM, max_size=4),
    st.lists(LONG_TERM, max_size=4),
)


def lines_of(*conversations: Contents) -> list[bytes]:
    body = [line for one in conversations for line in record_lines.conversation_lines(one)]
    return [record_lines.first_line(NOW), *body, record_lines.last_line(len(conversations))]


@given(CONTENTS)
def test_what_is_written_is_read_again(one: Contents) -> None:
    assert [contents_of(ConversationState("chat"))] == list(record_lines.parse(lines_of(Contents("chat"))))
    (read,) = record_lines.parse(lines_of(one))
    assert read == one


@given(CONTENTS, CONTENTS)
def test_overwriting_gives_exactly_what_was_brought_and_doing_it_again_changes_nothing(
    there: Contents, brought: Contents
) -> None:
    state = state_of(*there.short_term, *there.long_term)
    apply(state, restore_changes(state, brought, "overwrite")[0])
    assert set(state.short_term) == {m.id for m in brought.short_term}
    assert all(state.short_term[m.id] == m for m in brought.short_term)
    assert all(state.long_term[t.name] == t for t in brought.long_term)
    assert restore_changes(state, brought, "overwrite")[0] == []


@given(CONTENTS, CONTENTS)
def test_merging_removes_nothing(there: Contents, brought: Contents) -> None:
    state = state_of(*there.short_term, *there.long_term)
    before = copy_of(state)
    changes, tally = restore_changes(state, brought, "merge")
    apply(state, changes)
    assert set(before.short_term) <= set(state.short_term)
    assert set(before.long_term) <= set(state.long_term)
    assert tally.removed == 0
    assert tally.added + tally.replaced + tally.unchanged + tally.kept_newer == brought.count


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
        (trigger("c", source="false"), trigger("d", source="false", updated_ms=NOW + DAY), trigger("f")),
    )
    changes, tally = restore_changes(state, brought, "merge")
    apply(state, changes)
    assert tally == MergeCounts(added=2, replaced=2, kept_newer=2)
    assert state.short_term["a"].text == "here, newer"
    assert state.short_term["b"] == memory("b", age=HOUR)
    assert (state.long_term["c"].trigger, state.long_term["d"].trigger) == ("true", "false")


def test_the_time_of_the_last_clean_up_comes_along() -> None:
    state = state_of()
    apply(state, restore_changes(state, Contents("chat", last_cleanup_ms=NOW), "merge")[0])
    assert contents(state)[2] == NOW
    assert restore_changes(state, Contents("chat", last_cleanup_ms=NOW - DAY), "merge")[0] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:-1], "ends too early"),
        (lambda lines: [*lines[:2], *lines[3:]], "memories of the conversation chat are missing"),
        (lambda lines: [lines[0], lines[-1]], "conversations are missing"),
        (lambda lines: [*lines, lines[1]], "line 6 cannot be read: something follows"),
        (lambda lines: [lines[0], lines[2], *lines[1:]], "before the first conversation"),
        (lambda lines: [lines[0], lines[1], b"{", *lines[3:]], "line 3 cannot be read: it is not JSON"),
        (lambda lines: [lines[0], lines[1], b"{}", *lines[3:]], "neither a memory nor a conversation"),
        (lambda lines: [b'{"format":"memory-server","version":2}', *lines[1:]], "newer memory-server"),
        (lambda lines: [b"[]", *lines[1:]], "it is not a JSON object"),
        (lambda lines: [b'{"a":1}', *lines[1:]], "it is not an export of memory-server"),
    ],
)
def test_lines_that_are_not_whole_are_refused_with_their_number(change: object, said: str) -> None:
    lines = lines_of(Contents("chat", (memory("a"), memory("b"))))
    with pytest.raises(NotARecord, match=said):
        list(record_lines.parse(change(lines)))  # type: ignore[operator]

"""What a model is asked about memories, and what its answer means: tables, without a model."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from sample_memories import HOUR, memory

from memory_server.conversations import codec
from memory_server.conversations.changes import Commit, Edited, apply, taking_back
from memory_server.conversations.model import (
    EVERYWHERE,
    MOST_WORD_TRIES,
    ConversationState,
    ShortTermMemory,
)
from memory_server.conversations.word_giving import (
    AT_ONCE,
    MOST_SENT_CHARS,
    changes_keeping,
    counted_as_asked,
    request_for,
    requests_of,
    within,
    words_of,
)
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message, context_text
from memory_server.kernel.text import estimated_tokens


def memory_of(content: str, memory_id: str = "m", **more: Any) -> ShortTermMemory:
    messages = (Message("user", content),)
    usual = memory(memory_id, age=HOUR)
    return replace(usual, **{"messages": messages, "text": context_text(messages), **more})


MEANT = {
    "one without words": (memory_of("曲唑酮"), True),
    "one with words": (memory_of("曲唑酮", other_words=("药",)), False),
    "one that was sent": (memory_of("曲唑酮", word_tries=MOST_WORD_TRIES), False),
    "one whose answer was broken": (memory_of("曲唑酮", word_tries=MOST_WORD_TRIES - 1), True),
    "one that is muted everywhere": (memory_of("曲唑酮", muted=(EVERYWHERE,)), False),
    "one that is muted in a folder": (memory_of("曲唑酮", muted=("folder:/tmp",)), True),
    "one that is private": (memory_of("<private>曲唑酮</private>"), False),
    "a private one without messages": (
        replace(memory_of(""), text="<private>x</private>", messages=()),
        False,
    ),
    "one of an import, without messages": (
        replace(memory_of(""), text="曲唑酮", messages=()),
        True,
    ),
}


@pytest.mark.parametrize("case", MEANT)
def test_a_memory_is_sent_only_if_it_wants_words(case: str) -> None:
    sent_memory, is_sent = MEANT[case]
    assert bool(requests_of([sent_memory])) is is_sent


def test_a_request_holds_thirty_memories_newest_first_and_no_id() -> None:
    many = [
        memory_of(f"text {number}", f"id-{number}", time_ms=1_000 + number)
        for number in range(AT_ONCE + 2)
    ]
    first, second = requests_of(many)
    assert len(first.memories) == AT_ONCE
    assert len(second.memories) == 2
    assert json.loads(first.data)["memories"]["1"] == f"user: text {AT_ONCE + 1}"
    assert list(json.loads(second.data)["memories"].values()) == ["user: text 1", "user: text 0"]
    assert "id-" not in first.data + second.data


def test_private_parts_and_the_middle_of_long_texts_are_not_sent() -> None:
    [request] = requests_of([memory_of("open <private>hidden</private> door")])
    assert "hidden" not in request.data
    assert "open" in request.data
    [long] = requests_of([memory_of("a" * 5_000 + "b")])
    text = json.loads(long.data)["memories"]["1"]
    assert len(text) < MOST_SENT_CHARS + 100
    assert text.endswith("b")


def test_a_request_is_cut_to_the_tokens_that_are_left() -> None:
    [request] = requests_of([memory_of("x" * 400, str(number)) for number in range(8)])
    assert within(request, request.tokens) is request
    cut = within(request, request.tokens - 1)
    assert cut is not None
    assert cut.memories == request.memories[:4]
    assert within(request, 10) is None


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("猫", 1), ("猫a", 2)]
)
def test_tokens_are_estimated(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


ONE = memory_of("我睡前吃曲唑酮", "one")
OTHER = memory_of("hi there", "other")
LONG = "x" * 61
ANSWERS: dict[str, tuple[dict[str, Any], dict[str, tuple[str, ...]]]] = {
    "words": (
        {"1": ["安眠药", "失眠"], "2": ["greeting"]},
        {"one": ("安眠药", "失眠"), "other": ("greeting",)},
    ),
    "none": ({"1": [], "2": []}, {"one": (), "other": ()}),
    "one is missing": ({"1": ["药"]}, {"one": ("药",)}),
    "unknown numbers": ({"1": ["药"], "3": ["x"], "0": ["y"], "one": ["z"]}, {"one": ("药",)}),
    "no texts": ({"1": [1, None, {"a": 1}, ["x"], "药"]}, {"one": ("药",)}),
    "no list": ({"1": "药", "2": ["x"]}, {"other": ("x",)}),
    "too long": ({"1": [LONG, "药"]}, {"one": ("药",)}),
    "blank": ({"1": [" ", "", "\n药  片\n"]}, {"one": ("药 片",)}),
    "twice": ({"1": ["Pill", "pill", "ｐｉｌｌ"]}, {"one": ("Pill",)}),
    "in the text already": ({"1": ["曲唑酮", "药"], "2": ["HI"]}, {"one": ("药",), "other": ()}),
    "private": ({"1": ["<private>x</private>", "药"]}, {"one": ("药",)}),
    "a broken surrogate": ({"1": ["\ud800药"]}, {"one": ("�药",)}),
    "too many": (
        {"1": [f"w{number}" for number in range(50)]},
        {"one": tuple(f"w{number}" for number in range(40))},
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_only_what_can_be_used_of_an_answer_counts(case: str) -> None:
    answer, words = ANSWERS[case]
    assert words_of(answer, request_for([ONE, OTHER])) == words


@pytest.mark.parametrize("answer", [{}, {"3": ["x"]}, {"1": "x"}, {"words": {"1": ["x"]}}])
def test_an_answer_without_any_list_cannot_be_used(answer: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="none of the memories"):
        words_of(answer, request_for([ONE, OTHER]))


def state_with(*memories: ShortTermMemory) -> ConversationState:
    return ConversationState("c", short_term={stored.id: stored for stored in memories})


def test_words_go_to_memories_as_they_were_sent_only() -> None:
    after = [counted_as_asked(ONE, ("药",)), counted_as_asked(OTHER, ())]
    changes, result = changes_keeping(state_with(ONE, OTHER), [ONE, OTHER], after)
    assert result.memories == 1
    assert result.words == 1
    assert len(changes) == 2
    pinned = replace(ONE, pinned=True, score=9.0)
    [change], _ = changes_keeping(state_with(pinned), [ONE], after[:1])
    assert change == Edited(replace(after[0], pinned=True, score=9.0), pinned)
    assert changes_keeping(state_with(), [ONE], after[:1])[0] == []
    assert changes_keeping(state_with(replace(ONE, text="other")), [ONE], after[:1])[0] == []
    edited = replace(ONE, other_words=("mine",))
    [change], result = changes_keeping(state_with(edited), [ONE], after[:1])
    assert change == Edited(replace(edited, word_tries=MOST_WORD_TRIES), edited)
    assert result.memories == 0


def test_what_was_sent_stays_sent_when_its_words_are_taken_back() -> None:
    state = state_with(ONE, OTHER)
    changes, _ = changes_keeping(
        state, [ONE, OTHER], [counted_as_asked(ONE, ("药",)), counted_as_asked(OTHER, ())]
    )
    apply(state, changes)
    undoing = taking_back(state, Commit(1, 0, "words", tuple(changes)))
    apply(state, undoing)
    assert state.short_term["one"] == replace(ONE, word_tries=MOST_WORD_TRIES)
    assert requests_of(state.short_term.values()) == []
    with pytest.raises(InvalidInput, match="Nothing of this change"):
        taking_back(state, Commit(1, 0, "words", tuple(changes)))


def test_an_unusable_answer_counts_as_a_try() -> None:
    tried = ONE
    for tries in range(1, MOST_WORD_TRIES + 1):
        assert requests_of([tried])
        tried = counted_as_asked(tried, None)
        assert tried.word_tries == tries
        assert tried.other_words == ()
    assert requests_of([tried]) == []


@pytest.mark.parametrize("tries", range(MOST_WORD_TRIES + 1))
def test_tries_are_kept_on_disk_and_the_field_is_there_only_if_needed(tries: int) -> None:
    record = codec.short_term_json(replace(ONE, word_tries=tries))
    assert record.get("wordTries", 0) == tries
    assert ("wordTries" in record) is bool(tries)
    assert codec.short_term(record).word_tries == tries


@pytest.mark.parametrize("value", [0, -1, 4, True, "3", 1.0, None, [3]])
def test_tries_that_this_program_would_not_write_stay_as_they_came(value: Any) -> None:
    record = codec.short_term_json(ONE) | {"wordTries": value}
    read_memory = codec.short_term(record)
    assert read_memory.word_tries == 0
    assert codec.short_term_json(read_memory)["wordTries"] == value

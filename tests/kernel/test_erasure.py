"""What an erasing by words takes: a record has the words where a search for its item finds them, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sample_memories import memory

from memory_server.conversations import codec
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.items import Item, ItemFilter, Scope
from memory_server.kernel.messages import Message
from memory_server.knowledge.entry import Entry, json_of
from memory_server.knowledge.items import item_of
from memory_server.storage.text_records import records_in
from nlp.index_terms import seen_form

WORDS = ("user", "tea", "ＴＥＡ", "茶葉", "t\u200bea", "Ann")
TEXT = st.lists(st.sampled_from([*WORDS, "and"]), min_size=1, max_size=4).map(" ".join)
MESSAGES = st.lists(
    st.builds(
        Message, st.sampled_from(["user", "assistant"]), TEXT, name=st.sampled_from([None, "Ann"])
    ),
    min_size=1,
    max_size=3,
)


def has_words(words: tuple[str, ...], record: Any) -> bool:
    return Erasure((), (), words=words).trace_in(record) == "text"


def saying(message: Message) -> str:
    if message.name:
        return f"{message.name}: {message.content}"
    return message.content


@given(MESSAGES, st.lists(st.sampled_from(WORDS), min_size=1, max_size=2))
def test_a_memory_has_the_words_on_disk_where_a_search_finds_them(
    messages: list[Message], words: list[str]
) -> None:
    text = "\n".join(f"{message.role}: {message.content}" for message in messages)
    stored = replace(memory("a", messages=tuple(messages)), text=text)
    sayings = tuple(map(saying, messages))
    item = Item("memories", "chat", "a", 0, text, said=sayings)
    is_found = bool(ItemFilter(words=tuple(words)).among([item]))
    assert has_words(tuple(words), codec.short_term_json(stored)) == is_found


@given(
    TEXT, TEXT, st.lists(TEXT, max_size=2), st.lists(st.sampled_from(WORDS), min_size=1, max_size=2)
)
def test_an_entry_has_the_words_in_a_row_where_a_search_finds_them(
    title: str, body: str, tags: list[str], words: list[str]
) -> None:
    entry = Entry(body, id=1, ref="r", title=title, tags=tuple(tags))
    is_found = bool(ItemFilter(words=tuple(words)).among([item_of(Scope("notes"), entry)]))
    assert has_words(tuple(words), json_of(entry)) == is_found


@pytest.mark.parametrize(
    ("record", "trace"),
    [
        ({"said": "what of Grelnik", "conversation": "c"}, "text"),
        (
            {"conversation": "c", "came": [{"id": "m", "tier": "top", "words": {"grelnik": 3.5}}]},
            "text",
        ),
        ({"conversation": "c", "came": [{"id": "Grelnik rule", "tier": "trigger"}]}, "text"),
        ({"conversation": "Grelnik", "said": "tea"}, "name"),
        ({"folder": "/home/grelnik", "text": "tea"}, "name"),
        ({"role": "grelnik", "by": "grelnik"}, None),
        (
            {
                "changes": [
                    {"before": {"text": "x", "messages": [{"role": "user", "content": "GRELNIK"}]}}
                ]
            },
            "text",
        ),
        ({"trigger": "true", "name": "grelnik", "prompt": ""}, "text"),
        ("a torn line with grelnik", "text"),
    ],
)
def test_a_word_is_in_a_text_or_only_in_a_name(record: Any, trace: str | None) -> None:
    assert Erasure((), (), words=("Grelnik",)).trace_in(record) == trace


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ('{"a":1}\n{"b":2}\n', [{"a": 1}, {"b": 2}]),
        ('[\n{"a":1},\n{"b":2}\n]', [{"a": 1}, {"b": 2}]),
        ('[\n{"a":1},\n{"b":', ["[", {"a": 1}, '{"b":']),
        ("---\ntitle: x\n---\n{}", ["---\ntitle: x\n---\n{}"]),
        ("", []),
    ],
)
def test_a_text_is_taken_apart_into_records(text: str, records: list[Any]) -> None:
    assert list(records_in(text)) == records


def test_words_that_json_wrote_with_numbers_of_characters_are_found() -> None:
    erasure = Erasure((), (), words=("咖啡",))
    assert erasure.may_be_in('{"text": "\\u5496\\u5561"}')
    assert not erasure.may_be_in('{"text": "\\u5496"}')


ESCAPED_WORDS = st.text(st.sampled_from("ab\"\\/'{}é芒\u200b<:"), min_size=1, max_size=8)


@given(
    ESCAPED_WORDS,
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(["", "\n", "\t", "x", '"', "\\"]),
)
def test_a_word_is_found_however_often_json_escaped_it(
    word: str, depth: int, ascii_only: bool, beside: str
) -> None:
    erasure = Erasure((), (), (), (word,))
    assume(seen_form(word))
    record: object = {"text": f"tea {beside}{word}{beside} green"}
    for _ in range(depth):
        record = {"body": json.dumps(record, ensure_ascii=ascii_only)}
    line = json.dumps(record, ensure_ascii=ascii_only)
    assert erasure.may_be_in(line)
    assert erasure.trace_in(json.loads(line)) == "text"


@given(ESCAPED_WORDS)
def test_a_word_that_is_nowhere_is_not_found(word: str) -> None:
    assume(seen_form(word).strip())
    assert Erasure((), (), (), (word,)).trace_in({"text": "9 9 9"}) is None

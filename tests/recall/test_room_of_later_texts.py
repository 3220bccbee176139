"""Of the texts that do not fit only the first is cut; a later one is left out and named."""

from __future__ import annotations

from sample_memories import NOW

from memory_server.conversations.recall.passages import first_sentences
from memory_server.lore.memory import LongTermMemory
from memory_server.lore.rounds import LoreText, PromptFit, Room, fitting
from memory_server.lore.shelf import Shelved
from memory_server.memories.turns import lore_text

LONG = "The harbour lies below the wall. " * 20


def text_of(name: str, body: str) -> LoreText:
    memory = LongTermMemory(name, body, "true", NOW)
    return lore_text(Shelved("chat", memory), body, is_chinese=False)


def fitted(*texts: LoreText) -> PromptFit:
    room = Room(total=400, long_term=200, ignoring_budget=0, short_term=200)
    return fitting(texts, room, first_sentences, ())


def test_the_first_text_is_cut_where_it_does_not_fit() -> None:
    result = fitted(text_of("wall", LONG))
    assert [text.is_cut for text in result.texts] == [True]
    assert result.chars <= 200


def test_a_later_text_is_not_cut() -> None:
    result = fitted(text_of("ghost", "A ghost tends the lamp."), text_of("wall", LONG))
    assert [(text.entry.memory.name, text.is_cut) for text in result.texts] == [("ghost", False)]
    assert [(missing.entry.memory.name, missing.reason) for missing in result.left_out] == [
        ("wall", "room")
    ]


def test_a_text_that_stands_there_already_is_left_out_as_the_same() -> None:
    result = fitted(
        text_of("ghost", "A ghost tends the lamp."), text_of("spirit", "A ghost tends the lamp.")
    )
    assert [text.entry.memory.name for text in result.texts] == ["ghost"]
    assert [(missing.entry.memory.name, missing.reason) for missing in result.left_out] == [
        ("spirit", "same_text")
    ]

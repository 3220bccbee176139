"""What `forget` lists: the place of the words in a long text, and the newest first, whatever named them."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from memory_server.cli.forget import _excerpt
from memory_server.config import Settings
from memory_server.kernel.items import ItemFilter
from memory_server.kernel.messages import Message
from memory_server.memories import forgetting
from memory_server.runtime.app import App

BESIDE = "We walked along the harbour and counted the boats. " * 3


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (f"{BESIDE}The mango cake was good.", "MANGO"),
        (f"{'Straße ß ' * 40}The mango cake was good.", "mango"),
        (f"{'ﬃ ' * 60}The mango cake was good.", "mango"),
        (f"{BESIDE}我們訂了機票。", "机票"),
        (f"{BESIDE}Ｍａｎｇｏ cake.", "mango"),
    ],
)
def test_the_first_word_is_shown(text: str, word: str) -> None:
    shown = _excerpt(text, [word])
    assert shown.startswith("…")
    assert len(shown) < 60
    assert shown.removeprefix("…") in text
    assert any(form in shown for form in ("mango", "機票", "Ｍａｎｇｏ"))


def test_a_text_whose_beginning_has_the_word_stays_whole() -> None:
    assert _excerpt("The mango cake was good.", ["mango"]) == "The mango cake was good."
    assert _excerpt("The mango cake was good.", ["ghost"]) == "The mango cake was good."


@pytest.mark.anyio
async def test_what_ids_name_comes_newest_first(tmp_path: Path) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        conversation = app.conversation()
        ids = []
        for text in ("The first boat is Kelpie.", "The second boat is Merrow."):
            added = await conversation.short_term.add([Message("user", text)])
            ids.append(added.memory.id)
        items, words = await forgetting.find(app.memories.engines, ids, ItemFilter())
    assert words == ()
    assert [item.at_ms for item in items] == sorted((item.at_ms for item in items), reverse=True)
    assert {item.id for item in items} == set(ids)


def test_each_condition_makes_the_filter_a_narrow_one() -> None:
    values = {
        "words": ("mango",),
        "ids": ("1",),
        "whole_ids": True,
        "family": "notes",
        "place": "default",
        "since_ms": 1,
        "until_ms": 1,
        "user": "ann",
        "session": "s1",
        "archived": None,
        "only_by_other_words": True,
    }
    assert set(values) == {field.name for field in fields(ItemFilter)}
    for name, value in values.items():
        assert replace(ItemFilter(), **{name: value}) != ItemFilter()

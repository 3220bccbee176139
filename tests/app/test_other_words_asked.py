"""In which language the model of a new session is asked to search with other words."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from memory_server import Message, open_memory
from memory_server.conversations.short_term import Origin
from memory_server.kernel.recalled_block import OTHER_WORDS_ASKED
from memory_server.kernel.times import milliseconds
from memory_server.memories.turns import other_words_asked


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("folder", "language"), [("/shop", "zh"), ("/garden", "en"), ("/new", "en"), (None, "en")]
)
async def test_the_language_is_that_of_the_folder_or_else_of_what_was_said_last(
    tmp_path: Path, folder: str | None, language: str
) -> None:
    said = (
        ("密钥十二月三日过期", "2026-06-18T08:00:00Z", "/shop"),
        ("晚饭吃什么好呢", "2026-06-18T09:00:00Z", None),
        ("Water the tomatoes daily", "2026-06-19T08:00:00Z", "/garden"),
    )
    async with open_memory(tmp_path) as app:
        conversation = app.conversation()
        for text, at, where in said:
            await conversation.short_term.add(
                [Message("user", text, milliseconds(datetime.fromisoformat(at)))],
                origin=Origin(folder=where),
            )
        asked = await other_words_asked(app.memories, conversation, 10_000, folder)
    assert asked == OTHER_WORDS_ASKED[language]

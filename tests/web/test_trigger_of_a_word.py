"""The page writes a trigger for a word, and the trigger comes up when the word is said, whatever the word has in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from web_page import opened, remember

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]


@pytest.mark.parametrize(
    "word", ["dentist", "芒果", "it's", 'say "so"', "a\\b", "]) > 0 || true //"]
)
async def test_a_trigger_for_a_word_comes_up_when_the_word_is_said(
    tmp_path: Path, word: str
) -> None:
    async with opened(tmp_path) as page:
        [memory_id] = await remember(page.app, f"Dr. Halloran said {word}.")
        tried = await page.get("trigger", word=word, id=memory_id, lang="en")
        assert "It comes up" in tried.text
        assert "It fails" not in tried.text
        assert tried.text.count(f"Dr. Halloran said {word}.") == 1

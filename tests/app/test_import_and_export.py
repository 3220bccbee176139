"""A companion imports and exports without a shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_server import App, InvalidInput, Settings

pytestmark = pytest.mark.anyio
CHAT = json.dumps(
    [
        {"role": "user", "content": "My cat is called Miso.", "timestamp": 1_770_000_000_000},
        {"role": "assistant", "content": "What a name!", "timestamp": 1_770_000_001_000},
    ]
)


async def test_what_was_exported_comes_back_in_another_home(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(CHAT, encoding="utf-8")
    async with App(Settings(data_dir=tmp_path / "one")) as app:
        report = await app.import_source(file, form="chat", conversation_id="tea")
        assert report.count == 1
        assert report.conversation_id == "tea"
        content = await app.export()
    async with App(Settings(data_dir=tmp_path / "two")) as app:
        tried = await app.import_source(content, dry_run=True)
        assert tried.count == 1
        assert await app.conversations.ids() == []
        await app.import_source(content)
        [memory] = await app.conversation("tea").short_term.memories()
        assert "Miso" in memory.text


async def test_a_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        with pytest.raises(InvalidInput, match="no-such-file"):
            await app.import_source(tmp_path / "no-such-file")
        with pytest.raises(InvalidInput, match="no format"):
            await app.import_source(b"[]", form="poem")
        with pytest.raises(InvalidInput, match="no format"):
            await app.export("poem")

"""The script of the pictures can fill the page that it draws; Chromium is not needed for that."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from docs.markdown_pages import ROOT

from memory_server.config import Settings
from memory_server.runtime.app import App


@pytest.mark.anyio
async def test_the_sample_is_stored_and_asked_about(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    sys.modules["pictures"] = pictures
    spec.loader.exec_module(pictures)
    settings = Settings(data_dir=tmp_path, timezone="Europe/London", seed=7)
    memory_id = await pictures.fill(settings, "en")
    async with App(settings) as app:
        memories = await app.conversation("Nora and Wren").short_term.memories()
    assert memory_id in {memory.id for memory in memories}
    assert any(memory.score for memory in memories)

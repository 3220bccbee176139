"""The script of the pictures can fill the page that it draws; Chromium is not needed for that."""

from __future__ import annotations

import importlib.util
import sys
from datetime import datetime
from pathlib import Path

import pytest
from docs.markdown_pages import ROOT

from memory_server.config import Settings
from memory_server.conversations.recall.corrections import newer_by_older
from memory_server.conversations.recall.plans import plan_text
from memory_server.kernel.times import milliseconds
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
    shown = await pictures.fill(settings, "en")
    async with App(settings) as app:
        memories = await app.conversation("Nora and Wren").short_term.memories()
    by_id = {memory.id: memory for memory in memories}
    assert any(memory.score for memory in memories)
    assert set(shown) == {"wrong", "chain", "over", "open", ""}
    newer = newer_by_older(memories)
    assert by_id[shown["chain"]].corrects, "it corrects an older memory"
    assert shown["chain"] in newer, "it is corrected itself"
    now_ms = milliseconds(datetime.fromisoformat("2026-06-20T14:40+01:00"))
    texts = {
        kind: plan_text(by_id[shown[kind]], now_ms, settings.zone) for kind in ("open", "over")
    }
    assert texts == {
        "open": "a plan for 25 June, in 5 days",
        "over": "a plan for 17 June, which was 3 days ago",
    }

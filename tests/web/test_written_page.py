"""`view --html` ends, whatever triggers do."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from web_page import CHAT, opened

from memory_server.cli import web
from memory_server.conversations.trigger_search import SandboxRunner

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]


async def test_a_trigger_whose_next_day_is_not_found_in_time_does_not_hold_the_page_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_given: Any, **_named: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(web, "FIRINGS_SECONDS", 0.01)
    target = tmp_path / "page.html"
    async with opened(tmp_path / "data") as page:
        addition = await page.app.conversation(CHAT).long_term.add(
            "Tuesday", "tea", "new Date().getDay() === 2"
        )
        assert addition.change_id
        monkeypatch.setattr(SandboxRunner, "evaluate", never)
        async with asyncio.timeout(30):
            await web.view(page.app, Namespace(html=str(target), force=False))
    assert "</html>" in target.read_text("utf-8")

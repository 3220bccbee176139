"""An answer says that stored records cannot be used, and where they are named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_server import App
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = pytest.mark.anyio
_ASKED = [{"role": "user", "content": "what about the pizza?"}]


def _write(app: App, *, odd: int) -> None:
    """Write a file of one memory, and of so many that cannot be used."""
    folder = app.settings.data_dir / "default"
    folder.mkdir(parents=True)
    good = {"id": "a", "timestamp": "2025-01-01T00:00:00.000Z", "text": "user: pizza"}
    rows: list[Any] = [good, *({"id": f"odd {number}", "text": "user"} for number in range(odd))]
    (folder / "short-term-memory.json").write_text(json.dumps(rows), "utf-8")


@pytest.mark.parametrize("odd", [0, 1, 2])
async def test_searches_and_figures_say_how_many_records_cannot_be_used(app: App, odd: int) -> None:
    _write(app, odd=odd)
    said = {0: "", 1: "1 stored record cannot be used", 2: "2 stored records cannot be used"}[odd]
    for _try in ("before", "after the file is set aside"):
        question = {"recentMessages": _ASKED}
        found = (await call(TOOLS["search_short_term_memories"], app.call, question)).text
        recalled = (await call(TOOLS["recall_turn"], app.call, {"messages": _ASKED})).structured
        figures = (await call(TOOLS["get_memory_stats"], app.call, {})).text
        for text in (found, recalled["shortTerm"].get("note") or ""):
            assert ("cannot be used" in text) == bool(odd)
            assert said in text
        assert ("memory-server doctor" in figures) == bool(odd)
        stored = {"messages": [{"role": "user", "content": "something else"}]}
        await call(TOOLS["add_short_term_memory"], app.call, stored)

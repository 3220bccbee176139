"""`explain` and `search`: tools of the toolset `insight`, typed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import complain, console
from memory_server.config import Settings
from memory_server.core.errors import MemoryNotFound
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed, call


async def explain(settings: Settings, flags: Namespace) -> int:
    """Why asking brings a memory or not; the memory by its id, or by some of its words."""
    asked = {"recentMessages": [{"role": "user", "content": text} for text in flags.ask], "scope": flags.scope}
    async with App(settings) as app:
        recent = [{"memory_id": flags.memory}, {"text": flags.memory}]
        for number, which in enumerate(recent):
            try:
                return await _say(app, "explain_recall", {**asked, **which, "conversation_id": flags.in_})
            except ToolFailed as failure:
                # What is no id may be words.
                if number == 0 and isinstance(failure.__cause__, MemoryNotFound):
                    continue
                complain(str(failure))
                return 1
    return 1


async def search(settings: Settings, flags: Namespace) -> int:
    """Memories by words, dates, scores and tags."""
    given = {
        "query": flags.text,
        "keywords": flags.word,
        "date_from": flags.since,
        "date_to": flags.until,
        "min_score": flags.min_score,
        "max_score": flags.max_score,
        "tags": flags.tag,
        "memory_type": flags.kind,
        "archived": flags.archived,
        "sort_by": flags.sort,
        "order": "asc" if flags.reverse else None,
        "limit": flags.limit,
        "offset": flags.offset,
        "scope": flags.scope,
        "conversation_id": flags.in_,
    }
    async with App(settings) as app:
        try:
            return await _say(app, "search_memories", given)
        except ToolFailed as failure:
            complain(str(failure))
            return 1


async def _say(app: App, tool: str, arguments: Mapping[str, Any]) -> int:
    given = {name: value for name, value in arguments.items() if value is not None}
    answer = await call(TOOLS[tool], app.conversations, given)
    console().print(escape(answer.text))
    return 0

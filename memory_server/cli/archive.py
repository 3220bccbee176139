"""`history`, `undo`, `pin`, `unpin`, `unforget`: the tools of the toolset `archive`, typed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import complain, console
from memory_server.config import Settings
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed, call


async def history(settings: Settings, flags: Namespace) -> int:
    """A page of what was done, newest first."""
    return await _say(settings, flags, "get_history", {"limit": flags.limit, "before": flags.before})


async def undo(settings: Settings, flags: Namespace) -> int:
    """Take a change back."""
    return await _say(settings, flags, "undo_change", {"changeId": flags.change})


async def pin(settings: Settings, flags: Namespace) -> int:
    """Keep a memory from being forgotten."""
    return await _say(settings, flags, "pin_memory", {"id": flags.id})


async def unpin(settings: Settings, flags: Namespace) -> int:
    """Let a memory be forgotten again."""
    return await _say(settings, flags, "unpin_memory", {"id": flags.id})


async def unforget(settings: Settings, flags: Namespace) -> int:
    """Bring memories back from the archive."""
    arguments = {
        "ids": flags.ids or None,
        "pattern": flags.pattern,
        "removedSince": flags.since,
        "removedUntil": flags.until,
        "dry_run": flags.dry_run,
    }
    return await _say(settings, flags, "restore_memories_from_archive", arguments)


async def _say(settings: Settings, flags: Namespace, tool: str, arguments: Mapping[str, Any]) -> int:
    """Print what the tool says; 1 where it failed."""
    given = {name: value for name, value in {**arguments, "conversation_id": flags.in_}.items() if value is not None}
    async with App(settings) as app:
        try:
            answer = await call(TOOLS[tool], app.conversations, given)
        except ToolFailed as failure:
            complain(str(failure))
            return 1
    console().print(escape(answer.text))
    return 0

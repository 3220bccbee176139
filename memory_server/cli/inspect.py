"""Looking into a data folder and tidying it: `list`, `show`, `where`, `stats`, `cleanup`."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import AsyncIterator
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from memory_server.app import App
from memory_server.cli.project_file import project_at
from memory_server.cli.terminal import clipped, complain, console, time_text
from memory_server.config import Settings, default_config_file, named_config_file
from memory_server.core.errors import MemoryNotFound, StorageError
from memory_server.core.model import LongTermMemory, ShortTermMemory
from memory_server.managers.conversations import Conversation
from memory_server.recall.relevance import age_of, age_text
from memory_server.tools import TOOLS
from memory_server.tools.archive import REASONS, kept_text
from memory_server.tools.base.tool import call


async def list_(settings: Settings, flags: Namespace) -> int:
    """The conversations, or the memories of one."""
    async with App(settings) as app:
        if flags.conversation_id is None:
            await _list_conversations(app)
        else:
            await _list_memories(app, flags.conversation_id)
    return 0


async def _readable(app: App, only: str | None = None) -> AsyncIterator[Conversation]:
    """All conversations, or the one called `only`; if one of many cannot be read, it is reported and skipped."""
    for name in await app.conversations.ids() if only is None else [only]:
        conversation = app.conversation(name)
        try:
            await app.store.read(conversation.id)
        except StorageError as error:
            if only is not None:
                raise
            complain(str(error))
        else:
            yield conversation


async def _list_conversations(app: App) -> None:
    table = Table("conversation", "short-term", "long-term", "newest", box=None, pad_edge=False)
    async for conversation in _readable(app):
        figures = await conversation.short_term.statistics()
        triggers = len(await conversation.long_term.memories())
        newest = time_text(figures.newest_ms, app.settings.zone)
        table.add_row(escape(conversation.id), str(figures.total), str(triggers), newest)
    if table.row_count:
        console().print(table)
    else:
        console().print(f"No conversations in {escape(str(app.home.place))} yet.")


async def _list_memories(app: App, conversation_id: str) -> None:
    conversation = app.conversation(conversation_id)
    out = console()
    table = Table("id", "time", "score", "text", box=None, pad_edge=False)
    for memory in await conversation.short_term.memories():
        text = escape(clipped(memory.text, 70))
        table.add_row(memory.id, time_text(memory.time_ms, app.settings.zone), f"{memory.score:g}", text)
    if table.row_count:
        out.print(table)
    triggers = Table("name", "created", "trigger", box=None, pad_edge=False)
    for kept in await conversation.long_term.memories():
        created = time_text(kept.created_ms, app.settings.zone)
        triggers.add_row(escape(kept.name), created, escape(clipped(kept.trigger, 70)))
    if triggers.row_count:
        out.print(triggers)
    if not table.row_count and not triggers.row_count:
        out.print(f"Nothing is stored in the conversation {escape(conversation.id)}.")


async def show(settings: Settings, flags: Namespace) -> int:
    """Show everything that is known about one memory."""
    async with App(settings) as app:
        found = False
        async for conversation in _readable(app, flags.in_):
            for short in await conversation.short_term.memories():
                if short.id.startswith(flags.memory):
                    _show_short_term(app, conversation.id, short)
                    found = True
            for long in await conversation.long_term.memories():
                if long.name == flags.memory:
                    _show_long_term(app, conversation.id, long)
                    found = True
        if not found:
            raise MemoryNotFound(
                f"No memory has the id or name `{flags.memory}`; `memory-server list CONVERSATION` shows them."
            )
    return 0


def _show_short_term(app: App, conversation_id: str, memory: ShortTermMemory) -> None:
    zone, out = app.settings.zone, console()
    out.print(f"[bold]short-term memory {memory.id}[/] in {escape(conversation_id)}")
    age = age_text(age_of(memory.time_ms, app.clock()))
    pinned = ", pinned" if memory.pinned else ""
    out.print(f"time      {time_text(memory.time_ms, zone)} ({age} ago)\nscore     {memory.score:g}{pinned}")
    words = ", ".join(f"{w} {x:.1f}" for w, x in zip(memory.words, memory.weights, strict=True))
    out.print(f"keywords  {escape(words) or 'none'}\n{escape(memory.text)}")


def _show_long_term(app: App, conversation_id: str, memory: LongTermMemory) -> None:
    zone, out = app.settings.zone, console()
    out.print(f"[bold]long-term memory {escape(memory.name)}[/] in {escape(conversation_id)}")
    updated = f", updated {time_text(memory.updated_ms, zone)}" if memory.updated_ms else ""
    out.print(f"created   {time_text(memory.created_ms, zone)}{updated}")
    out.print(f"trigger   {escape(memory.trigger)}\nprompt    {escape(memory.prompt)}")
    if memory.created_context:
        out.print(f"arose from\n{escape(memory.created_context)}")


async def where(settings: Settings, flags: Namespace) -> int:
    """Show which folder holds what."""
    async with App(settings) as app:
        out = console()
        out.print(f"memories  {escape(str(app.home.place))}\nsettings  {escape(_settings_file(flags))}")
        if (project := project_at()) is not None:
            out.print(
                f"here      {escape(project.conversation)}, set by {escape(str(project.path))} for servers and hooks"
            )
        if (pause := app.paused()) is not None:
            out.print(escape(pause.text(settings.zone)))
        for space, figures in (await app.knowledge.overview()).items():
            out.print(f"knowledge {escape(space)}: {figures.count:,}, and {figures.archived:,} in the archive")
        for name in await app.conversations.ids():
            out.print(f"{escape(name)}\t{escape(str(app.home.place_of(name)))}")
    return 0


def _settings_file(flags: Namespace) -> str:
    path = Path(getattr(flags, "config", None) or named_config_file(os.environ) or default_config_file())
    return str(path) if path.is_file() else f"{path} (no such file: defaults apply)"


async def stats(settings: Settings, flags: Namespace) -> int:
    """The figures of `get_memory_stats`, of one conversation or of each."""
    async with App(settings) as app:
        tool = TOOLS["get_memory_stats"]
        count = 0
        async for conversation in _readable(app, flags.conversation_id):
            answer = await call(tool, app.context, {"conversation_id": conversation.id})
            console().print(f"[bold]{escape(conversation.id)}[/] {escape(answer.text)}")
            count += 1
        if not count:
            console().print("Nothing is stored yet.")
    return 0


async def cleanup(settings: Settings, flags: Namespace) -> int:
    """Forget what retention no longer keeps; with --dry-run only list it."""
    async with App(settings) as app:
        out = console()
        verb = "would forget" if flags.dry_run else "forgot"
        kept, spared = app.context.parameters.retention.always_kept, False
        async for conversation in _readable(app, flags.conversation_id):
            removed = await conversation.short_term.clean_up(dry_run=flags.dry_run, by="cleanup")
            later = f" ({removed.due} of them for later runs)" if removed.due else ""
            counts = f"{verb} {len(removed.forgotten)}, keeps {removed.remaining}{later}"
            out.print(f"[bold]{escape(conversation.id)}[/] {counts}")
            spared |= 0 < removed.remaining <= kept
            for forgotten in removed.forgotten:
                memory = forgotten.memory
                when = time_text(memory.time_ms, settings.zone)
                out.print(f"  {memory.id} {when} {REASONS[forgotten.reason]}: {escape(clipped(memory.text, 60))}")
        if spared:
            out.print(kept_text(kept))
    return 0

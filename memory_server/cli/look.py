"""Looking into a data folder: `list`, `show`, `where`, `stats`."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.project_file import project_at
from memory_server.cli.terminal import clipped, columns, complain, console, time_text, watched
from memory_server.config import default_config_file, named_config_file
from memory_server.core.errors import MemoryNotFound, StorageError
from memory_server.core.model import LongTermMemory, ShortTermMemory
from memory_server.managers.conversations import Conversation
from memory_server.recall.relevance import age_of, age_text
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

Act = Callable[[Conversation], Awaitable[None]]
"""What a command does with a conversation."""


async def each(app: App, only: str | None, doing: str, act: Act) -> tuple[int, int]:
    """Act on all conversations, or on the one called `only`; one of many that cannot be read or written is reported and
    skipped. Returns how many there were and how many failed. Raises StorageError if the conversation `only` cannot be
    read or written."""
    names, failed = await app.conversations.ids() if only is None else [only], 0
    for name in watched(doing, names, len(names)):
        try:
            await act(app.conversation(name))
        except StorageError as error:
            if only is not None:
                raise
            complain(str(error))
            failed += 1
    return len(names), failed


async def list_(app: App, flags: Namespace) -> None:
    """The conversations, or the memories of one."""
    if flags.conversation_id is not None:
        await _list_memories(app, flags.conversation_id)
        return
    table = columns("conversation", "short-term", "long-term", "newest")

    async def add(conversation: Conversation) -> None:
        figures = await conversation.short_term.statistics()
        triggers = len(await conversation.long_term.memories())
        newest = time_text(figures.newest_ms, app.settings.zone)
        table.add_row(escape(conversation.id), str(figures.total), str(triggers), newest)

    await each(app, None, "reading", add)
    console().print(table if table.row_count else f"No conversations in {escape(str(app.home.place))} yet.")


async def _list_memories(app: App, conversation_id: str) -> None:
    conversation, zone = app.conversation(conversation_id), app.settings.zone
    short = columns("id", "time", "score", "text")
    for memory in await conversation.short_term.memories():
        text = escape(clipped(memory.text, 70))
        short.add_row(memory.id, time_text(memory.time_ms, zone), f"{memory.score:g}", text)
    long = columns("name", "created", "trigger")
    for kept in await conversation.long_term.memories():
        long.add_row(escape(kept.name), time_text(kept.created_ms, zone), escape(clipped(kept.trigger, 70)))
    for table in (short, long):
        if table.row_count:
            console().print(table)
    if not (short.row_count or long.row_count):
        console().print(f"Nothing is stored in the conversation {escape(conversation.id)}.")


async def show(app: App, flags: Namespace) -> None:
    """Show everything that is known about one memory."""
    found: list[str] = []

    async def look(conversation: Conversation) -> None:
        short = await conversation.short_term.memories()
        long = await conversation.long_term.memories()
        found.extend(_short_term(app, conversation.id, one) for one in short if one.id.startswith(flags.memory))
        found.extend(_long_term(app, conversation.id, one) for one in long if one.name == flags.memory)

    await each(app, flags.in_, "looking", look)
    if not found:
        raise MemoryNotFound(
            f"No memory has the id or name `{flags.memory}`; `memory-server list CONVERSATION` shows them."
        )
    for text in found:
        console().print(text)


def _short_term(app: App, conversation_id: str, memory: ShortTermMemory) -> str:
    age, pinned = age_text(age_of(memory.time_ms, app.clock())), ", pinned" if memory.pinned else ""
    words = ", ".join(f"{w} {x:.1f}" for w, x in zip(memory.words, memory.weights, strict=True))
    return (
        f"[bold]short-term memory {memory.id}[/] in {escape(conversation_id)}\n"
        f"time      {time_text(memory.time_ms, app.settings.zone)} ({age} ago)\n"
        f"score     {memory.score:g}{pinned}\n"
        f"keywords  {escape(words) or 'none'}\n{escape(memory.text)}"
    )


def _long_term(app: App, conversation_id: str, memory: LongTermMemory) -> str:
    zone = app.settings.zone
    updated = f", updated {time_text(memory.updated_ms, zone)}" if memory.updated_ms else ""
    arose = f"\narose from\n{escape(memory.created_context)}" if memory.created_context else ""
    return (
        f"[bold]long-term memory {escape(memory.name)}[/] in {escape(conversation_id)}\n"
        f"created   {time_text(memory.created_ms, zone)}{updated}\n"
        f"trigger   {escape(memory.trigger)}\nprompt    {escape(memory.prompt)}{arose}"
    )


async def where(app: App, flags: Namespace) -> None:
    """Show which folder holds what."""
    out = console()
    out.print(f"memories  {escape(str(app.home.place))}\nsettings  {escape(_settings_file(flags))}")
    if (project := project_at()) is not None:
        out.print(f"here      {escape(project.conversation)}, set by {escape(str(project.path))} for servers and hooks")
    if (pause := app.paused()) is not None:
        out.print(escape(pause.text(app.settings.zone)))
    for space, figures in (await app.knowledge.overview()).items():
        out.print(f"knowledge {escape(space)}: {figures.count:,}, and {figures.archived:,} in the archive")
    for name in await app.conversations.ids():
        out.print(f"{escape(name)}\t{escape(str(app.home.place_of(name)))}")


def _settings_file(flags: Namespace) -> str:
    path = Path(getattr(flags, "config", None) or named_config_file(os.environ) or default_config_file())
    return str(path) if path.is_file() else f"{path} (no such file: defaults apply)"


async def stats(app: App, flags: Namespace) -> None:
    """The figures of `get_memory_stats`, of one conversation or of each."""

    async def show(conversation: Conversation) -> None:
        answer = await call(TOOLS["get_memory_stats"], app.context, {"conversation_id": conversation.id})
        console().print(f"[bold]{escape(conversation.id)}[/] {escape(answer.text)}")

    if await each(app, flags.conversation_id, "reading", show) == (0, 0):
        console().print("Nothing is stored yet.")

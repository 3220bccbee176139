"""`export`: memories as a file or folder for people, other programs, or another memory-server."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from rich.filesize import decimal
from rich.markup import escape

from memory_server.app import App
from memory_server.commands.memory_files import write_file, write_folder
from memory_server.config import Settings
from memory_server.contents import Contents, contents_of
from memory_server.errors import InvalidInput, StorageError
from memory_server.interchange import gentian, markdown, native, node, packs
from memory_server.terminal import complain, console, progress
from memory_server.wording import counted

FORMATS = ("native", "node", "gentian", "pack", "markdown")


async def export(settings: Settings, flags: Namespace) -> int:
    """Write what all conversations hold, or one; 1 where one could not be read."""
    async with App(settings) as app:
        held, unreadable = await _held(app, flags.conversation_id)
        if not held:
            raise InvalidInput("Nothing is stored there yet; there is nothing to export.")
        size = await asyncio.to_thread(_written, held, flags, settings, app.clock())
        if flags.target != "-":
            count, left = sum(contents.count for contents in held), 0
            if flags.format == "pack":
                left = sum(len(contents.short_term) for contents in held)
            what = f"{counted(count - left, 'memory')} of {counted(len(held), 'conversation')}, {decimal(size)}"
            console().print(f"Wrote {escape(flags.target)}: {what}, as {flags.format}.")
            if left:
                console().print(
                    f"Not in it: {counted(left, 'short-term memory')}; a pack is of long-term memories only."
                )
    return 1 if unreadable else 0


async def _held(app: App, only: str | None) -> tuple[list[Contents], int]:
    ids = await app.conversations.ids()
    if only is not None:
        wanted = app.conversation(only).id
        ids = [name for name in ids if name == wanted]
    held: list[Contents] = []
    unreadable = 0
    with progress("reading", len(ids)) as bar:
        for name in ids:
            try:
                held.append(contents_of(await app.store.read(name)))
            except StorageError as error:
                complain(f"left out: {error}")
                unreadable += 1
            bar.advance(bar.task_ids[0])
    return held, unreadable


def _written(held: list[Contents], flags: Namespace, settings: Settings, now_ms: int) -> int:
    match flags.format:
        case "node" | "gentian" as form:
            if flags.target == "-":
                raise InvalidInput(f"The form {form} is a folder; name one instead of `-`.")
            return write_folder(flags.target, node.write(held) if form == "node" else gentian.write(held))
        case "pack":
            return write_file(flags.target, [packs.write(held)], force=flags.force)
        case "markdown":
            return write_file(flags.target, markdown.write(held, settings.zone), force=flags.force)
        case _:
            return write_file(flags.target, native.write(held, now_ms), force=flags.force)

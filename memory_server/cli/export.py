"""`export`: memories as a file or folder for people, other programs, or another memory-server."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterable, Sequence

from rich.filesize import decimal
from rich.markup import escape

from memory_server.app import App
from memory_server.cli.memory_files import write_file, write_folder
from memory_server.cli.terminal import complain, console, progress
from memory_server.config import Settings
from memory_server.core.contents import Contents, contents_of
from memory_server.core.errors import InvalidInput, StorageError
from memory_server.core.phrases import counted
from memory_server.interchange import gentian, markdown, native, node, official, packs


async def export(settings: Settings, flags: Namespace) -> int:
    """Write the memories of all conversations, or of one; 1 if one could not be read."""
    async with App(settings) as app:
        held, unreadable = await _held(app, flags.conversation_id)
        if not held:
            raise InvalidInput("There is nothing to export: nothing is stored there yet.")
        size = await asyncio.to_thread(write, held, flags, settings, app.clock())
        report_written(held, flags, size)
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


def report_written(held: Sequence[Contents], flags: Namespace, size: int) -> None:
    """Say what is in the file or folder `flags.target`, and what its form cannot hold."""
    if flags.target == "-":
        return
    out, form = console(), flags.to
    left = sum(len(contents.short_term) for contents in held) if form == "pack" else 0
    count = sum(contents.count for contents in held) - left
    what = f"{counted(count, 'memory')} of {counted(len(held), 'conversation')}, {decimal(size)}"
    out.print(f"Wrote {escape(flags.target)}: {what}, as {form}.")
    for note in official.LOST if form == "official" else ():
        out.print(f"[cyan]not carried[/]  {escape(note)}")
    if left:
        out.print(f"Not in it: {counted(left, 'short-term memory')}; a pack holds only long-term memories.")


def write(held: Sequence[Contents], flags: Namespace, settings: Settings, now_ms: int) -> int:
    """Write memories to `flags.target` in the form `flags.to`; the bytes. Raises InvalidInput."""
    match flags.to:
        case "node" | "gentian" as form:
            if flags.target == "-":
                raise InvalidInput(f"The form {form} is a folder; give the name of one instead of `-`.")
            return write_folder(flags.target, node.write(held) if form == "node" else gentian.write(held))
        case "pack":
            parts: Iterable[bytes] = [packs.write(held)]
        case "official":
            parts = [official.write(held)]
        case "markdown":
            parts = markdown.write(held, settings.zone)
        case _:
            parts = native.write(held, now_ms)
    return write_file(flags.target, parts, force=flags.force)

"""`export`: memories as a file or folder for people, other programs, or another memory-server."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from dataclasses import dataclass

from rich.filesize import decimal
from rich.markup import escape

from memory_server.app import App
from memory_server.cli.memory_files import write_file, write_folder
from memory_server.cli.terminal import complain, console, progress
from memory_server.config import Settings
from memory_server.core.contents import Contents, contents_of
from memory_server.core.errors import InvalidInput, StorageError
from memory_server.core.phrases import counted
from memory_server.interchange import gentian, markdown, native, node, official, packs, worldinfo

LONG_TERM_ONLY = {"pack": "a pack", "worldinfo": "a lorebook"}
"""Forms that hold no short-term memories, in words."""


async def export(settings: Settings, flags: Namespace) -> int:
    """Write what all conversations hold, or one; 1 where one could not be read."""
    async with App(settings) as app:
        held, unreadable = await _held(app, flags.conversation_id)
        if not held:
            raise InvalidInput("Nothing is stored there yet; there is nothing to export.")
        written = await asyncio.to_thread(_written, held, flags, settings, app.clock())
        if flags.target != "-":
            _print(flags, held, written)
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


@dataclass(frozen=True, slots=True)
class _Written:
    """Bytes; and, as far as the form does not hold everything, how many memories are in it, and what is not."""

    size: int
    count: int | None = None
    notes: tuple[tuple[str, str], ...] = ()
    lost: tuple[str, ...] = ()


def _print(flags: Namespace, held: list[Contents], written: _Written) -> None:
    out, form = console(), flags.format
    left = sum(len(contents.short_term) for contents in held) if form in LONG_TERM_ONLY else 0
    count = sum(contents.count for contents in held) - left if written.count is None else written.count
    what = f"{counted(count, 'memory')} of {counted(len(held), 'conversation')}, {decimal(written.size)}"
    out.print(f"Wrote {escape(flags.target)}: {what}, as {form}.")
    for name, note in written.notes:
        out.print(f"[cyan]not carried[/]  {escape(name)}: {escape(note)}")
    for note in written.lost:
        out.print(f"[cyan]not carried[/]  {escape(note)}")
    if left:
        only = f"{LONG_TERM_ONLY[form]} is of long-term memories only"
        out.print(f"Not in it: {counted(left, 'short-term memory')}; {only}.")


def _written(held: list[Contents], flags: Namespace, settings: Settings, now_ms: int) -> _Written:
    def file(*parts: bytes) -> int:
        return write_file(flags.target, parts, force=flags.force)

    match flags.format:
        case "node" | "gentian" as form:
            if flags.target == "-":
                raise InvalidInput(f"The form {form} is a folder; name one instead of `-`.")
            return _Written(write_folder(flags.target, node.write(held) if form == "node" else gentian.write(held)))
        case "pack":
            return _Written(file(packs.write(held)))
        case "worldinfo":
            data, count, notes = worldinfo.write(held)
            if not count:
                raise InvalidInput("No long-term memory has a trigger that a lorebook can say; export a pack instead.")
            return _Written(file(data), count, tuple(notes))
        case "official":
            return _Written(file(official.write(held)), lost=official.LOST)
        case "markdown":
            return _Written(file(*markdown.write(held, settings.zone)))
        case _:
            return _Written(write_file(flags.target, native.write(held, now_ms), force=flags.force))

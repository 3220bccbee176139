"""`import`: memories of other programs and of exports, with a report line by line before anything is stored."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Collection

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.backup import tally_text
from memory_server.cli.reading import TRUSTED, checked, dated, read_memories, report
from memory_server.cli.terminal import clipped, console, progress, time_text
from memory_server.config import Settings
from memory_server.core.archive import archived_ids
from memory_server.core.changes import Change
from memory_server.core.contents import Contents, MergeCounts, restore_changes
from memory_server.core.errors import InvalidInput
from memory_server.core.model import ConversationState
from memory_server.core.phrases import counted
from memory_server.interchange.incoming import Incoming, with_keywords

SHOWN_CELLS = 70


async def import_(settings: Settings, flags: Namespace) -> int:
    """Read, report and, without --dry-run, store; 1 if nothing could be used."""
    async with App(settings) as app:
        usual = app.conversation(flags.into).id
        found, form = await read_memories(app, flags, usual)
        if flags.into is not None and any(contents.conversation_id != usual for contents in found.conversations):
            raise InvalidInput(f"{flags.source} names its own conversations; leave --into out.")
        if form not in TRUSTED:
            await checked(app, found)
            dated(found, app.clock())
        out = console()
        out.print(f"{escape(flags.source)} has the form {form}.")
        for contents, tally in await _stored(app, found, dry_run=flags.dry_run):
            verb = "would get" if flags.dry_run else "got"
            out.print(f"[bold]{escape(contents.conversation_id)}[/] {verb} {tally_text(tally)}")
            if flags.dry_run:
                _print_memories(app, contents)
        report(out, found)
        nothing = " Nothing was changed." if flags.dry_run else ""
        out.print(
            f"{counted(found.count, 'memory')} can be used, {counted(len(found.skipped), 'record')} left out.{nothing}"
        )
    return 0 if found.count or not found.skipped else 1


async def _stored(app: App, found: Incoming, *, dry_run: bool) -> list[tuple[Contents, MergeCounts]]:
    done: list[tuple[Contents, MergeCounts]] = []
    with progress("importing", len(found.conversations)) as bar:
        for incoming in found.conversations:
            wording = app.context.services.parameters.wording.within(incoming.conversation_id)
            contents = await asyncio.to_thread(with_keywords, incoming, wording)

            name = contents.conversation_id
            archived = archived_ids(await app.store.archive(name))

            def decide(
                state: ConversationState, contents: Contents = contents, archived: Collection[str] = archived
            ) -> tuple[list[Change], MergeCounts]:
                return restore_changes(state, contents, "merge", archived)

            if dry_run:
                done.append((contents, decide(await app.store.read(name))[1]))
            else:
                tally, _ = await app.store.update(name, decide, by="import")
                done.append((contents, tally))
            bar.advance(bar.task_ids[0])
    return done


def _print_memories(app: App, contents: Contents) -> None:
    out, zone = console(), app.settings.zone
    for memory in contents.short_term:
        out.print(f"  {time_text(memory.time_ms, zone)}  {escape(clipped(memory.text, SHOWN_CELLS))}")
    for kept in contents.long_term:
        out.print(f"  {escape(kept.name)}: {escape(clipped(kept.prompt, SHOWN_CELLS))}")

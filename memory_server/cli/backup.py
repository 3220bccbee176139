"""`backup`, `restore`, `backups`: backups of memories, as with the tools of the toolset `backup`."""

from __future__ import annotations

from argparse import Namespace

from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from memory_server.app import App
from memory_server.cli.terminal import complain, console, progress, time_text
from memory_server.config import Settings
from memory_server.core.contents import Mode, Tally
from memory_server.core.phrases import counted


async def backup(settings: Settings, flags: Namespace) -> int:
    """Make a backup; 1 if a conversation had to be left out."""
    settings.refuse_change("backup")
    async with App(settings) as app:
        with progress("backing up", len(await app.conversations.ids())) as bar:
            made = await app.context.backups.make(
                flags.name, only=flags.conversation_id, advance=lambda: bar.advance(bar.task_ids[0])
            )
        for reason in made.left_out:
            complain(f"left out: {reason}")
        one = made.backup
        console().print(
            f"Backup {escape(one.name)}: {counted(one.conversations, 'conversation')}, {one.short_term} short-term and "
            f"{one.long_term} long-term memories, {decimal(one.size_bytes)}."
            + (f" Beside it {made.entries:,} notes and other entries." if made.entries else "")
        )
    return 1 if made.left_out else 0


async def restore(settings: Settings, flags: Namespace) -> int:
    """Restore a backup, or with --dry-run say what that would change; 1 if a memory was left out."""
    if not flags.dry_run:
        settings.refuse_change("restore")
    async with App(settings) as app:
        backups = app.context.backups
        known = {backup.name: backup.conversations for backup in await backups.listed()}
        with progress("restoring", known.get(flags.name, 0)) as bar:
            done = await backups.restore(
                flags.name,
                "overwrite" if flags.overwrite else "merge",
                dry_run=flags.dry_run,
                only=flags.conversation_id,
                by="restore",
                advance=lambda: bar.advance(bar.task_ids[0]),
            )
        verb = "would get" if flags.dry_run else "got"
        for one in done:
            change = f" (change {one.change_id})" if one.change_id else ""
            console().print(f"[bold]{escape(one.conversation_id)}[/] {verb} {tally_text(one.tally)}{change}")
            for reason in one.left_out:
                complain(f"left out: {reason}.")
        if flags.conversation_id is None:
            mode: Mode = "overwrite" if flags.overwrite else "merge"
            entries = await backups.restore_knowledge(flags.name, mode, dry_run=flags.dry_run)
            if entries is not None:
                console().print(f"[bold]knowledge[/] {verb} {entries:,} entries")
    return 1 if any(one.left_out for one in done) else 0


async def backups(settings: Settings, flags: Namespace) -> int:
    """List the backups, or delete one."""
    if flags.delete is not None:
        settings.refuse_change("backups --delete")
    async with App(settings) as app:
        if flags.delete is not None:
            await app.context.backups.delete(flags.delete)
            console().print(f"Deleted the backup {escape(flags.delete)}.")
            return 0
        found = await app.context.backups.listed()
        table = Table("name", "made", "conversations", "short-term", "long-term", "size", box=None, pad_edge=False)
        for one in found:
            made = time_text(one.created_ms, settings.zone)
            figures = (one.conversations, one.short_term, one.long_term)
            cells = ["?"] * 3 if one.problem else [str(figure) for figure in figures]
            table.add_row(escape(one.name), made, *cells, decimal(one.size_bytes))
        console().print(table if found else "There is no backup yet; `memory-server backup` makes one.")
        for one in found:
            if one.problem:
                complain(f"the backup {one.name} cannot be used: {one.problem}")
    return 0


def tally_text(tally: Tally) -> str:
    """`3 new, 1 replaced`: what a restore or an import did, in words."""
    parts = (
        (tally.added, "new"),
        (tally.replaced, "replaced"),
        (tally.removed, "removed"),
        (tally.unchanged, "unchanged"),
        (tally.kept_newer, "newer here and kept"),
    )
    return ", ".join(f"{count} {what}" for count, what in parts if count) or "nothing"

"""`backup`, `restore`, `backups`: backups of memories, as with the tools of the toolset `backup`."""

from __future__ import annotations

from argparse import Namespace

from rich.filesize import decimal
from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import columns, complain, console, progress, time_text
from memory_server.core.contents import MergeCounts, Mode
from memory_server.core.phrases import counted


async def backup(app: App, flags: Namespace) -> int:
    """Make a backup; 1 if a conversation had to be left out."""
    with progress("backing up", len(await app.conversations.ids())) as advance:
        made = await app.context.backups.make(flags.name, only=flags.conversation_id, advance=advance)
    for reason in made.left_out:
        complain(f"left out: {reason}")
    one = made.backup
    console().print(
        f"Backup {escape(one.name)}: {counted(one.conversations, 'conversation')}, {one.short_term} short-term and "
        f"{one.long_term} long-term memories, {decimal(one.size_bytes)}."
        + (f" Beside it {made.entries:,} notes and other entries." if made.entries else "")
    )
    return 1 if made.left_out else 0


async def restore(app: App, flags: Namespace) -> int:
    """Restore a backup, or with --dry-run say what that would change; 1 if a memory was left out."""
    backups = app.context.backups
    mode: Mode = "overwrite" if flags.overwrite else "merge"
    known = {backup.name: backup.conversations for backup in await backups.listed()}
    with progress("restoring", known.get(flags.name, 0)) as advance:
        only, dry_run = flags.conversation_id, flags.dry_run
        done = await backups.restore(flags.name, mode, dry_run=dry_run, only=only, by="restore", advance=advance)
    for one in done:
        verb, change = "would get" if dry_run else "got", f" (change {one.change_id})" if one.change_id else ""
        console().print(f"[bold]{escape(one.conversation_id)}[/] {verb} {tally_text(one.counts)}{change}")
        for reason in one.left_out:
            complain(f"left out: {reason}.")
    if only is None and (entries := await backups.restore_knowledge(flags.name, mode, dry_run=dry_run)) is not None:
        console().print(f"[bold]knowledge[/] {'would get' if dry_run else 'got'} {entries:,} entries")
    return 1 if any(one.left_out for one in done) else 0


async def backups(app: App, flags: Namespace) -> None:
    """List the backups, or delete one."""
    if flags.delete is not None:
        app.settings.refuse_change("backups --delete")
        await app.context.backups.delete(flags.delete)
        console().print(f"Deleted the backup {escape(flags.delete)}.")
        return
    found = await app.context.backups.listed()
    table = columns("name", "made", "conversations", "short-term", "long-term", "size")
    for one in found:
        figures = ["?"] * 3 if one.problem else map(str, (one.conversations, one.short_term, one.long_term))
        made = time_text(one.created_ms, app.settings.zone)
        table.add_row(escape(one.name), made, *figures, decimal(one.size_bytes))
    console().print(table if found else "There is no backup yet; `memory-server backup` makes one.")
    for one in found:
        if one.problem:
            complain(f"the backup {one.name} cannot be used: {one.problem}")


def tally_text(tally: MergeCounts) -> str:
    """`3 new, 1 replaced`: what a restore or an import did, in words."""
    parts = {
        "new": tally.added,
        "replaced": tally.replaced,
        "removed": tally.removed,
        "unchanged": tally.unchanged,
        "newer here and kept": tally.kept_newer,
    }
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count) or "nothing"

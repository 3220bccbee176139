"""`backup` and `backup list`, `restore`, `delete`: as with the tools of the toolset `backup`."""

from __future__ import annotations

from argparse import Namespace

from rich.filesize import decimal
from rich.markup import escape

from memory_server.app import App
from memory_server.cli.commands import SUBCOMMANDS
from memory_server.cli.look import chosen
from memory_server.cli.terminal import complain, console, print_columns, progress, time_text
from memory_server.core.contents import MergeCounts, Mode
from memory_server.core.errors import InvalidInput
from memory_server.core.phrases import counted
from sandbox.language import term


async def backup(app: App, flags: Namespace) -> int:
    """Make a backup; 1 if a conversation had to be left out."""
    names = await chosen(app, flags)
    if flags.name in (word.split()[1] for word in SUBCOMMANDS):
        raise InvalidInput(f"Write `memory-server backup {flags.name}` without anything between the two words.")
    only = names[0] if hasattr(flags, "conversation") else None
    with progress("backing up", len(names)) as advance:
        made = await app.context.backups.make(flags.name, only=only, advance=advance)
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
        only, dry_run = getattr(flags, "conversation", None), flags.dry_run
        done = await backups.restore(flags.name, mode, dry_run=dry_run, only=only, by="restore", advance=advance)
    for one in done:
        verb, change = term("would get" if dry_run else "got"), f" (change {one.change_id})" if one.change_id else ""
        console().print(f"[bold]{escape(one.conversation_id)}[/] {verb} {tally_text(one.counts)}{change}")
        for reason in one.left_out:
            complain(f"left out: {reason}.")
    if only is None and (entries := await backups.restore_knowledge(flags.name, mode, dry_run=dry_run)) is not None:
        verb = term("would get" if dry_run else "got")
        console().print(f"[bold]{term('knowledge')}[/] {verb} {term(f'{entries:,} entries')}")
    return 1 if any(one.left_out for one in done) else 0


async def delete(app: App, flags: Namespace) -> None:
    """Delete a backup."""
    await app.context.backups.delete(flags.name)
    console().print(f"Deleted the backup {escape(flags.name)}.")


async def backups(app: App, _flags: Namespace) -> None:
    """List the backups."""
    found = await app.context.backups.listed()
    rows = [("name", "made", "conversations", "short-term", "long-term", "size")]
    for one in found:
        counts = (one.conversations, one.short_term, one.long_term)
        first, second, third = ("?" if one.problem else str(count) for count in counts)
        made = time_text(one.created_ms, app.settings.zone)
        rows.append((one.name, made, first, second, third, decimal(one.size_bytes)))
    if found:
        print_columns(rows)
    else:
        console().print("There is no backup yet; `memory-server backup` makes one.")
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

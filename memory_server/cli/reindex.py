"""`reindex`: finds the words of older memories again, with the present settings."""

from __future__ import annotations

from argparse import Namespace

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import complain, console, time_text, watched
from memory_server.config import Settings
from memory_server.core.changes import Edited
from memory_server.core.errors import StorageError

SHOWN = 20
"""Memories of a conversation that --dry-run shows."""
SHOWN_WORDS = 6


async def reindex(settings: Settings, flags: Namespace) -> int:
    """Reindex all conversations or one; with --dry-run only say what that would change. 1 if one cannot be read."""
    out, failed = console(), False
    async with App(settings) as app:
        only = flags.conversation_id
        names = await app.conversations.ids() if only is None else [app.conversation(only).id]
        for name in watched("reindexing", names, len(names)):
            try:
                done = await app.conversation(name).short_term.reindex(dry_run=flags.dry_run, by="reindex")
            except StorageError as error:
                complain(str(error))
                failed = True
                continue
            verb = "would change" if flags.dry_run else "changed"
            change = f", change {done.change_id}" if done.change_id else ""
            other = [edit for edit in done.changes if _differs(edit)]
            out.print(f"[bold]{escape(name)}[/] {verb} {len(other)} of {done.total}{change}")
            if flags.dry_run:
                for edit in other[:SHOWN]:
                    out.print(
                        f"  {edit.memory.id} {time_text(edit.memory.time_ms, settings.zone)} {escape(_words(edit))}"
                    )
                if len(other) > SHOWN:
                    out.print(f"  … and {len(other) - SHOWN} more")
    if not names:
        out.print("Nothing is stored yet.")
    return 1 if failed else 0


def _differs(edit: Edited) -> bool:
    """Whether words or weights change, and not only the record of the settings that found them."""
    return (edit.before.words, edit.before.weights) != (edit.memory.words, edit.memory.weights)


def _words(edit: Edited) -> str:
    """`+5月2日 -喜歡`: added and removed words; if there are none, a note that weights change."""
    before, after = set(edit.before.words), set(edit.memory.words)
    come = [f"+{word}" for word in edit.memory.words if word not in before]
    go = [f"-{word}" for word in edit.before.words if word not in after]
    shown = [*come[:SHOWN_WORDS], *go[:SHOWN_WORDS]]
    if len(come) > SHOWN_WORDS or len(go) > SHOWN_WORDS:
        shown.append("…")
    return " ".join(shown) or "other weights"

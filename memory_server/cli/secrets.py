"""`secrets test`: show what would be removed from a text; `secrets erase`: erase the memories that hold secrets."""

from __future__ import annotations

from argparse import Namespace

from languages import _, counted
from memory_server.app import CallerView
from memory_server.cli import erasing
from memory_server.cli.terminal import console, escape
from memory_server.config import Settings
from memory_server.kernel.secrets import without_secrets
from memory_server.kernel.streams import standard_input, write
from memory_server.memories.held_secrets import held_secrets


async def test(_settings: Settings, flags: Namespace) -> None:
    """Print a text as a client that writes code would have it stored."""
    text = flags.text
    if text == "-":
        text = standard_input().decode(errors="replace")
    cleaned = without_secrets(text, with_pairs=True)
    write(cleaned.text)
    console().print(_("Secrets that are removed: {count}.", len(cleaned.found)))


async def erase(app: CallerView, flags: Namespace) -> int:
    """Erase for good the memories that hold secrets; 1 if some of it stays."""
    held = await held_secrets(app.memories)
    if not held.items and not held.backups:
        console().print(_("No memory and no backup holds a secret of a known kind."))
        return 0
    for item in held.items:
        console().print(escape(f"{item.id}  {_(item.family)} {item.place}"))
    names = ", ".join(held.backups) or "-"
    holders = counted(len(held.items), "memory")
    console().print(escape(_("{memories} hold secrets; backups: {names}.", holders, names)))
    erasure = await held.erasure(app.memories)
    backups = await erasing.backups_with(app, erasure)
    return await erasing.after_asking(app, flags, erasure, backups)

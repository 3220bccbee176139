"""Show which secrets would be removed from a text (`secrets test`), and erase the memories that hold secrets
(`secrets erase`)."""

from __future__ import annotations

from argparse import Namespace

from languages import _
from memory_server.cli import erasing
from memory_server.cli.terminal import console, escape
from memory_server.config import Settings
from memory_server.kernel.items import Sought
from memory_server.kernel.secrets import without_secrets
from memory_server.kernel.streams import standard_input, write
from memory_server.operations.erasing import EraseRequest, plan_erasing
from memory_server.runtime.app import CallerView


async def test(_settings: Settings, flags: Namespace) -> None:
    """Print a text as it would be stored for a client that writes code."""
    text = flags.text
    if text == "-":
        text = standard_input().decode(errors="replace")
    cleaned = without_secrets(text, with_pairs=True)
    write(cleaned.text)
    console().print(_("Secrets that are removed: {count}.", len(cleaned.found)))


async def erase(view: CallerView, flags: Namespace) -> int:
    """Erase for good the memories that hold secrets. Return 1 if a secret remains."""
    request = EraseRequest(
        (), Sought(archived=None), in_backups=flags.in_backups, holding_secrets=True
    )
    plan = await plan_erasing(view, request)
    if not plan.items and not plan.backups:
        console().print(_("No memory and no backup holds a secret of a known kind."))
        return 0
    for item in plan.items:
        console().print(escape(f"{item.id}  {_(item.family)} {item.place}"))
    return await erasing.carry_out(view, flags, plan)

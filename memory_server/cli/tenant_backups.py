"""`backup --all-tenants`: backups of the owner and of every tenant, under one name, each beside its memories."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from languages import _, counted
from memory_server.app import App, CallerView
from memory_server.cli.call_tool import print_result
from memory_server.cli.terminal import console, escape, progress
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.streams import complain
from memory_server.memories.backups import BackupMade
from memory_server.runtime import ONE_QUESTION, Runtime
from memory_server.tools.backup import backup_result


async def make(app: CallerView, flags: Namespace) -> int:
    """Back up the memories of the owner, if there are any, and those of every tenant. Return 1 if something had to be
    left out. Raises InvalidInput: one conversation or one tenant is named, or nothing is stored."""
    if hasattr(flags, "conversation") or hasattr(flags, "tenant"):
        raise InvalidInput("--all-tenants backs up all memories; leave out --tenant and -c.")
    tenants = dict(zip(app.home.tenant_names(), app.home.tenants(), strict=True))
    name = flags.name
    complete = True
    saved = 0
    if await _has_memories(app) or not tenants:
        new_backup = await _backup_of(app, name)
        print_result(app, backup_result(new_backup))
        name = new_backup.backup.name
        complete = not new_backup.left_out
    for tenant, where in tenants.items():
        async with _tenants_app(app, where) as tenants_app:
            if not await _has_memories(tenants_app):
                console().print(escape(_("{tenant}: nothing is stored.", tenant)))
                continue
            try:
                new_backup = await _backup_of(tenants_app, name)
            except (StorageError, InvalidInput) as error:
                complain(_("{tenant} was not backed up: {reason}", tenant, error))
                complete = False
                continue
        console().print(f"[bold]{escape(tenant)}[/]")
        print_result(tenants_app, backup_result(new_backup))
        name = new_backup.backup.name
        complete = complete and not new_backup.left_out
        saved += 1
    if tenants:
        console().print(
            _("{saved} of {tenants} backed up.", saved, counted(len(tenants), "tenant"))
        )
    return int(not complete)


def _tenants_app(app: CallerView, where: Mapping[str, Any]) -> App:
    """The memories of a tenant, beside those of `app`; `where` they are, as settings."""
    settings = app.settings.model_copy(update=where)
    return App(settings, runtime=Runtime.for_tenant(settings, app.runtime, lifetime=ONE_QUESTION))


async def _has_memories(app: CallerView) -> bool:
    return bool(await app.conversations.ids() or await app.knowledge.overview())


async def _backup_of(app: CallerView, name: str | None) -> BackupMade:
    conversations = await app.conversations.ids()
    with progress(_("backing up"), len(conversations)) as advance:
        return await app.memories.backups.make(name, advance=advance)

"""Between stores: `copy`, and `migrate` for the tables of a database."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.markup import escape

from memory_server.cli.terminal import complain, console, progress
from memory_server.config import Settings, home_of
from memory_server.conversations.model import ConversationState, conversation_id_of
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import EVERYTHING, Entry, Operation
from memory_server.knowledge.ports import EntryStore
from memory_server.storage.data_dir import Home
from sandbox.locale import _, counted, n_


async def copy(settings: Settings, flags: Namespace) -> int:
    """Copy conversations with their versions and their past from one store to another, and if none is named also the
    knowledge, the record of recalls and the tombstones; say what is there already. 1 if something was not copied and is
    not there as it is here. Raises InvalidInput: both stores are one, or a conversation is
    not there."""
    async with AsyncExitStack() as stack:
        source, target = [await _opened(settings, store, flags, stack) for store in (flags.from_, flags.to)]
        if source.shown == target.shown:
            raise InvalidInput("Both stores are {place}; give another one as --from or --to.", source.shown)
        there = await source.conversations.conversations()
        names = [conversation_id_of(name) for name in flags.conversations] or there
        if missing := sorted(set(names) - set(there)):
            raise InvalidInput("There is no conversation {name} in {place}.", missing[0], source.shown)
        known, failed = set(await target.conversations.conversations()), 0
        with progress(_("copying"), len(names)) as advance:
            for name in names:
                failed += not await _copy(source, target, name, known=name in known, dry_run=flags.dry_run)
                advance()
        if not flags.conversations:
            failed += not await _copy_knowledge(source, target, dry_run=flags.dry_run)
            failed += not (flags.dry_run or await asyncio.to_thread(_copy_records, source, target))
    return int(failed > 0)


async def _copy_knowledge(source: Home, target: Home, *, dry_run: bool) -> bool:
    """Notes and other entries with their past and their numbers, and whether they are there now."""
    here, there = (home.entries(durability="full", cache_mb=16) for home in (source, target))
    try:
        mine, theirs = [await _told(each) for each in (here, there)]
        count = counted(sum(map(len, mine[0].values())), "entry")
        if theirs == mine:
            if any(mine[0].values()):
                console().print(_("[bold]knowledge[/] is already there"))
            return True
        if not theirs[0] and dry_run:
            console().print(_("[bold]knowledge[/] would be copied: {count}.", count))
            return True
        with TemporaryDirectory() as folder:
            await here.copy_to(path := Path(folder, "knowledge.sqlite3"))
            if not theirs[0] and await there.adopt(path):
                console().print(_("[bold]knowledge[/] copied: {count}.", count))
                return True
        complain(_("The knowledge was not copied: there is some already, and it differs; nothing is merged."))
        return False
    finally:
        for each in (here, there):
            await each.aclose()


async def _told(entries: EntryStore) -> tuple[dict[Scope, list[Entry]], list[tuple[Scope, Operation]]]:
    """All that is kept, as it is compared."""
    scopes = await entries.scopes()
    held = {each: await entries.read(each, lambda view: view.entries(EVERYTHING, order="oldest")) for each in scopes}
    return held, await entries.operations(limit=2**31)


def _copy_records(source: Home, target: Home) -> bool:
    """The record of recalls, where there is none, and what was erased, so that it does not come back."""
    if not target.recalls.lines():
        for line in source.recalls.lines():
            target.recalls.append(line)
    key, hashes = source.erased.known()
    if not key or hashes <= target.erased.known()[1] or target.erased.adopt(key, hashes):
        return True
    complain(
        _(
            "What was erased in {place} is not known in {other}, which has erased something too.",
            source.shown,
            target.shown,
        )
    )
    return False


async def _copy(source: Home, target: Home, name: str, *, known: bool, dry_run: bool) -> bool:
    try:
        source.refuse_newer(name)
        commits = await source.conversations.history(name, limit=2**31)
        state = await source.conversations.read(name)
        past = [each for each in reversed(commits) if each.version <= state.version]
        there = await target.conversations.read(name) if known else ConversationState(name)
        n = len(past)
        if not known and (dry_run or await target.conversations.adopt(name, state, past)):
            would = n_("{name} would be copied: {count} change.", "{name} would be copied: {count} changes.", n, name)
            done = n_("{name} is copied: {count} change.", "{name} is copied: {count} changes.", n, name)
            console().print(escape(would if dry_run else done))
            return True
    except StorageError as error:
        complain(_("{name} was not copied: {reason}", name, error))
        return False
    if there == state:
        console().print(escape(_("{name} is already there.", name)))
        return True
    complain(
        _(
            "{name} was not copied: one of this name is there already and differs (version {there} there, {here} "
            "here); nothing is merged.",
            name,
            there.version,
            state.version,
        )
    )
    return False


async def _opened(settings: Settings, store: str | None, flags: Namespace, stack: AsyncExitStack) -> Home:
    def clock() -> int:
        return time.time_ns() // 1_000_000

    update = {} if store is None else {"store": store}
    home = home_of(settings.model_copy(update=update), clock)
    stack.push_async_callback(home.aclose)
    if hasattr(flags, "tenant"):
        home = home_of(settings.model_copy(update={**update, **home.settings_of(flags.tenant)}), clock, beside=home)
    stack.push_async_callback(home.conversations.aclose)
    return home


async def migrate(settings: Settings, flags: Namespace) -> None:
    """Bring the tables of the database up to date, or with --dry-run say what that would do."""
    home = home_of(settings, lambda: 0)
    try:
        done = await asyncio.to_thread(home.migrate, dry_run=flags.dry_run)
    finally:
        await home.aclose()
    if not done:
        console().print(_("The tables of {place} are up to date.", escape(home.shown)))
    elif flags.dry_run:
        console().print(n_("{count} step is missing: {steps}.", "{count} steps are missing: {steps}.", len(done), done))
    else:
        console().print(_("Database updated to version {version}.", done[-1]))

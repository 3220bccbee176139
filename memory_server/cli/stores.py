"""Between stores: `copy`, and `migrate` for the tables of a database."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.markup import escape

from languages import _, counted, n_
from memory_server.cli.terminal import console, progress
from memory_server.config import Settings, home_of
from memory_server.conversations.contents import holds_erased
from memory_server.conversations.model import ConversationState, conversation_id_of, short_term_mark
from memory_server.homes import Home, TokenFile
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.recalls import Line
from memory_server.kernel.recorded_recall import recorded_recall
from memory_server.kernel.scopes import Scope
from memory_server.kernel.streams import complain
from memory_server.kernel.values import dataclass
from memory_server.knowledge import erasing
from memory_server.knowledge.entry import EVERYTHING, Entry, Operation
from memory_server.knowledge.ports import EntryStore


@dataclass(slots=True)
class Copied:
    """What became of the conversations that a copy looked at, in the homes of the owner and of the tenants."""

    conversations: int = 0
    present: int = 0
    """Conversations that were there already, as they are here."""
    tenants: int = 0
    not_copied: list[str] = field(default_factory=list)
    """What was not copied and is not there as it is here, for people."""


@dataclass(frozen=True, slots=True)
class Route:
    """From which home to which one a copy goes. `tenant` None: these are the owner's."""

    source: Home
    target: Home
    tenant: str | None
    dry_run: bool

    def named(self, part: str) -> str:
        """A part of the source, such as a conversation, for people."""
        if self.tenant is None:
            return part
        return _("{part} of {tenant}", part, self.tenant)


async def copy(settings: Settings, flags: Namespace) -> int:
    """Copy conversations with their versions and their past from one store to another: all of them with the knowledge,
    the record of recalls, the tombstones and every tenant, unless conversations or a tenant are named. Print a sum, and
    return 1 if something was not copied and is not there as it is here. Raises InvalidInput: both stores are one, or a
    conversation or tenant is not there."""
    tenant = getattr(flags, "tenant", None)
    copied = Copied()
    async with AsyncExitStack() as stack:
        source = await _owners_home(settings, flags.from_, stack)
        target = await _owners_home(settings, flags.to, stack)
        if source.shown == target.shown:
            raise InvalidInput(
                "Both stores are {place}; give another one as --from or --to.", source.shown
            )
        # The folder of a tenant does not always tell its whole name; these may know it.
        candidates = [*_tenants_of_tokens(settings), *target.tenant_names()]
        tenants = source.tenant_names(candidates)
        if tenant is None:
            owners_route = Route(source, target, tenant=None, dry_run=flags.dry_run)
            await _copy_home(owners_route, flags.conversations, copied)
            if flags.conversations:
                tenants = []  # a conversation without --tenant is the owner's
        elif source.has_tenant(tenant):
            tenants = [tenant]
        else:
            names = ", ".join(tenants) or _("none")
            raise InvalidInput(
                "There is no tenant {tenant}; the tenants are: {known}.", tenant, names
            )
        if tenants and target.is_of_a_tenant:
            complain(_("{place} is the home of a tenant, which cannot have tenants.", target.shown))
            copied.not_copied += tenants
            tenants = []
        for name in tenants:
            if not source.has_tenant(name):
                complain(
                    _(
                        "The whole name of the tenant {name} is not known; copy it with --tenant NAME.",
                        name,
                    )
                )
                copied.not_copied.append(name)
                continue
            async with AsyncExitStack() as closing:
                tenants_source = await _tenants_home(
                    settings, flags.from_, owners=source, tenant=name, stack=closing
                )
                tenants_target = await _tenants_home(
                    settings, flags.to, owners=target, tenant=name, stack=closing
                )
                route = Route(tenants_source, tenants_target, tenant=name, dry_run=flags.dry_run)
                await _copy_home(route, flags.conversations, copied)
            if not flags.dry_run:
                target.note_tenant(name)
            copied.tenants += 1
    _print_sum(copied, dry_run=flags.dry_run)
    return int(bool(copied.not_copied))


def _print_sum(copied: Copied, *, dry_run: bool) -> None:
    """Print how much was copied, and to standard error what was not."""
    conversations = counted(copied.conversations, "conversation")
    present = counted(copied.present, "conversation")
    out = console()
    if dry_run:
        out.print(
            _(
                "{conversations} would be copied; {present} already in the other store.",
                conversations,
                present,
            )
        )
    else:
        out.print(
            _(
                "{conversations} copied; {present} already in the other store.",
                conversations,
                present,
            )
        )
    if copied.tenants:
        out.print(_("The memories of {tenants} are included.", counted(copied.tenants, "tenant")))
    if copied.not_copied:
        complain(_("Not copied: {names}.", ", ".join(copied.not_copied)))


async def _copy_home(route: Route, conversations: Sequence[str], copied: Copied) -> None:
    """Copy the named `conversations`, or everything of a home if none is named. Raises InvalidInput: one of them is not
    there."""
    source = route.source
    target = route.target
    stored = await source.conversations.conversations()
    names = [conversation_id_of(name) for name in conversations] or stored
    missing = sorted(set(names) - set(stored))
    if missing:
        raise InvalidInput("There is no conversation {name} in {place}.", missing[0], source.shown)
    present = set(await target.conversations.conversations())
    with progress(_("copying"), len(names)) as advance:
        for name in names:
            await _copy_conversation(route, name, copied, present=name in present)
            advance()
    if conversations:
        return
    if not await _has_copied(route, _copy_knowledge(route)):
        copied.not_copied.append(route.named(_("the knowledge")))
    if not await _has_copied(route, asyncio.to_thread(_copy_recalls, route)):
        copied.not_copied.append(route.named(_("the record of recalls")))
    if not route.dry_run and not await _has_copied(
        route, asyncio.to_thread(_copy_erased, source, target)
    ):
        copied.not_copied.append(route.named(_("the record of erased texts")))


async def _has_copied(route: Route, copying: Awaitable[bool]) -> bool:
    """Whether a part of a home was copied. One that cannot be read must not keep the others from being copied."""
    try:
        return await copying
    except StorageError as error:
        complain(_("{name} was not copied: {reason}", route.source.shown, error))
        return False


async def _copy_knowledge(route: Route) -> bool:
    """Copy notes and other entries with their past and their numbers; tell whether they are there now."""
    source = route.source.entries(durability="full", cache_mb=16)
    target = route.target.entries(durability="full", cache_mb=16)
    name = escape(route.named(_("knowledge")))
    try:
        source_contents = await _contents(source)
        target_contents = await _contents(target)
        source_entries, _operations = source_contents
        target_entries, _operations = target_contents
        count = counted(sum(len(entries) for entries in source_entries.values()), "entry")
        if target_contents == source_contents:
            if any(source_entries.values()):
                console().print(_("[bold]{name}[/] is already in the other store", name))
            return True
        if not target_entries and await erasing.holds_erased(source, route.target.erased.holds):
            _complain_of_erased(route, route.named(_("the knowledge")))
            return False
        if not target_entries and route.dry_run:
            console().print(_("[bold]{name}[/] would be copied: {count}.", name, count))
            return True
        with TemporaryDirectory() as folder:
            path = Path(folder, "knowledge.sqlite3")
            await source.copy_to(path)
            if not target_entries and await target.adopt(path):
                console().print(_("[bold]{name}[/] copied: {count}.", name, count))
                return True
        complain(
            _(
                "The {name} was not copied: the other store already has some, and it differs; nothing is merged.",
                name,
            )
        )
        return False
    finally:
        await source.aclose()
        await target.aclose()


async def _contents(
    entries: EntryStore,
) -> tuple[dict[Scope, list[Entry]], list[tuple[Scope, Operation]]]:
    """All entries and operations of a store, as they are compared."""
    by_scope = {}
    for scope in await entries.scopes():
        by_scope[scope] = await entries.read(
            scope, lambda view: view.entries(EVERYTHING, order="oldest")
        )
    return by_scope, await entries.operations(limit=2**31)


def _copy_recalls(route: Route) -> bool:
    """Copy the record of recalls, where there is none; tell whether all of it is there now."""
    present_lines = {json_text.dumps(line) for line in route.target.recalls.lines()}
    lines = route.source.recalls.lines()
    coming = _without_erased(lines, route.target)
    left_out = len(lines) - len(coming)
    if left_out:
        sentence = n_(
            "{count} recall was left out: it contains text that was erased for good in {place}",
            "{count} recalls were left out: they contain text that was erased for good in {place}",
            left_out,
            route.target.shown,
        )
        complain(sentence)
    lacking = [line for line in coming if json_text.dumps(line) not in present_lines]
    if lacking and present_lines:
        complain(
            _(
                "The record of recalls was not copied: the other store already has one, and it differs; nothing "
                "is merged."
            )
        )
        return False
    if not route.dry_run:
        for line in lacking:
            route.target.recalls.append(line)
    return True


def _without_erased(lines: Sequence[Line], target: Home) -> list[Line]:
    """The lines that tell of nothing that was erased for good in `target`."""
    if not target.erased.known()[1]:
        return list(lines)
    return [line for line in lines if not target.erased.holds(_marks_in(line))]


def _marks_in(line: Line) -> list[str]:
    recall = recorded_recall(line)
    items = (*recall.came, *recall.near)
    return [
        recall.said,
        *(short_term_mark(item.id, item.conversation) for item in items if item.is_memory),
    ]


def _copy_erased(source: Home, target: Home) -> bool:
    """Copy what was erased, so that it does not come back."""
    key, hashes = source.erased.known()
    if not key or hashes <= target.erased.known()[1] or target.erased.adopt(key, hashes):
        return True
    complain(
        _(
            "The record of erased texts was not copied from {place} to {other}, which has one of its own.",
            source.shown,
            target.shown,
        )
    )
    return False


def _adopted_text(name: str, *, changes: int, dry_run: bool) -> str:
    if dry_run:
        return n_(
            "{name} would be copied: {count} change.",
            "{name} would be copied: {count} changes.",
            changes,
            name,
        )
    return n_(
        "{name} was copied: {count} change.", "{name} was copied: {count} changes.", changes, name
    )


async def _copy_conversation(route: Route, name: str, copied: Copied, *, present: bool) -> None:
    source = route.source
    target = route.target
    shown = route.named(name)
    try:
        source.refuse_newer(name)
        commits = await source.conversations.history(name, limit=2**31)
        state = await source.conversations.read(name)
        past = [commit for commit in reversed(commits) if commit.version <= state.version]
        if present:
            present_state = await target.conversations.read(name)
        else:
            present_state = ConversationState(name)
        changes = [change for commit in past for change in commit.changes]
        erased = not present and await asyncio.to_thread(
            holds_erased, state, changes, target.erased.holds
        )
        may_adopt = not present and not erased
        adopted = may_adopt and (
            route.dry_run or await target.conversations.adopt(name, state, past)
        )
    except StorageError as error:
        complain(_("{name} was not copied: {reason}", shown, error))
        copied.not_copied.append(shown)
        return
    if adopted:
        console().print(escape(_adopted_text(shown, changes=len(past), dry_run=route.dry_run)))
        copied.conversations += 1
        return
    if erased:
        _complain_of_erased(route, shown)
        copied.not_copied.append(shown)
        return
    if present_state == state:
        console().print(escape(_("{name} is already in the other store.", shown)))
        copied.present += 1
        return
    complain(
        _(
            "{name} was not copied: the other store has a different one of this name (version {there} there, "
            "{here} here); nothing is merged.",
            shown,
            present_state.version,
            state.version,
        )
    )
    copied.not_copied.append(shown)


def _complain_of_erased(route: Route, name: str) -> None:
    complain(
        _(
            "{name} was not copied: it contains text that was erased for good in {place}. Export it and "
            "import it there; the import leaves that text out.",
            name,
            route.target.shown,
        )
    )


async def _owners_home(settings: Settings, store: str | None, stack: AsyncExitStack) -> Home:
    """The home at `store`, or the one of the settings; `stack` closes it."""
    home = home_of(_at(settings, store), _now_ms)
    stack.push_async_callback(home.aclose)
    stack.push_async_callback(home.conversations.aclose)
    return home


async def _tenants_home(
    settings: Settings, store: str | None, owners: Home, tenant: str, stack: AsyncExitStack
) -> Home:
    """The home of a tenant beside that of the owner; `stack` closes it."""
    of_tenant = _at(settings, store).model_copy(update=owners.settings_of(tenant))
    home = home_of(of_tenant, _now_ms, beside=owners)
    stack.push_async_callback(home.aclose)
    stack.push_async_callback(home.conversations.aclose)
    return home


def _at(settings: Settings, store: str | None) -> Settings:
    if store is None:
        return settings
    return settings.model_copy(update={"store": store})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _tenants_of_tokens(settings: Settings) -> list[str]:
    """The tenants in the file that `http.tokens` names."""
    path = settings.http.tokens
    if path is None or not path.expanduser().exists():
        return []
    tokens = TokenFile(path.expanduser()).tokens()
    return [token.tenant for token in tokens if token.tenant is not None]


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
        console().print(
            n_(
                "{count} step is missing: {steps}.",
                "{count} steps are missing: {steps}.",
                len(done),
                done,
            )
        )
    else:
        console().print(_("Database updated to version {version}.", done[-1]))

"""`knowledge`: look into notes and other entries, make pages of notes, and tidy them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from memory_server.app import App
from memory_server.cli.terminal import clipped, console, time_text
from memory_server.config import Settings
from memory_server.core.errors import InvalidInput
from memory_server.core.phrases import counted
from memory_server.knowledge.duplicates import Pair
from memory_server.knowledge.entry import Entry, Filter, Query, Scope, change_id, json_of
from memory_server.storage.entries.pages import write_pages
from memory_server.storage.json_store import codec

ACTIONS: Mapping[str, tuple[str, tuple[str, ...], bool]] = {
    "list": ("list entries, or those with these WORDS", ("space", "archived", "json"), False),
    "show": ("show everything about one", (), False),
    "document": ("write pages of notes", ("type", "output", "stable", "force"), False),
    "reindex": ("merge notes that say the same, and make the index anew", ("dry_run", "verbose"), True),
    "cleanup": ("archive what is over, and remove what was archived long ago", ("dry_run",), True),
    "delete": ("put a note into the archive", (), True),
    "restore": ("bring a note back out of it", (), True),
    "history": ("show what was changed, newest first", ("json",), False),
}
"""What each action does, the flags that it takes, and whether it changes something."""
NAMED = ("show", "delete", "restore")
_PAGE = 100


async def knowledge(settings: Settings, flags: Namespace) -> int:
    """Run one action."""
    _, taken, changes = ACTIONS[flags.action]
    others = {name for _, names, _ in ACTIONS.values() for name in names} - set(taken)
    if wrong := sorted(name for name in others if getattr(flags, name)):
        raise InvalidInput(f"`knowledge {flags.action}` does not take --{wrong[0].replace('_', '-')}; leave it out.")
    if (flags.action in NAMED) != bool(flags.words) and flags.action != "list":
        need = "the number or id of an entry" if flags.action in NAMED else "no words"
        raise InvalidInput(f"`knowledge {flags.action}` needs {need}; `knowledge list` shows them.")
    if changes and not (flags.dry_run):
        settings.refuse_change(f"knowledge {flags.action}")
    async with App(settings, brief=True) as app:
        await _RUN[flags.action](app, flags)
    return 0


async def _list(app: App, flags: Namespace) -> None:
    table = Table("number", "where", "changed", "used", "title", "text", box=None, pad_edge=False)
    where = Filter(archived=flags.archived)
    for scope in await app.knowledge.store.scopes(flags.space):
        if flags.words and not flags.archived:
            found = await app.knowledge.store.search(scope, Query(" ".join(flags.words), where, _PAGE))
            entries, total = [hit.entry for hit in found.hits], found.total
        else:
            entries, total = await app.knowledge.store.page(scope, where, limit=None if flags.json else _PAGE)
        for entry in entries:
            if flags.json:
                sys.stdout.write(codec.dumps({"space": scope.space, "owner": scope.owner} | json_of(entry)).decode())
                sys.stdout.write("\n")
            else:
                table.add_row(*_row(app, scope, entry))
        if total > len(entries) and not flags.json:
            table.add_row("", "", "", "", f"{total - len(entries)} more", "")
    if not flags.json:
        console().print(table if table.row_count else "There are no such entries.")


def _row(app: App, scope: Scope, entry: Entry) -> tuple[str, ...]:
    place = "/".join(filter(None, (scope.space, scope.owner, entry.kind, entry.project)))
    changed = time_text(entry.updated_ms, app.settings.zone)
    texts = (escape(clipped(entry.title, 30)), escape(clipped(entry.body, 50)))
    return (str(entry.id), escape(place), changed, str(entry.uses), *texts)


async def _show(app: App, flags: Namespace) -> None:
    scope, entry = await app.knowledge.found(flags.words[0])
    out, zone = console(), app.settings.zone
    out.print(f"[bold]{escape(entry.title or entry.ref)}[/]")
    archived = None if entry.archived_ms is None else f"{time_text(entry.archived_ms, zone)}, {entry.reason}"
    facts = {
        "number": entry.id,
        "id": entry.ref,
        "where": "/".join(filter(None, (scope.space, scope.owner, entry.kind, entry.project))),
        "tags": ", ".join(entry.tags),
        "source": entry.source,
        "used": f"{entry.uses} times, last {time_text(entry.accessed_ms, zone)}" if entry.uses else None,
        "confidence": f"{entry.confidence:g}",
        "made": time_text(entry.created_ms, zone),
        "changed": f"{time_text(entry.updated_ms, zone)}, version {entry.version}",
        "ends": None if entry.expires_ms is None else time_text(entry.expires_ms, zone),
        "archived": archived,
    }
    for name, value in facts.items():
        if value:
            out.print(f"{name:<11}{escape(str(value))}")
    out.print("\n" + escape("\n\n".join((entry.body, *entry.examples))))


async def _document(app: App, flags: Namespace) -> None:
    pages = await app.knowledge.notes.pages(stable=flags.stable)
    chosen: dict[str, str] = {kind: text for kind, text in pages.items() if flags.type in (None, kind)}
    for path in write_pages(Path(flags.output or "memory-docs"), chosen, force=flags.force):
        console().print(escape(str(path)))


async def _reindex(app: App, flags: Namespace) -> None:
    done = await app.knowledge.notes.reindex(dry_run=flags.dry_run, by="knowledge reindex")
    out = console()
    would = "Would merge" if flags.dry_run else "Merged"
    change = f" (change {done.change_id})" if done.change_id else ""
    out.print(f"{would} {counted(len(done.merged), 'pair')}{change}; {counted(done.remaining, 'note')} left.")
    if flags.dry_run or flags.verbose:
        for pair in done.merged:
            _print_pair(pair, "say the same")
        for pair in done.kept_apart:
            _print_pair(pair, f"kept apart: {pair.differs}")
    removed = "Would remove" if flags.dry_run else "Removed"
    out.print(f"{removed} {counted(done.removed, 'note')} from the archive for good.")
    if done.copy is not None:
        out.print(f"The database as it was: {escape(str(done.copy))}")


def _print_pair(pair: Pair, what: str) -> None:
    out = console()
    out.print(f"  [bold]{pair.older.id} and {pair.newer.id}[/] ({pair.dice:.0%} alike), {escape(what)}")
    for entry in (pair.older, pair.newer):
        out.print(f"    {entry.id} {escape(entry.title)}: {escape(' '.join(entry.body.split()))}")


async def _cleanup(app: App, flags: Namespace) -> None:
    moved = await app.knowledge.clean_up(dry_run=flags.dry_run)
    would = "Would archive" if flags.dry_run else "Archived"
    count = f"{len(moved)} {'entry' if len(moved) == 1 else 'entries'}"
    console().print(f"{would} {count}.")
    for entry, reason in moved:
        console().print(f"  {entry.id} {reason}: {escape(clipped(entry.title or entry.body, 60))}")


async def _delete(app: App, flags: Namespace) -> None:
    _, entry = await app.knowledge.found(flags.words[0])
    change = await app.knowledge.notes.delete(entry.ref, by="knowledge delete")
    console().print(f"{escape(entry.title)} is in the archive now. Change {change}.")


async def _restore(app: App, flags: Namespace) -> None:
    _, entry = await app.knowledge.found(flags.words[0])
    change = await app.knowledge.notes.restore(entry.ref, by="knowledge restore")
    console().print(f"{escape(entry.title)} is back. Change {change}.")


async def _history(app: App, flags: Namespace) -> None:
    table = Table("change", "when", "what", "by", "where", "entries", box=None, pad_edge=False)
    for scope, done in await app.knowledge.store.operations(limit=_PAGE):
        place, numbers = "/".join(filter(None, (scope.space, scope.owner))), ", ".join(map(str, done.entries[:10]))
        if flags.json:
            line: dict[str, object] = {
                "change": change_id(done.seq),
                "space": scope.space,
                "owner": scope.owner,
                "op": done.op,
            }
            line |= {"by": done.by, "at_ms": done.at_ms, "entries": list(done.entries), "error": done.error}
            sys.stdout.write(codec.dumps(line).decode() + "\n")
        else:
            when = time_text(done.at_ms, app.settings.zone)
            table.add_row(change_id(done.seq), when, done.op, escape(done.by), escape(place), numbers)
    if not flags.json:
        console().print(table if table.row_count else "Nothing was changed yet.")


_RUN: Mapping[str, Callable[[App, Namespace], Awaitable[None]]] = {
    "list": _list,
    "show": _show,
    "document": _document,
    "reindex": _reindex,
    "cleanup": _cleanup,
    "delete": _delete,
    "restore": _restore,
    "history": _history,
}

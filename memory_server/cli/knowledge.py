"""`knowledge`: look into notes and other entries, make pages of notes, and tidy them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import clipped, console, print_columns, time_text, write
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.scopes import Scope
from memory_server.kernel.text import counted
from memory_server.knowledge.entry import Filter, Hits, Query, change_id, json_of
from memory_server.knowledge.sessions.ids import Caller
from memory_server.storage.entries.pages import write_pages

_PAGE = 100


async def knowledge(app: App, flags: Namespace) -> None:
    """Run one action."""
    run, takes, changes = ACTIONS[flags.action]
    every = {name for _, names, _ in ACTIONS.values() for name in names} - {"words", "id"}
    if wrong := sorted(name for name in every - set(takes) if getattr(flags, name)):
        raise InvalidInput(f"`knowledge {flags.action}` does not take --{wrong[0].replace('_', '-')}; leave it out.")
    if "words" not in takes and len(flags.words) != ("id" in takes):
        needs = "the number or id of one entry" if "id" in takes else "no words"
        raise InvalidInput(f"`knowledge {flags.action}` needs {needs}; `knowledge list` shows all entries.")
    if changes and not flags.dry_run:
        app.settings.refuse_change(f"knowledge {flags.action}")
    await run(app, flags)


def _place(scope: Scope, *more: str) -> str:
    return "/".join(filter(None, (scope.space, scope.owner, *more)))


async def _list(app: App, flags: Namespace) -> None:
    rows = [("number", "where", "changed", "used", "title", "text")]
    where = Filter(archived=flags.archived, text=" ".join(flags.words) if flags.archived else "")
    for scope, store in await app.knowledge.places(flags.space):
        if flags.user and scope != Scope("sessions", flags.user):
            continue
        if flags.words and not flags.archived:
            found: Hits = await store.look(scope, methodcaller("search", Query(" ".join(flags.words), where, _PAGE)))
            entries, total = [hit.entry for hit in found.hits], found.total
        else:
            entries, total = await store.look(
                scope, lambda held: (held.entries(where, limit=None if flags.json else _PAGE), held.count(where))
            )
        for entry in entries:
            if flags.json:
                write({"space": scope.space, "owner": scope.owner} | json_of(entry))
            texts = clipped(entry.title, 30), clipped(entry.body, 50)
            when, place = time_text(entry.updated_ms, app.settings.zone), _place(scope, entry.kind, entry.project)
            number = "" if scope.space == "layers" else str(entry.id)  # the key names an entry of a layer
            rows.append((number, place, when, str(entry.uses), *texts))
        if total > len(entries):
            rows.append(("", "", "", "", f"{total - len(entries)} more", ""))
    _print(rows, flags, "There are no such entries.")


async def _show(app: App, flags: Namespace) -> None:
    scope, entry = await app.knowledge.found(flags.words[0])
    zone = app.settings.zone
    facts = {
        "number": scope.space != "layers" and entry.id,
        "file" if scope.space == "layers" else "id": entry.ref,
        "where": _place(scope, entry.kind, entry.project),
        "tags": ", ".join(entry.tags),
        "source": entry.source,
        "used": entry.uses and f"{entry.uses} times, last {time_text(entry.accessed_ms, zone)}",
        "confidence": f"{entry.confidence:g}",
        "made": time_text(entry.created_ms, zone),
        "changed": f"{time_text(entry.updated_ms, zone)}, version {entry.version}",
        "ends": entry.expires_ms and time_text(entry.expires_ms, zone),
        "archived": entry.archived_ms and f"{time_text(entry.archived_ms, zone)}, {entry.reason or 'unused'}",
    }
    lines = [f"[bold]{escape(entry.title or entry.ref)}[/]"]
    lines += [f"{name:<11}{escape(str(value))}" for name, value in facts.items() if value]
    console().print("\n".join([*lines, "", escape("\n\n".join((entry.body, *entry.examples)))]))


async def _document(app: App, flags: Namespace) -> None:
    pages = await app.knowledge.notes.pages(stable=flags.stable)
    chosen: dict[str, str] = {kind: text for kind, text in pages.items() if flags.type in (None, kind)}
    for path in write_pages(Path(flags.output or "memory-docs"), chosen, force=flags.force):
        console().print(escape(str(path)))


async def _reindex(app: App, flags: Namespace) -> None:
    done, out = await app.knowledge.notes.reindex(dry_run=flags.dry_run, by="knowledge reindex"), console()
    merged, removed = ("Would merge", "Would remove") if flags.dry_run else ("Merged", "Removed")
    change = f" (change {done.change_id})" if done.change_id else ""
    out.print(f"{merged} {counted(len(done.merged), 'pair')}{change}; {counted(done.remaining, 'note')} left.")
    for pair in (*done.merged, *done.kept_apart) if flags.dry_run or flags.verbose else ():
        what = f"kept apart: {pair.differs}" if pair.differs else "say the same"
        out.print(f"  [bold]{pair.older.id} and {pair.newer.id}[/] ({pair.dice:.0%} alike), {escape(what)}")
        for entry in (pair.older, pair.newer):
            out.print(f"    {entry.id} {escape(entry.title)}: {escape(' '.join(entry.body.split()))}")
    out.print(f"{removed} {counted(done.removed, 'note')} from the archive for good.")
    if done.copy is not None:
        out.print(f"The database as it was: {escape(str(done.copy))}")


async def _cleanup(app: App, flags: Namespace) -> None:
    moved = [row async for cleaned in app.knowledge.lifecycle.clean_up(dry_run=flags.dry_run) for row in cleaned.left]
    console().print(f"{'Would archive' if flags.dry_run else 'Archived'} {counted(len(moved), 'entry')}.")
    for row in moved:
        console().print(f"  {row.id} {row.reason}: {escape(clipped(row.text, 60))}")
    meaning = app.knowledge.sessions.meaning
    if flags.dry_run or meaning.embeddings is None:
        return
    for made, left, why in (await meaning.make_missing(), await app.conversations.tidy_vectors(meaning)):
        if made:
            console().print(f"Made the vectors of {counted(made, 'text')}.")
        if left:
            console().print(f"Vectors of {counted(left, 'text')} are missing: {escape(why)}")


async def _archive(app: App, flags: Namespace) -> None:
    scope, entry = await app.knowledge.found(flags.words[0])
    family, by, out = app.knowledge, f"knowledge {flags.action}", flags.action == "delete"
    name = entry.title if scope.space in ("notes", "layers") else entry.ref
    if scope.space == "layers":
        layer, key = family.layers["global" if scope.owner == "global" else "project"], entry.key or ""
        await (layer.delete(key, by=by) if out else layer.restore(key, by=by))
        console().print(f"{escape(name)} is {'deleted, with its file' if out else 'back'}.")
        return
    if scope.space != "notes" and not out:
        raise InvalidInput("It comes back by `memory-server undo`; `knowledge history` lists the changes.")
    if scope.space == "refs":
        _, change = await family.refs.delete(entry.ref, by=by)
    elif scope.space == "sessions":
        change = (await family.sessions.delete(Caller(scope.owner), entry.id, by=by)).change_id
    else:
        change = await (family.notes.delete(entry.ref, by=by) if out else family.notes.restore(entry.ref, by=by))
    console().print(f"{escape(name)} is {'in the archive now' if out else 'back'}. Change {change}.")


async def _promote(app: App, flags: Namespace) -> None:
    entry = await app.knowledge.layers.promote(flags.words[0], by="knowledge promote")
    console().print(f"{escape(entry.title)} is an entry of all projects now.")


async def _history(app: App, flags: Namespace) -> None:
    rows = [("change", "when", "what", "by", "where", "entries")]
    for scope, done in await app.knowledge.store.operations(limit=_PAGE):
        name = change_id(done.seq)
        if flags.json:
            line = {"change": name, "space": scope.space, "owner": scope.owner, "op": done.op, "by": done.by}
            write(line | {"at_ms": done.at_ms, "entries": list(done.entries)})
        when, numbers = time_text(done.at_ms, app.settings.zone), ", ".join(map(str, done.entries[:10]))
        rows.append((name, when, done.op, done.by, _place(scope), numbers))
    _print(rows, flags, "Nothing was changed yet.")


def _print(rows: Sequence[Sequence[str]], flags: Namespace, nothing: str) -> None:
    if flags.json:
        return
    if len(rows) > 1:
        print_columns(rows)
    else:
        console().print(nothing)


ACTIONS: Mapping[str, tuple[Callable[[App, Namespace], Awaitable[None]], tuple[str, ...], bool]] = {
    "list": (_list, ("words", "space", "user", "archived", "json"), False),
    "show": (_show, ("id",), False),
    "document": (_document, ("type", "output", "stable", "force"), False),
    "reindex": (_reindex, ("dry_run", "verbose"), True),
    "cleanup": (_cleanup, ("dry_run",), True),
    "delete": (_archive, ("id",), True),
    "restore": (_archive, ("id",), True),
    "promote": (_promote, ("id",), True),
    "history": (_history, ("json",), False),
}
"""Each action with what it takes, and whether it changes something."""

"""`knowledge`: look into notes and other entries, make pages of notes, and tidy them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from memory_server.app import App
from memory_server.cli.call_tool import called, print_result
from memory_server.cli.cleanup import cleanup_of_knowledge
from memory_server.cli.families import history, nothing_text, print_items
from memory_server.cli.project_notes import assign, projects
from memory_server.cli.show import entry_text
from memory_server.cli.terminal import console, escape
from memory_server.cli.word_giving import words_of_memories
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Sought
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.layers import LayerName, tool_name
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.storage.entries.pages import FOLDER, write_pages
from memory_server.tools.sessions import deleted_result
from sandbox.locale import _, counted


async def knowledge(app: App, flags: Namespace) -> None:
    """Run one action."""
    run, takes, changes = ACTIONS[flags.action]
    every = {name for _, names, _ in ACTIONS.values() for name in names} - {"words", "id"}
    if wrong := sorted(name for name in every - set(takes) if getattr(flags, name)):
        raise InvalidInput(
            "`knowledge {action}` does not take --{wrong}; leave it out.", flags.action, wrong[0].replace("_", "-")
        )
    if "words" not in takes and len(flags.words) != ("id" in takes):
        needs = _("the number or id of one entry") if "id" in takes else _("no words")
        raise InvalidInput(
            "`knowledge {action}` needs {needs}; `knowledge list` shows all entries.", flags.action, needs
        )
    if changes and not flags.dry_run:
        app.settings.refuse_change(f"knowledge {flags.action}")
    await run(app, flags)


async def _list(app: App, flags: Namespace) -> None:
    sought = Sought(tuple(flags.words), family=flags.space, user=flags.user, archived=flags.archived)
    items = await app.knowledge.lifecycle.find(sought)
    narrowed = bool(flags.words or flags.user)
    print_items(app, items, flags, nothing_text(flags.space, archived=flags.archived, narrowed=narrowed))


async def _show(app: App, flags: Namespace) -> None:
    console().print(entry_text(app, *await app.knowledge.found(flags.words[0])))


async def _document(app: App, flags: Namespace) -> None:
    pages = await app.knowledge.notes.pages(stable=flags.stable)
    chosen: dict[str, str] = {kind: text for kind, text in pages.items() if flags.type in (None, kind)}
    for path in write_pages(Path(flags.output or FOLDER), chosen, force=flags.force):
        console().print(escape(str(path)))


async def _reindex(app: App, flags: Namespace) -> None:
    done, out = await app.knowledge.notes.reindex(dry_run=flags.dry_run, by="knowledge reindex"), console()
    merged, removed = (_("Would merge"), _("Would remove")) if flags.dry_run else (_("Merged"), _("Removed"))
    change = _(" (change {change_id})", done.change_id) if done.change_id else ""
    out.print(
        _(
            "{merged} {pairs}{change}; {notes} left.",
            merged,
            counted(len(done.merged), "pair"),
            change,
            counted(done.remaining, "note"),
        )
    )
    for pair in (*done.merged, *done.kept_apart) if flags.dry_run or flags.verbose else ():
        what = _("kept apart: {differs}", pair.differs) if pair.differs else _("say the same")
        out.print(
            _(
                "  [bold]{id} and {id2}[/] ({dice:.0%} alike), {what}",
                pair.older.id,
                pair.newer.id,
                pair.dice,
                escape(what),
            )
        )
        for entry in (pair.older, pair.newer):
            out.print(f"    {entry.id} {escape(entry.title)}: {escape(' '.join(entry.body.split()))}")
    out.print(_("{removed} {notes} from the archive for good.", removed, counted(done.removed, "note")))
    if done.copy is not None:
        out.print(_("The database as it was: {copy}", escape(str(done.copy))))


async def _delete(app: App, flags: Namespace) -> None:
    scope, entry = await app.knowledge.found(flags.words[0])
    match scope.space:
        case "layers":
            await _print_answer(app, tool_name("delete", _layer_of(scope)), key=entry.key)
        case "refs":
            await _print_answer(app, "memoryDelete", id=entry.ref)
        case "sessions":
            ids = SessionIds(scope.owner)
            done = await app.knowledge.sessions.delete(ids, entry.id, by="knowledge delete")
            print_result(app, deleted_result(done, ids))
        case _:
            await _print_answer(app, "delete_note", memory_id=entry.ref)


async def _restore(app: App, flags: Namespace) -> None:
    scope, entry = await app.knowledge.found(flags.words[0])
    match scope.space:
        case "layers":
            await _print_answer(app, tool_name("restore", _layer_of(scope)), key=entry.key)
        case "notes":
            change = await app.knowledge.notes.restore(entry.ref, by="knowledge restore")
            console().print(_("{name} is back. Change {change}.", escape(entry.title), change))
        case _:
            raise InvalidInput("It comes back by `memory-server undo`; `knowledge history` lists the changes.")


def _layer_of(scope: Scope) -> LayerName:
    return "global" if scope.owner == "global" else "project"


async def _print_answer(app: App, tool: str, **arguments: str | None) -> None:
    console().print(escape((await called(app, tool, arguments)).text))


async def _promote(app: App, flags: Namespace) -> None:
    entry = await app.knowledge.layers.promote(flags.words[0], by="knowledge promote")
    console().print(_("{title} is an entry of all projects now.", escape(entry.title)))


async def _history(app: App, flags: Namespace) -> None:
    every = Namespace(limit=flags.limit, json=flags.json, family=None, before=None, steps=None)
    await history(app, every, "knowledge")


ACTIONS: Mapping[str, tuple[Callable[[App, Namespace], Awaitable[None]], tuple[str, ...], bool]] = {
    "list": (_list, ("words", "space", "user", "archived", "json", "limit"), False),
    "show": (_show, ("id",), False),
    "document": (_document, ("type", "output", "stable", "force"), False),
    "reindex": (_reindex, ("dry_run", "verbose"), True),
    "cleanup": (cleanup_of_knowledge, ("dry_run",), True),
    "delete": (_delete, ("id",), True),
    "restore": (_restore, ("id",), True),
    "promote": (_promote, ("id",), True),
    "projects": (projects, ("json",), False),
    "assign": (assign, ("words", "to", "dry_run"), True),
    "words": (words_of_memories, ("dry_run",), True),
    "history": (_history, ("json", "limit"), False),
}
"""Each action with what it takes, and whether it changes something."""

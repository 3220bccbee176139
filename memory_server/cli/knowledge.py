"""Look into notes and other entries, make pages of notes, and tidy them (`knowledge`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from languages import _, counted
from memory_server.cli.call_tool import called, print_result
from memory_server.cli.cleanup import cleanup_of_knowledge
from memory_server.cli.families import item_json, nothing_text, print_items
from memory_server.cli.history import history
from memory_server.cli.project_notes import assign, projects
from memory_server.cli.show import entry_text
from memory_server.cli.terminal import console, escape, print_plain, say
from memory_server.cli.word_giving import words_of_memories
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import ItemFilter, Scope
from memory_server.kernel.times import iso
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import Entry
from memory_server.knowledge.layers import LayerName, tool_name
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.notes.duplicates import Pair
from memory_server.knowledge.notes.pages import FOLDER
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.runtime.app import CallerView
from memory_server.runtime.homes import write_pages
from memory_server.tools.sessions import deleted_result


async def knowledge(view: CallerView, flags: Namespace) -> None:
    """Run one action. Raises InvalidInput if the action does not take a given flag or word, or if a needed one
    is missing."""
    action = ACTIONS[flags.action]

    # A flag without effect would mislead the user, so it is refused.
    superfluous = sorted(name for name in _all_flags() - set(action.takes) if getattr(flags, name))
    if superfluous:
        flag = superfluous[0].replace("_", "-")
        raise InvalidInput(
            "`knowledge {action}` does not take --{wrong}; leave it out.", flags.action, flag
        )

    takes_id = "id" in action.takes
    if "words" not in action.takes and len(flags.words) != int(takes_id):
        if takes_id:
            needs = _("the number or id of one entry")
        else:
            needs = _("no words")
        raise InvalidInput(
            "`knowledge {action}` needs {needs}; `knowledge list` shows all entries.",
            flags.action,
            needs,
        )

    if action.changes and not flags.dry_run:
        view.settings.refuse_change(f"knowledge {flags.action}")
    await action.run(view, flags)


def _all_flags() -> set[str]:
    """Return the names of the flags of all actions."""
    names: set[str] = set()
    for action in ACTIONS.values():
        names.update(action.takes)
    return names - {"words", "id"}


async def _list(view: CallerView, flags: Namespace) -> None:
    """Print the entries that the flags name, or a sentence that there are none."""
    sought = ItemFilter(
        words=tuple(flags.words), family=flags.space, user=flags.user, archived=flags.archived
    )
    matches = await KnowledgeLifecycle(view.knowledge).found_entries(sought)

    # `print_items` knows only items, so remember the entry of each for JSON.
    entry_of = {id(row.item): row.entry for row in matches}

    narrowed = bool(flags.words or flags.user)
    nothing = nothing_text(flags.space, archived=flags.archived, narrowed=narrowed)

    print_items(
        view,
        [row.item for row in matches],
        flags,
        nothing,
        lambda item: item_json(item) | _entry_json(entry_of[id(item)]),
    )


def _entry_json(entry: Entry) -> dict[str, Any]:
    """Return the fields that only entries have, without empty ones; times are in ISO 8601."""
    fields = {
        "number": entry.id,
        "type": entry.kind,
        "key": entry.key,
        "agent_id": entry.agent_id,
        "run_id": entry.run_id,
        "tags": list(entry.tags),
        "examples": list(entry.examples),
        "metadata": dict(entry.metadata),
        "source": entry.source,
        "origin": entry.origin,
        "confidence": entry.confidence,
        "importance": entry.importance,
        "uses": entry.uses,
        "version": entry.version,
        "reason": entry.reason,
    }

    times = {
        "created_at": entry.created_ms,
        "accessed_at": entry.accessed_ms,
        "expires_at": entry.expires_ms,
        "archived_at": entry.archived_ms,
    }
    fields |= {name: iso(time_ms) for name, time_ms in times.items() if time_ms}

    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


async def _show(view: CallerView, flags: Namespace) -> None:
    scope, entry = await view.knowledge.found(flags.words[0])
    console().print(entry_text(view, scope, entry))


async def _document(view: CallerView, flags: Namespace) -> None:
    """Write the pages of notes, or only that of --type, and print their paths. Raises InvalidInput if a page would
    replace a person's file without --force."""
    pages = await view.knowledge.notes.pages(stable=flags.stable)
    chosen_pages: dict[str, str] = {
        kind: text for kind, text in pages.items() if flags.type in (None, kind)
    }
    folder = Path(flags.output or FOLDER)
    for path in write_pages(folder, chosen_pages, force=flags.force):
        print_plain(path)


async def _reindex(view: CallerView, flags: Namespace) -> None:
    """Merge notes that say the same, and remove deleted ones for good; print what was done, or with
    --dry-run what would be."""
    reindexed = await view.knowledge.notes.reindex(dry_run=flags.dry_run, by="knowledge reindex")
    if flags.dry_run:
        merged = _("Would merge")
        removed = _("Would remove")
    else:
        merged = _("Merged")
        removed = _("Removed")

    change = ""
    if reindexed.change_id:
        change = _(" (change {change_id})", reindexed.change_id)

    pairs = counted(len(reindexed.merged), "pair")
    notes = counted(reindexed.remaining, "note")
    say("{merged} {pairs}{change}; {notes} left.", merged, pairs, change, notes)

    if flags.dry_run or flags.verbose:
        for pair in (*reindexed.merged, *reindexed.kept_apart):
            _print_pair(pair)
    say("{removed} {notes} from the archive for good.", removed, counted(reindexed.removed, "note"))

    if reindexed.copy is not None:
        say("The database as it was: {copy}", str(reindexed.copy))


def _print_pair(pair: Pair) -> None:
    """Print two notes that are alike, and why they were merged or kept apart."""
    if pair.differs:
        reason = _("not merged: {differs}", pair.differs)
    else:
        reason = _("say the same")

    line = _(
        "  [bold]{id} and {id2}[/] ({dice:.0%} alike), {what}",
        pair.older.id,
        pair.newer.id,
        pair.dice,
        escape(reason),
    )

    out = console()
    out.print(line)
    for entry in (pair.older, pair.newer):
        body = " ".join(entry.body.split())
        out.print(f"    {entry.id} {escape(entry.title)}: {escape(body)}")


async def _delete(view: CallerView, flags: Namespace) -> None:
    """Delete the entry with the typed id or key, as the tool of its space does. Raises
    MemoryNotFound, InvalidInput if several entries have it, or ToolFailed if the tool refuses."""
    scope, entry = await view.knowledge.found(flags.words[0])

    # Each space has its own rules for deletion, which its tool follows.
    match scope.space:
        case "layers":
            await _print_answer(view, tool_name("delete", _layer_of(scope)), key=entry.key)
        case "refs":
            await _print_answer(view, "memoryDelete", id=entry.ref)
        case "sessions":
            ids = SessionIds(scope.owner)
            deleted = await view.knowledge.sessions.delete(ids, entry.id, by="knowledge delete")
            print_result(view, deleted_result(deleted, ids))
        case _:
            await _print_answer(view, "delete_note", memory_id=entry.ref)


async def _restore(view: CallerView, flags: Namespace) -> None:
    """Bring an entry of a layer or a note back from the archive. Raises MemoryNotFound, or
    InvalidInput for entries of other spaces and if several entries have the typed id or key."""
    scope, entry = await view.knowledge.found(flags.words[0])
    match scope.space:
        case "layers":
            await _print_answer(view, tool_name("restore", _layer_of(scope)), key=entry.key)
        case "notes":
            change = await view.knowledge.notes.restore(entry.ref, by="knowledge restore")
            say("{name} was restored. Change {change}.", entry.title, change)
        case _:
            raise InvalidInput(
                "`memory-server undo` brings it back; `knowledge history` lists the changes."
            )


def _layer_of(scope: Scope) -> LayerName:
    if scope.owner == "global":
        return "global"
    return "project"


async def _print_answer(view: CallerView, tool: str, **arguments: str | None) -> None:
    answer = await called(view, tool, arguments)
    print_plain(answer.text)


async def _promote(view: CallerView, flags: Namespace) -> None:
    entry = await view.knowledge.layers.promote(flags.words[0], by="knowledge promote")
    say("{title} is an entry of all projects now.", entry.title)


async def _history(view: CallerView, flags: Namespace) -> None:
    history_flags = Namespace(
        limit=flags.limit, json=flags.json, family=None, before=None, steps=None
    )
    await history(view, history_flags, "knowledge")


@frozen
class Action:
    """An action, the names of the flags that it takes, and whether it changes something. `words` and `id` mean its
    arguments."""

    run: Callable[[CallerView, Namespace], Awaitable[None]]
    takes: tuple[str, ...]
    changes: bool = False


ACTIONS: Mapping[str, Action] = {
    "list": Action(_list, ("words", "space", "user", "archived", "json", "limit")),
    "show": Action(_show, ("id",)),
    "document": Action(_document, ("type", "output", "stable", "force")),
    "reindex": Action(_reindex, ("dry_run", "verbose"), changes=True),
    "cleanup": Action(cleanup_of_knowledge, ("dry_run",), changes=True),
    "delete": Action(_delete, ("id",), changes=True),
    "restore": Action(_restore, ("id",), changes=True),
    "promote": Action(_promote, ("id",), changes=True),
    "projects": Action(projects, ("json",)),
    "assign": Action(assign, ("words", "to", "dry_run"), changes=True),
    "words": Action(words_of_memories, ("dry_run",), changes=True),
    "history": Action(_history, ("json", "limit")),
}
"""The actions by name."""

"""`knowledge projects` and `knowledge assign`: which projects have notes, and giving notes to another project."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from memory_server.app import App
from memory_server.cli.terminal import console, escape, print_columns, write
from memory_server.kernel.errors import InvalidInput
from memory_server.knowledge.entry import Entry
from memory_server.knowledge.notes.settling import NOTES, OF_PROJECTS
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.projects import UNSETTLED, projects_meant, projects_taken, shown_names
from memory_server.storage.repositories import project_at
from sandbox.locale import _, counted, joined


async def projects(app: App, flags: Namespace) -> None:
    """The projects that have notes, those with the most first."""
    counts = await app.knowledge.notes.project_counts()
    names = shown_names(counts)
    ordered = sorted(counts, key=lambda key: (-counts[key], names[key]))
    if flags.json:
        for key in ordered:
            write({"project": key, "name": names[key], "notes": counts[key]})
        return
    if not ordered:
        console().print(_("No project has a note yet."))
        return
    rows = [(_("project"), _("notes"), _("place"))]
    rows += [(names[key], str(counts[key]), _place_text(key)) for key in ordered]
    print_columns(rows, cut=False)


def _place_text(key: str) -> str:
    if key.startswith(UNSETTLED):
        return _("one of several folders of this name; `memory-server knowledge assign` says which")
    return key


async def assign(app: App, flags: Namespace) -> None:
    """Give the notes that are named to the project of this folder, or to that of --to. Raises InvalidInput: it is not
    known which project or note is meant."""
    if not flags.words:
        raise InvalidInput(
            "`knowledge assign` needs a project or the ids of notes; `knowledge projects` shows all projects."
        )
    notes = app.knowledge.notes
    counts = await notes.project_counts()
    names = shown_names(counts)
    key = _target(app, flags.to, list(counts))
    keys: list[str] = []
    ids: list[int] = []
    for word in flags.words:
        taken = [each for each in projects_taken(word, counts) if each != key]
        meant = [each for each in projects_meant(word, counts) if each != key]
        if meant and not taken:
            shown = joined(", ", (f"`{each}`" for each in meant))
            raise InvalidInput("`{word}` may be {projects}; write one of these.", word, shown)
        if taken:
            keys += taken
        else:
            ids.append(await _note_named(app, word))
    done = await notes.assign(_chosen(keys, ids), key, dry_run=flags.dry_run, by="knowledge assign")
    name = {**names, **shown_names([*counts, key])}[key]
    count = counted(len(done.result.moved), "note")
    if flags.dry_run:
        console().print(escape(_("Would give {notes} to {project}.", count, name)))
    elif done.change_id is None:
        console().print(escape(_("Gave {notes} to {project}.", count, name)))
    else:
        console().print(escape(_("Gave {notes} to {project}. Change {change}.", count, name, done.change_id)))
    for note in done.result.in_the_way:
        sentence = _(
            "{id} {topic} stayed, because that project has a note of this topic; delete or edit one of the two.",
            note.id,
            note.title,
        )
        console().print(escape(sentence))


def _target(app: App, given: str | None, known: Sequence[str]) -> str:
    """The key of the project that notes are given to."""
    if given is None:
        here = app.knowledge.notes.project_of()
        if here is None:
            raise InvalidInput(
                "This folder is in no project; run it in the folder of the project, or name that by --to."
            )
        return here.key
    if Path(given).is_dir():
        project = project_at(Path(given), on_several_machines=app.home.on_several_machines)
        if project is not None:
            return project.key
    meant = [key for key in projects_meant(given, known) if not key.startswith(UNSETTLED)]
    if len(meant) != 1:
        raise InvalidInput(
            "`{given}` is neither a folder nor one project that has notes; `knowledge projects` shows all.", given
        )
    return meant[0]


async def _note_named(app: App, word: str) -> int:
    """The number of the note of a project that has this number or id."""
    scope, entry = await app.knowledge.found(word)
    if scope != NOTES or entry.kind not in OF_PROJECTS.kinds:
        raise InvalidInput("{word} is not a note of the type project-tech, which alone belongs to a project.", word)
    return entry.id


def _chosen(keys: Sequence[str], ids: Sequence[int]) -> Callable[[ScopeView], Sequence[Entry]]:
    def chosen(held: ScopeView) -> Sequence[Entry]:
        notes = [note for note in held.entries(OF_PROJECTS, order="oldest") if note.project in keys]
        numbered = [held.get(id=number) for number in ids]
        return [*notes, *(note for note in numbered if note is not None and note.project not in keys)]

    return chosen

"""List the projects that have notes, and give notes to another project (`knowledge projects`, `knowledge assign`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from languages import N_, _, counted
from memory_server.cli.terminal import print_columns, print_plain, say
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.streams import write
from memory_server.knowledge.entry import Entry
from memory_server.knowledge.notes.settling import NOTES, OF_PROJECTS
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.projects import UNSETTLED, projects_meant, projects_taken, shown_names
from memory_server.runtime.app import CallerView
from memory_server.runtime.homes import project_at


async def projects(view: CallerView, flags: Namespace) -> None:
    """List the projects that have notes; a project with more notes comes first."""
    counts = await view.knowledge.notes.project_counts()
    names = shown_names(counts)
    ordered = sorted(counts, key=lambda key: (-counts[key], names[key]))

    if flags.json:
        for key in ordered:
            write({"project": key, "name": names[key], "notes": counts[key]})
        return
    if not ordered:
        say("No project has a note yet.")
        return

    rows = [N_(("project", "notes", "place"))]
    rows += [(names[key], str(counts[key]), _place_text(key)) for key in ordered]
    print_columns(rows, cut=False)


def _place_text(key: str) -> str:
    if key.startswith(UNSETTLED):
        return _("one of several folders of this name; `memory-server knowledge assign` says which")
    return key


async def assign(view: CallerView, flags: Namespace) -> None:
    """Give the named notes to the project of this folder, or to the project of --to. Raises InvalidInput if it is not
    clear which project or note is meant."""
    if not flags.words:
        raise InvalidInput(
            "`knowledge assign` needs a project or the ids of notes; `knowledge projects` shows all projects."
        )

    notes = view.knowledge.notes
    counts = await notes.project_counts()
    names = shown_names(counts)
    key = _target(view, flags.to, list(counts))

    keys: list[str] = []
    ids: list[int] = []
    for word in flags.words:
        taken = [project for project in projects_taken(word, counts) if project != key]
        meant = [project for project in projects_meant(word, counts) if project != key]

        # A short name may mean several projects, and notes must not go to the wrong one.
        if meant and not taken:
            shown = ", ".join(f"`{project}`" for project in meant)
            raise InvalidInput("`{word}` may be {projects}; write one of these.", word, shown)
        if taken:
            keys += taken
        else:
            # A word that names no project may be the number or id of a note.
            ids.append(await _note_named(view, word))

    done = await notes.assign(_chosen(keys, ids), key, dry_run=flags.dry_run, by="knowledge assign")
    name = {**names, **shown_names([*counts, key])}[key]
    count = counted(len(done.result.moved), "note")

    if flags.dry_run:
        say("Would assign {notes} to {project}.", count, name)
    elif done.change_id is None:
        say("Assigned {notes} to {project}.", count, name)
    else:
        say("Assigned {notes} to {project}. Change {change}.", count, name, done.change_id)

    for note in done.result.in_the_way:
        sentence = _(
            "{id} {topic} was not moved, because that project has a note of this topic; delete or edit one of the two.",
            note.id,
            note.title,
        )
        print_plain(sentence)


def _target(view: CallerView, typed: str | None, keys: Sequence[str]) -> str:
    """Return the key of the project that gets the notes: the typed one, or the project of this
    folder. Raises InvalidInput if the folder has no project, or if what was typed does not name one
    project."""
    if typed is None:
        here = view.knowledge.notes.project_of()
        if here is None:
            raise InvalidInput(
                "This folder does not belong to a project; run the command in the folder of the project, or name "
                "the project with --to."
            )
        return here.key

    if Path(typed).is_dir():
        project = project_at(Path(typed), on_several_machines=view.home.on_several_machines)
        if project is not None:
            return project.key

    # An unsettled project can be any of several folders, so notes cannot be given to it.
    meant = [key for key in projects_meant(typed, keys) if not key.startswith(UNSETTLED)]
    if len(meant) != 1:
        raise InvalidInput(
            "`{given}` is neither a folder nor one project that has notes; `knowledge projects` shows all.",
            typed,
        )
    return meant[0]


async def _note_named(view: CallerView, word: str) -> int:
    """Return the number of the project note that has this number or id. Raises InvalidInput if it
    is not a note of the type project-tech."""
    scope, entry = await view.knowledge.found(word)
    if scope != NOTES or entry.kind not in OF_PROJECTS.kinds:
        raise InvalidInput(
            "{word} is not a note of the type project-tech; only such notes belong to a project.",
            word,
        )
    return entry.id


def _chosen(keys: Sequence[str], ids: Sequence[int]) -> Callable[[ScopeView], Sequence[Entry]]:
    """Return a function that finds the notes of these projects and those with these numbers, each once."""

    def chosen(view: ScopeView) -> Sequence[Entry]:
        notes = [note for note in view.entries(OF_PROJECTS, order="oldest") if note.project in keys]
        numbered = [view.get(id=number) for number in ids]
        return [
            *notes,
            *(note for note in numbered if note is not None and note.project not in keys),
        ]

    return chosen

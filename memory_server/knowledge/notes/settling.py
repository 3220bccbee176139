"""Notes that change their project: notes from before, which have only the name of a folder, and notes that a person
assigns. The decisions are pure; `NoteAssigner` asks the store for what they need."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import field, replace

from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.items import Scope
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge.entry import Entry, Filter, Operation
from memory_server.knowledge.ports import Decide, Decided, EntryStore, ScopeView
from memory_server.knowledge.projects import Project, name_of, unsettled

log = logging.getLogger(__name__)
NOTES = Scope("notes")
OF_PROJECTS = Filter(kinds=("project-tech",), archived=None)
_FOLDERS_KNOWN_MS = 60_000
"""The time for which an answer of `is_elsewhere` counts. It reads all conversations, and while nothing may be stored
each recall asks it. A choice of this project: within a minute, a user hardly begins to work in another folder and
expects its notes here."""


@frozen
class AssignmentResult:
    """What an assignment did or would do. `in_the_way`: notes that stayed, because the project has a note of their
    topic."""

    moved: tuple[Entry, ...]
    in_the_way: tuple[Entry, ...]


@frozen
class _FolderAnswer:
    """The answer of `is_elsewhere` for a name and a project. `asked_ms`: when it was asked, in milliseconds since
    1970."""

    elsewhere: bool
    asked_ms: int

    def counts_at(self, now_ms: int) -> bool:
        """Return whether the answer still counts."""
        return 0 <= now_ms - self.asked_ms < _FOLDERS_KNOWN_MS


@dataclass(eq=False)
class NoteAssigner:
    """Gives notes from before to the project whose folder is worked in. `is_elsewhere` says whether another folder than
    the project's is known to have a name; `refuse` raises if nothing may be stored now."""

    store: EntryStore
    is_elsewhere: Callable[[str, Project], Awaitable[bool]]
    refuse: Callable[[], None]
    clock: Callable[[], int]
    _folders_known: dict[tuple[str, str], _FolderAnswer] = field(default_factory=dict, init=False)

    async def settle(self, project: Project) -> tuple[str, ...]:
        """Move the notes from before to `project`, or set them aside if several folders have their name. Return the
        keys of notes that certainly belong to the project and could not be moved, because nothing may be stored now."""
        former_keys = {*project.former_keys, *project.names}
        live_notes = Filter(OF_PROJECTS.kinds, tuple(former_keys))
        if not former_keys or not await self.store.read(NOTES, lambda view: view.count(live_notes)):
            return ()

        counts = await self.store.read(NOTES, lambda view: view.counted("project", OF_PROJECTS))
        present = former_keys & counts.keys()
        certain = [
            name for name in sorted(present) if await self._is_certain(name, project, counts)
        ]

        # A note whose topic the project has already waits too.
        targets = {name: [unsettled(name_of(name))] for name in present}
        for name in certain:
            targets[name].insert(0, project.key)

        # An imported note has no topic. Another program may have named its project, so only the user says whose it is.
        targets_of_imported = dict(targets)
        for name in present & {*project.names}:
            targets_of_imported[name] = targets[name][-1:]

        def decide(view: ScopeView) -> Decided[None]:
            notes = view.entries(replace(OF_PROJECTS, projects=tuple(targets)), order="oldest")
            own = moved_to(view, [note for note in notes if note.key is not None], targets)
            imported = moved_to(
                view, [note for note in notes if note.key is None], targets_of_imported
            )
            return (*own.moved, *imported.moved), None

        # A recall must not fail because its notes cannot be moved now.
        try:
            self.refuse()
            await self.store.commit(NOTES, decide, Operation("assign", "first use in the folder"))
        except MemoryServerError as error:
            log.info("notes of before were not moved to %s: %s", project.key, error)
            return tuple(certain)
        return ()

    async def _is_certain(self, name: str, project: Project, keys: Collection[str]) -> bool:
        """Return whether notes with only this name belong to the project. `keys` are the keys of all projects with
        notes."""
        if name in project.former_keys:
            return True
        own_keys = {name, project.key, *project.former_keys}
        if any(name_of(key) == name for key in keys if key not in own_keys):
            return False
        return not await self._is_elsewhere(name, project)

    async def _is_elsewhere(self, name: str, project: Project) -> bool:
        """Return the answer of `is_elsewhere`, kept for a short time. It depends on the project too."""
        now_ms = self.clock()
        current = {
            key: answer for key, answer in self._folders_known.items() if answer.counts_at(now_ms)
        }
        if (name, project.key) not in current:
            elsewhere = await self.is_elsewhere(name, project)
            current[name, project.key] = _FolderAnswer(elsewhere, now_ms)
        self._folders_known = current
        return current[name, project.key].elsewhere

    async def counts_waiting(self, project: Project) -> dict[str, int]:
        """Count the notes that have only a name of the project's folder which other folders have too; by name."""
        if not project.names:
            return {}
        aside = {unsettled(name): name for name in project.names}
        where = Filter(OF_PROJECTS.kinds, tuple(aside))
        counts = await self.store.read(NOTES, lambda view: view.counted("project", where))
        return {aside[key]: count for key, count in counts.items()}


def moved_to(
    view: ScopeView, notes: Iterable[Entry], targets: Mapping[str, Sequence[str]]
) -> AssignmentResult:
    """Return each note in the first of its target projects that has no live note on the same topic,
    and the notes for which there is none. Archived notes are moved without this check. `targets`
    has the target projects by the note's present key."""
    moved: list[Entry] = []
    in_the_way: list[Entry] = []
    taken: set[tuple[str, str | None]] = set()
    for note in notes:
        for target in targets[note.project]:
            candidate = replace(note, project=target)
            if not _has_the_topic(view, taken, candidate):
                moved.append(candidate)
                break
        else:
            in_the_way.append(note)
            continue
        if note.archived_ms is None:
            taken.add((moved[-1].project, note.key))
    return AssignmentResult(tuple(moved), tuple(in_the_way))


def _has_the_topic(view: ScopeView, taken: Container[tuple[str, str | None]], note: Entry) -> bool:
    """Return whether the project of a live note has another live note on the same topic."""
    if note.archived_ms is not None or note.key is None:
        return False
    if (note.project, note.key) in taken:
        return True
    return view.keyed(note.kind, note.project, note.key) is not None


def assigning(chosen: Callable[[ScopeView], Sequence[Entry]], key: str) -> Decide[AssignmentResult]:
    """Return the decision that gives the notes which `chosen` selects to the project `key`."""

    def decide(view: ScopeView) -> Decided[AssignmentResult]:
        notes = [note for note in chosen(view) if note.project != key]
        outcome = moved_to(view, notes, {note.project: [key] for note in notes})
        return outcome.moved, outcome

    return decide

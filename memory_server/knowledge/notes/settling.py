"""Notes that change their project: those of before, which have only the name of a folder, and those that a person
assigns. The decisions are pure; `Settling` asks the store for what they need."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import Change, Entry, Filter, Operation
from memory_server.knowledge.ports import Decide, EntryStore, ScopeView
from memory_server.knowledge.projects import Project, name_of, unsettled

log = logging.getLogger(__name__)
NOTES = Scope("notes")
OF_PROJECTS = Filter(kinds=("project-tech",), archived=None)


@dataclass(frozen=True, slots=True)
class Moved:
    """What an assignment did or would do. `in_the_way`: notes that stayed, because the project has one of their
    topic."""

    moved: tuple[Entry, ...]
    in_the_way: tuple[Entry, ...]


@dataclass(eq=False)
class Settling:
    """Gives notes of before to the project whose folder is worked in. `is_elsewhere`: whether another folder than that
    of the project is known to have a name; `refuse` raises where nothing may be stored now."""

    store: EntryStore
    is_elsewhere: Callable[[str, Project], Awaitable[bool]]
    refuse: Callable[[], None]
    _elsewhere: dict[str, bool] = field(default_factory=dict, init=False)

    async def settle(self, project: Project) -> tuple[str, ...]:
        """Move the notes of before to `project`, or where several folders have their name, set them aside under it.
        The keys of those that certainly are of the project and could not be moved, because nothing may be stored
        now."""
        former = {*project.former_keys, *project.names}
        if not former:
            return ()
        held = await self.store.read(NOTES, lambda held: held.counted("project", OF_PROJECTS))
        present = former & held.keys()
        if not present:
            return ()
        targets = {name: await self._target(name, project, held) for name in sorted(present)}

        def decide(held: ScopeView) -> tuple[Sequence[Change], None]:
            notes = held.entries(replace(OF_PROJECTS, projects=tuple(targets)), order="oldest")
            outcome = moved_to(held, notes, targets)
            aside = {note.project: unsettled(name_of(note.project)) for note in outcome.in_the_way}
            rest = moved_to(held, outcome.in_the_way, aside)
            return (*outcome.moved, *rest.moved), None

        try:
            self.refuse()
            await self.store.commit(NOTES, decide, Operation("assign", "first use in the folder"))
        except MemoryServerError as error:
            log.info("notes of before were not moved to %s: %s", project.key, error)
            return tuple(name for name, target in targets.items() if target == project.key)
        return ()

    async def _target(self, name: str, project: Project, held: Collection[str]) -> str:
        if name in project.former_keys:
            return project.key
        others = (key for key in held if key not in (name, project.key))
        if any(name_of(key) == name for key in others):
            return unsettled(name)
        if name not in self._elsewhere:
            self._elsewhere[name] = await self.is_elsewhere(name, project)
        return unsettled(name) if self._elsewhere[name] else project.key

    async def waiting(self, project: Project) -> dict[str, int]:
        """How many notes have only a name of the project's folder, which other folders have too; by name."""
        if not project.names:
            return {}
        aside = {unsettled(name): name for name in project.names}
        where = replace(OF_PROJECTS, archived=False, projects=tuple(aside))
        counts = await self.store.read(NOTES, lambda held: held.counted("project", where))
        return {aside[key]: count for key, count in counts.items()}


def moved_to(held: ScopeView, notes: Iterable[Entry], targets: Mapping[str, str]) -> Moved:
    """Notes with the key of another project, by that which each has now. A live one stays where the other project has a
    live one of its topic."""
    moved: list[Entry] = []
    in_the_way: list[Entry] = []
    taken: set[tuple[str, str | None]] = set()
    for note in notes:
        target = targets[note.project]
        if note.archived_ms is None and note.key is not None:
            if (target, note.key) in taken or held.keyed(note.kind, target, note.key) is not None:
                in_the_way.append(note)
                continue
            taken.add((target, note.key))
        moved.append(replace(note, project=target))
    return Moved(tuple(moved), tuple(in_the_way))


def assigning(chosen: Callable[[ScopeView], Sequence[Entry]], key: str) -> Decide[Moved]:
    """The decision that gives notes to the project `key`."""

    def decide(held: ScopeView) -> tuple[Sequence[Change], Moved]:
        notes = [note for note in chosen(held) if note.project != key]
        outcome = moved_to(held, notes, dict.fromkeys((note.project for note in notes), key))
        return outcome.moved, outcome

    return decide

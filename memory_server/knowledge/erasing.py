"""Texts of entries, present and former, and their erasing for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from memory_server.kernel.erasure import Erasure
from memory_server.kernel.items import Item, Scope
from memory_server.knowledge.entry import EVERYTHING, Entry, Operation, Purge
from memory_server.knowledge.items import item_of, mark_of
from memory_server.knowledge.ports import Decided, EntryStore, ScopeView
from memory_server.knowledge.service import Knowledge


async def texts_of(knowledge: Knowledge, items: Collection[Item]) -> set[str]:
    """Return the texts that these items have or had, as `Lifecycle.texts_of` says. Raises
    StorageError if a place cannot be read."""
    texts: set[str] = set()
    for scope, store in await knowledge.places():
        names = {item.id for item in items if item.place == scope.place}
        if names:
            texts.update(await store.read(scope, partial(_texts_of_items, scope, names)))
    return texts


def _texts_of_items(scope: Scope, names: Collection[str], view: ScopeView) -> list[str]:
    """Return the present and former texts of the entries of a scope whose items have these names."""
    texts: list[str] = []
    entries = [entry for entry in view.entries(EVERYTHING) if item_of(scope, entry).id in names]
    if scope.space != "layers":  # files have no history
        texts += view.former_texts([entry.id for entry in entries])
    for entry in entries:
        texts += _texts_in(scope, entry)
    return texts


async def past_texts(knowledge: Knowledge, words: Sequence[str]) -> set[str]:
    """Return the texts of former entries that hold these words, as `Lifecycle.past_texts` says.
    Layers have no past here. Raises StorageError if a place cannot be read."""
    erasure = Erasure((), (), words=tuple(words))
    texts: set[str] = set()
    for scope, store in await knowledge.places():
        if scope.space == "layers":
            continue
        former_entries = await store.read(scope, lambda view: view.former_entries())
        for entry in former_entries:
            if erasure.means(item_of(scope, entry)):
                texts.update(_texts_in(scope, entry))
    return texts


def _texts_in(scope: Scope, entry: Entry) -> tuple[str, ...]:
    """Return the texts of an entry in this version."""
    item = item_of(scope, entry)
    return (entry.body, entry.title, *item.also)


def erased_among(entries: Iterable[Entry], erased: Callable[[Iterable[str]], bool]) -> list[Entry]:
    """Return the entries that were erased for good."""
    return [entry for entry in entries if erased(marks_of(entry))]


async def holds_erased(entries: EntryStore, erased: Callable[[Iterable[str]], bool]) -> bool:
    """Return whether a store still holds something that was erased for good, in a present or former entry."""
    marks: set[str] = set()
    for scope in await entries.scopes():
        for entry in await entries.read(scope, _present_and_former):
            marks.update(marks_of(entry))
    return await asyncio.to_thread(erased, marks)


def _present_and_former(view: ScopeView) -> list[Entry]:
    """Return the entries of a scope as they are, and as they were before each change."""
    return [*view.entries(EVERYTHING), *view.former_entries()]


def marks_of(entry: Entry) -> tuple[str, ...]:
    """Return the marks by which an erased entry is recognized if it comes again."""
    return entry.body, mark_of(entry)


async def erase(knowledge: Knowledge, erasure: Erasure) -> None:
    """Erase from the files of layers and from the databases, as `Lifecycle.erase` says. A
    repository keeps its own past of the files of a layer. Raises StorageError if something cannot
    be written."""
    for scope, store in await knowledge.places():
        names = erasure.in_place(scope.place)
        if scope.space == "layers" and names:
            await store.commit(scope, partial(_purging, names), Operation("erase"))
    databases = (knowledge.store, knowledge.ref_options.store)
    for database in databases:
        if database is not None:
            await database.erase(erasure)
    knowledge.notes.changed()


def _purging(names: Collection[str], view: ScopeView) -> Decided[None]:
    """Decide to remove the entries of a layer that have these names."""
    changes = [
        Purge(entry.id) for entry in view.entries(EVERYTHING) if (entry.key or entry.ref) in names
    ]
    return changes, None

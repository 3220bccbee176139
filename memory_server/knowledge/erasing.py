"""Texts of entries, also those that they had before a change, and their erasing for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from memory_server.kernel.erasure import Erasure
from memory_server.kernel.items import Item
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import EVERYTHING, Change, Entry, Operation, Purge
from memory_server.knowledge.families import Families
from memory_server.knowledge.items import item_of, mark_of, place_of
from memory_server.knowledge.ports import EntryStore, ScopeView


async def texts_of(families: Families, items: Collection[Item]) -> set[str]:
    """As `Lifecycle.texts_of`."""
    texts: set[str] = set()
    for scope, store in await families.places():
        names = {item.id for item in items if item.place == place_of(scope)}
        if not names:
            continue

        def read(view: ScopeView, scope: Scope = scope, names: Collection[str] = names) -> list[str]:
            entries = [entry for entry in view.entries(EVERYTHING) if item_of(scope, entry).id in names]
            present = [text for entry in entries for text in _texts_in(scope, entry)]
            if scope.space == "layers":  # files have no history
                return present
            return [*view.former_texts([entry.id for entry in entries]), *present]

        texts.update(await store.read(scope, read))
    return texts


async def past_texts(families: Families, words: Sequence[str]) -> set[str]:
    """As `Lifecycle.past_texts`."""
    means = Erasure((), (), words=tuple(words)).means
    texts: set[str] = set()
    for scope, store in await families.places():
        if scope.space != "layers":
            former_entries = await store.read(scope, lambda view: view.former_entries())
            meant = [entry for entry in former_entries if means(item_of(scope, entry))]
            texts.update(text for entry in meant for text in _texts_in(scope, entry))
    return texts


def _texts_in(scope: Scope, entry: Entry) -> tuple[str, ...]:
    return entry.body, entry.title, *item_of(scope, entry).also


def erased_among(entries: Iterable[Entry], erased: Callable[[Iterable[str]], bool]) -> list[Entry]:
    """Those of `entries` that were erased for good."""
    return [entry for entry in entries if erased(marks_of(entry))]


async def holds_erased(entries: EntryStore, erased: Callable[[Iterable[str]], bool]) -> bool:
    """Whether something that was erased for good is in a store: in an entry, as it is or as it was before a change."""
    marks: set[str] = set()
    for scope in await entries.scopes():
        known = await entries.read(scope, lambda view: [*view.entries(EVERYTHING), *view.former_entries()])
        marks.update(mark for entry in known for mark in marks_of(entry))
    return await asyncio.to_thread(erased, marks)


def marks_of(entry: Entry) -> tuple[str, ...]:
    """By what an entry that was erased for good is known if it comes again."""
    return entry.body, mark_of(entry)


async def erase(families: Families, erasure: Erasure) -> None:
    """As `Lifecycle.erase`. A repository keeps its own past of the files of a layer."""
    for scope, store in await families.places():
        names = erasure.in_place(place_of(scope))
        if scope.space == "layers" and names:

            def decide(view: ScopeView, names: Collection[str] = names) -> tuple[Sequence[Change], None]:
                entries = view.entries(EVERYTHING)
                return [Purge(entry.id) for entry in entries if (entry.key or entry.ref) in names], None

            await store.commit(scope, decide, Operation("erase"))
    for database in filter(None, (families.store, families.ref_options.store)):
        await database.erase(erasure)
    families.notes.changed()

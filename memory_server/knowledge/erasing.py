"""Which entries were erased for good, and how they are recognized if they come again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from memory_server.knowledge.entry import EVERYTHING, Entry
from memory_server.knowledge.items import mark_of
from memory_server.knowledge.ports import EntryStore, ScopeView


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

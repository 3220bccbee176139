"""What a store of entries holds, in one call each."""

from __future__ import annotations

from typing import Any

from memory_server.kernel.items import Scope
from memory_server.knowledge.entry import Entry, Figures, Filter, Hits, Query
from memory_server.knowledge.ports import Entries


async def get(store: Entries, scope: Scope, **which: Any) -> Entry | None:
    return await store.read(scope, lambda entries: entries.get(**which))


async def page(store: Entries, scope: Scope, where: Filter, **how: Any) -> tuple[list[Entry], int]:
    return await store.read(
        scope, lambda entries: (entries.entries(where, **how), entries.count(where))
    )


async def search(store: Entries, scope: Scope, query: Query) -> Hits:
    return await store.read(scope, lambda entries: entries.search(query))


async def figures(store: Entries, scope: Scope) -> Figures:
    return await store.read(scope, lambda entries: entries.figures())

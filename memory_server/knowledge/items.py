"""Scopes and entries as people see them: places, families and items."""

from __future__ import annotations

from memory_server.kernel.lifecycle import Family, Item
from memory_server.kernel.scopes import Scope, Space
from memory_server.knowledge.entry import Entry

FAMILIES: dict[str, Family] = {"notes": "notes", "sessions": "sessions", "layers": "layers", "refs": "refs"}
SPACES: dict[str, Space] = {"notes": "notes", "sessions": "sessions", "layers": "layers", "refs": "refs"}


def place_of(scope: Scope) -> str:
    """A scope for people: `notes`, `refs/short-term`."""
    return "/".join(filter(None, (scope.space, scope.owner)))


def item_of(scope: Scope, entry: Entry) -> Item:
    names = {"layers": entry.key or entry.ref, "sessions": str(entry.id)}
    also = entry.key, *entry.tags, *entry.examples, entry.source, *map(str, entry.metadata.values())
    return Item(
        FAMILIES[scope.space],
        place_of(scope),
        names.get(scope.space, entry.ref),
        entry.updated_ms,
        entry.body,
        entry.title,
        archived=entry.archived_ms is not None,
        aliases=() if scope.space == "layers" else (entry.ref, str(entry.id)),
        also=tuple(filter(None, also)),
    )

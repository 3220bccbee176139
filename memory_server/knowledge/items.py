"""Scopes and entries as people see them: places, families and items."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Literal

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Item, Scope
from memory_server.kernel.lifecycle import HistoryStep, PastChange
from memory_server.kernel.messages import NOTHING
from memory_server.knowledge.entry import Entry, Operation, change_id
from memory_server.knowledge.layers import usable_key
from memory_server.knowledge.notes.pages import KINDS
from memory_server.knowledge.options import NAMESPACES
from memory_server.knowledge.sessions.ids import checked_id

SPACES: Mapping[str, Literal["notes", "sessions", "layers", "refs"]] = {
    "notes": "notes",
    "sessions": "sessions",
    "layers": "layers",
    "refs": "refs",
}
"""The spaces of knowledge by their names. Each is also the family of what is in it."""


def item_of(scope: Scope, entry: Entry, projects: Mapping[str, str] = NOTHING) -> Item:
    """Return an entry as an item, with all names by which people may mean it. `projects` has the
    shown name of each project, by its key."""
    aliases: tuple[str, ...] = (entry.ref, str(entry.id))
    # The ref of an entry in a layer is its file, which is not a name that people use.
    if scope.space == "layers":
        aliases = ()

    metadata_values = map(str, entry.metadata.values())
    further_texts = (entry.key, *entry.tags, *entry.examples, entry.source, *metadata_values)

    return Item(
        SPACES[scope.space],
        scope.place,
        id=_item_id(scope, entry),
        at_ms=entry.updated_ms,
        text=entry.body,
        title=entry.title,
        archived=entry.archived_ms is not None,
        aliases=aliases,
        also=tuple(filter(None, further_texts)),
        mark=mark_of(entry),
        project=projects.get(entry.project, entry.project),
    )


def _item_id(scope: Scope, entry: Entry) -> str:
    if scope.space == "layers":
        return entry.key or entry.ref
    if scope.space == "sessions":
        return str(entry.id)
    return entry.ref


def mark_of(entry: Entry) -> str:
    """Return the mark by which an entry is recognized if it comes again; empty if only its text identifies it."""
    return f"entry {entry.ref}" if entry.ref else ""


def admitted(scope: Scope, entry: Entry, layers: Container[str]) -> Entry:
    """Return an entry of another program's file as it may be stored. Raise InvalidInput if this scope cannot hold it."""
    if scope.space == "layers" and scope.owner in layers:
        key = usable_key(entry.key or "")
        return replace(entry, ref="", key=key, title=key)
    if not (_holds_such(scope, entry) and entry.ref):
        raise InvalidInput("{place} holds no such entries here, or it has no `ref`", scope.place)
    return entry


def _holds_such(scope: Scope, entry: Entry) -> bool:
    """Return whether a scope can hold an entry like this. Raise InvalidInput if the user of the scope has an invalid
    id."""
    if scope.space == "notes":
        return not scope.owner and entry.kind in KINDS
    if scope.space == "refs":
        return scope.owner in NAMESPACES
    if scope.space == "sessions":
        return bool(checked_id(scope.owner, "user_id"))
    return False


def past_of(
    scope: Scope, operation: Operation, texts: Mapping[object, str], most_steps: int | None
) -> PastChange:
    """Return an operation as a change of the history, with at most `most_steps` of its steps. `texts` has the
    beginnings of entries, by id."""
    entry_ids = operation.entries or operation.detail.get("keys") or (None,)
    shown_ids = entry_ids[:most_steps]
    steps: list[HistoryStep] = []
    for entry_id in shown_ids:
        shown_id = None
        if entry_id is not None:
            shown_id = str(entry_id)
        steps.append(HistoryStep(operation.op, shown_id, texts.get(entry_id)))
    return PastChange(
        change_id(operation.seq),
        scope.place,
        at_ms=operation.at_ms,
        by=operation.by,
        steps=tuple(steps),
        more_steps=len(entry_ids) - len(shown_ids),
    )

"""Scopes and entries as people see them: places, families and items."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Family, Item
from memory_server.kernel.lifecycle import HistoryStep, PastChange
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.scopes import Scope, Space
from memory_server.knowledge.entry import Entry, Operation, change_id
from memory_server.knowledge.layers import usable_key
from memory_server.knowledge.notes.pages import KINDS
from memory_server.knowledge.options import NAMESPACES
from memory_server.knowledge.sessions.ids import checked_id
from sandbox.locale import _

FAMILIES: dict[str, Family] = {"notes": "notes", "sessions": "sessions", "layers": "layers", "refs": "refs"}
SPACES: dict[str, Space] = {"notes": "notes", "sessions": "sessions", "layers": "layers", "refs": "refs"}


def place_of(scope: Scope) -> str:
    """A scope for people: `notes`, `refs/short-term`."""
    return "/".join(filter(None, (scope.space, scope.owner)))


def item_of(scope: Scope, entry: Entry, projects: Mapping[str, str] = NOTHING) -> Item:
    """An entry as an item; `projects`: what each project is called, by its key."""
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
        mark=mark_of(entry),
        project=projects.get(entry.project, entry.project),
    )


def mark_of(entry: Entry) -> str:
    """By what it is known if it comes again; "": by its text alone."""
    return f"entry {entry.ref}" if entry.ref else ""


def admitted(scope: Scope, entry: Entry, layers: Container[str]) -> Entry:
    """The entry of another program's file as it may be stored. Raises InvalidInput: it cannot be of this scope."""
    if scope.space == "layers" and scope.owner in layers:
        key = usable_key(entry.key or "")
        return replace(entry, ref="", key=key, title=key)
    known = {"notes": not scope.owner and entry.kind in KINDS, "refs": scope.owner in NAMESPACES}
    if scope.space == "sessions":
        known["sessions"] = bool(checked_id(scope.owner, "user_id"))
    if not (known.get(scope.space) and entry.ref):
        raise InvalidInput("{place} holds no such entries here, or it has no `ref`", place_of(scope))
    return entry


def past_of(scope: Scope, operation: Operation, texts: Mapping[object, str], most_steps: int | None) -> PastChange:
    """An operation as a change of the history, with at most so many of its steps. `texts`: how entries begin, by id."""
    ids = operation.entries or operation.detail.get("keys") or (None,)
    shown = ids[:most_steps]
    steps = [HistoryStep(_(operation.op), None if id_ is None else str(id_), texts.get(id_)) for id_ in shown]
    more = len(ids) - len(shown)
    return PastChange(
        change_id(operation.seq), place_of(scope), operation.at_ms, operation.by, tuple(steps), more_steps=more
    )

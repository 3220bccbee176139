"""What the settings say of knowledge, and when entries leave their place by themselves: by age, by number, and from the
archive for good. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from memory_server.knowledge.entry import Entry, Filter, Purge, Reason, Scope, archived
from memory_server.knowledge.note_pages import Kind
from memory_server.knowledge.ports import Held
from memory_server.knowledge.ranking import LEAST_SHARE
from memory_server.recall.parameters import DAY_MS

MOST_AT_ONCE = 500
"""Entries that one run of the clean-up moves at most, as with memories: a mistake then costs a part."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the settings say. `project`: the name of the project that is worked in; `keep_ms` and `audit_ms`: how long
    archived entries and former texts, and operations, are kept. `most`: the most live entries of a scope. `publish` as
    in `Notes`, `refuse` raises where nothing may be stored now."""

    project: str | None = None
    least_share: float = LEAST_SHARE
    keep_ms: int = 90 * DAY_MS
    audit_ms: int = 365 * DAY_MS
    most: Mapping[Scope, int] = field(default_factory=dict)
    refuse: Callable[[], None] = lambda: None
    publish: Callable[[Mapping[Kind, str]], None] | None = None


def expired(held: Held, now_ms: int) -> list[tuple[Entry, Reason]]:
    """Live entries whose time is over, oldest first. Searches hide them already."""
    found = held.entries(Filter(expired_by_ms=now_ms), order="oldest", limit=MOST_AT_ONCE)
    return [(entry, "expired") for entry in found]


def over_limit(held: Held, most: int, coming: int = 0, now_ms: int | None = None) -> list[tuple[Entry, Reason]]:
    """The oldest live entries above `most`, when `coming` more are stored. `now_ms`: those that are over do not
    count."""
    where = Filter(unexpired_at_ms=now_ms)
    above = held.count(where) + coming - most
    found = held.entries(where, order="oldest", limit=min(above, MOST_AT_ONCE)) if above > 0 else []
    return [(entry, "over_limit") for entry in found]


def to_archive(due: list[tuple[Entry, Reason]], now_ms: int) -> tuple[Entry, ...]:
    """The changes that archive what is due."""
    return tuple(archived(entry, reason, now_ms) for entry, reason in due)


def to_purge(held: Held, archived_by_ms: int) -> tuple[Purge, ...]:
    """The changes that remove for good what was archived until `archived_by_ms`."""
    found = held.entries(Filter(archived=True, archived_by_ms=archived_by_ms), limit=MOST_AT_ONCE)
    return tuple(Purge(entry.id) for entry in found)

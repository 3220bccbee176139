"""Which entries are meant, and in which order, as SQL that every database of entries takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from memory_server.knowledge.entry import Filter, Order
from nlp.index_terms import index_form


class Dialect(Protocol):
    """What a database writes in its own way: how a column is one of a list, and has a tag or a text."""

    AMONG: ClassVar[str]
    TAGGED: ClassVar[str]
    HOLDS: ClassVar[str]

    def listed(self, values: Sequence[Any]) -> Any:
        """A list as the value of a parameter."""


ORDERS: Mapping[Order, str] = {
    "newest": "e.updated_ms DESC, e.id DESC",
    "made": "e.created_ms DESC, e.id DESC",
    "oldest": "e.created_ms, e.id",
    "best": "e.confidence DESC, e.uses DESC, e.updated_ms DESC, e.id DESC",
    "title": "e.kind, e.title, e.id",
    "removed": "e.archived_ms DESC, e.id DESC",
}


def condition_of(where: Filter, view: Dialect) -> tuple[str, list[Any]]:
    """The conditions of a filter in the SQL of this view, with their values."""
    expired = "coalesce(e.expires_ms > ?, TRUE)"
    each: list[tuple[Any, ...]] = [
        (where.kinds, f"e.kind {view.AMONG}", view.listed(where.kinds)),
        (where.projects is not None, f"e.project {view.AMONG}", view.listed(where.projects or ())),
        (where.reasons, f"e.reason {view.AMONG}", view.listed(where.reasons)),
        (where.tags, view.TAGGED, view.listed(list(map(index_form, where.tags)))),
        (where.agent_id is not None, "e.agent_id = ?", where.agent_id),
        (where.run_id is not None, "e.run_id = ?", where.run_id),
        (where.archived is not None, f"e.archived_ms IS {'NOT NULL' if where.archived else 'NULL'}"),
        (where.unexpired_at_ms is not None, expired, where.unexpired_at_ms),
        (where.expired_by_ms is not None, "e.expires_ms <= ?", where.expired_by_ms),
        (where.archived_by_ms is not None, "e.archived_ms <= ?", where.archived_by_ms),
        (where.text, view.HOLDS, where.text),
        (where.untitled, "e.title = ''"),
        (where.ref_prefix, "substr(e.ref, 1, ?) = ?", len(where.ref_prefix), where.ref_prefix),
    ]
    chosen = [(sql, values) for is_given, sql, *values in each if is_given]
    return " AND ".join(["TRUE", *(sql for sql, _ in chosen)]), [value for _, values in chosen for value in values]

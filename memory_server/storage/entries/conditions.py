"""Which entries are meant, and in which order, as SQL that every database of entries takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Protocol

from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Filter, Order
from nlp.index_terms import index_form


class Dialect(Protocol):
    """What a database writes in its own way: the test that a column is in a list, and that an entry has a tag or a
    text."""

    AMONG: ClassVar[str]
    TAGGED: ClassVar[str]
    HOLDS: ClassVar[str]

    def listed(self, values: Sequence[Any]) -> Any:
        """Return a list as the value of a parameter."""


ORDERS: Mapping[Order, str] = {
    "newest": "e.updated_ms DESC, e.id DESC",
    "made": "e.created_ms DESC, e.id DESC",
    "oldest": "e.created_ms, e.id",
    "best": "e.confidence DESC, e.uses DESC, e.updated_ms DESC, e.id DESC",
    "title": "e.kind, e.title, e.id",
    "removed": "e.archived_ms DESC, e.id DESC",
}


def condition_of(where: Filter, view: Dialect) -> tuple[str, list[Any]]:
    """Return the conditions of a filter in the SQL of this view, with their values."""
    conditions = _Conditions()
    if where.kinds:
        conditions.add(f"e.kind {view.AMONG}", view.listed(where.kinds))
    if where.projects is not None:
        conditions.add(f"e.project {view.AMONG}", view.listed(where.projects))
    if where.reasons:
        conditions.add(f"e.reason {view.AMONG}", view.listed(where.reasons))
    if where.tags:
        conditions.add(view.TAGGED, view.listed(list(map(index_form, where.tags))))
    if where.agent_id is not None:
        conditions.add("e.agent_id = ?", where.agent_id)
    if where.run_id is not None:
        conditions.add("e.run_id = ?", where.run_id)
    if where.archived is not None:
        conditions.add("e.archived_ms IS NOT NULL" if where.archived else "e.archived_ms IS NULL")
    if where.unexpired_at_ms is not None:
        conditions.add("coalesce(e.expires_ms > ?, TRUE)", where.unexpired_at_ms)
    if where.expired_by_ms is not None:
        conditions.add("e.expires_ms <= ?", where.expired_by_ms)
    if where.archived_by_ms is not None:
        conditions.add("e.archived_ms <= ?", where.archived_by_ms)
    if where.text:
        conditions.add(view.HOLDS, where.text)
    if where.ref_prefix:
        conditions.add("substr(e.ref, 1, ?) = ?", len(where.ref_prefix), where.ref_prefix)

    return " AND ".join(conditions.statements), conditions.values


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Conditions in SQL, and the values of their parameters."""

    statements: list[str] = field(default_factory=lambda: ["TRUE"])
    values: list[Any] = field(default_factory=list)

    def add(self, statement: str, *values: Any) -> None:
        self.statements.append(statement)
        self.values.extend(values)

"""Entries as rows: the SQL that every database of entries takes, in the caller's thread and transaction. What only
SQLite or only PostgreSQL takes is in schema.py and in postgres/entry_rows.py."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Literal, NamedTuple
from uuid import uuid4

import orjson

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Scope, vector_key
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import (
    EVERYTHING,
    FIELDS,
    LISTS,
    Archive,
    Change,
    Entry,
    Figures,
    Filter,
    Former,
    Hit,
    Hits,
    Operation,
    Order,
    Purge,
    Query,
    Share,
    change_id,
    changed_by_json,
    difference,
    json_of,
    seq_of,
    usable_fields,
    wrong_field,
)
from memory_server.knowledge.ranking import Match, RankedEntry, ranking_of
from nlp.index_terms import IndexTerm, index_form, other_terms, sought_in

ORDERS: Mapping[Order, str] = {
    "newest": "e.updated_ms DESC, e.id DESC",
    "made": "e.created_ms DESC, e.id DESC",
    "oldest": "e.created_ms, e.id",
    "best": "e.confidence DESC, e.uses DESC, e.updated_ms DESC, e.id DESC",
    "title": "e.kind, e.title, e.id",
    "removed": "e.archived_ms DESC, e.id DESC",
}


@frozen
class _Conditions:
    """Conditions in SQL, and the values of their parameters."""

    statements: list[str] = field(default_factory=lambda: ["TRUE"])
    values: list[Any] = field(default_factory=list)

    def add(self, statement: str, *values: Any) -> None:
        self.statements.append(statement)
        self.values.extend(values)


# --- rows --------------------------------------------------------------------------------------------------------

INDEXED_FIELDS = {"title", "tags", "body", "examples", "archived_ms"}
"""The fields that the index depends on."""


class FormerRow(NamedTuple):
    """The row that tells what a change did to an entry. `before`: its fields as JSON, or None for a new entry."""

    entry_id: int
    before: str | None
    after_version: int


@frozen
class AppliedChange:
    """The entry as it is stored, None if it was archived, removed or not there; and what it was
    before, None if nothing is different."""

    entry: Entry | None = None
    former: FormerRow | None = None


log = logging.getLogger(__name__)

COLUMNS = ", ".join(f"e.{name}" for name in FIELDS)
INDEXED = {"title": 10, "tags": 4, "body": 1}
"""The fields of the index, with their weights in BM25."""
_LEAST_BEGINNING = 3
"""Characters of a term that may be the beginning of another one: `con` of `configuration`."""
_EVERY_ROW = 2**62
_VECTORS_AT_ONCE = 1000
_GROUPS = 6
"""The number of groups of neighbouring terms into which a text is taken apart: a text that is alike shares some."""
_LEAST_TOGETHER = 2
"""The fewest terms of a group."""
_MOST_TOGETHER = 8
"""The most terms of a group."""
_CANDIDATES_FACTOR = 10
"""So many times the wanted entries are filtered, of the best candidates."""


class ScopeRows:
    """`ports.ScopeView` on a connection; a scope that does not exist holds nothing, and gets a number with `make`.
    `embeds`: the model of the vectors, "" for none."""

    AMONG: ClassVar[str]
    """SQL after a column: its value is in a list that `listed` makes the value of a parameter."""
    FOUND: ClassVar[str] = ""
    """How `WITH` says that the hits are found once, before anything is joined to them."""
    TAGGED: ClassVar[str]
    HOLDS: ClassVar[str]
    BYTES: ClassVar[str]

    def __init__(
        self, connection: Any, scope: Scope, embeds: str = "", *, make: bool = False
    ) -> None:
        """Look the number of the scope up; with `make`, add the scope first if it does not
        exist."""
        self._connection = connection
        self._scope = scope
        values = (scope.space, scope.owner)
        if make:
            connection.execute(
                "INSERT INTO scopes(space, owner) VALUES(?, ?) ON CONFLICT DO NOTHING", values
            )
        row = connection.execute(
            "SELECT id FROM scopes WHERE space = ? AND owner = ?", values
        ).fetchone()
        self._number: int | None = None if row is None else row[0]
        self._embeds = embeds

    @abstractmethod
    def listed(self, values: Sequence[Any]) -> Any:
        """Return a list as `AMONG` takes it."""

    @abstractmethod
    def index(self, entry: Entry) -> None:
        """Put the terms of an entry into the index."""

    @abstractmethod
    def unindex(self, id: int) -> None: ...
    @abstractmethod
    def _scored(self, terms: Sequence[IndexTerm]) -> tuple[str, list[Any]]:
        """Return SQL of the ids that hold a term, each with its score, which is lower where it is better."""

    @abstractmethod
    def _matched(
        self, ids: Sequence[int], terms: Sequence[IndexTerm]
    ) -> Mapping[int, Mapping[str, tuple[str, ...]]]:
        """Return the words that each field of these entries holds."""

    @abstractmethod
    def _holding(self, terms: Sequence[IndexTerm]) -> list[int]:
        """Return the ids of the entries that hold all these terms, in order."""

    @abstractmethod
    def _fields_with(self, terms: Sequence[IndexTerm]) -> Iterator[tuple[int, int, int]]:
        """Yield each id, number of a field and number of a term that it holds."""

    def get(self, *, id: int | None = None, ref: str | None = None) -> Entry | None:
        return next(self.rows("(e.id = ? OR e.ref = ?)", [id, ref]), None)

    def keyed(self, kind: str, project: str, key: str) -> Entry | None:
        where = "e.kind = ? AND e.project = ? AND e.key = ? AND e.archived_ms IS NULL"
        return next(self.rows(where, [kind, project, key]), None)

    def entries(
        self, where: Filter, *, order: Order = "newest", limit: int | None = None, offset: int = 0
    ) -> list[Entry]:
        condition, values = self._condition(where)
        ordered = f"{condition} ORDER BY {ORDERS[order]} LIMIT ? OFFSET ?"
        most = _EVERY_ROW if limit is None else limit
        return list(self.rows(ordered, [*values, most, offset]))

    def ids(self, where: Filter) -> list[int]:
        return self.ids_of(*self._condition(where))

    def ids_of(self, condition: str, values: Sequence[Any]) -> list[int]:
        """Return the ids of the entries with a condition in SQL."""
        return [row[0] for row in self._selected("e.id", condition, values)]

    def count(self, where: Filter) -> int:
        condition, values = self._condition(where)
        (count,) = self._selected("count(*)", condition, values).fetchone()
        return int(count)

    def figures(self, where: Filter = EVERYTHING) -> Figures:
        """Return counts and times of the entries of the filter: of the live ones, and how many are archived."""
        columns = (
            "count(*) - count(archived_ms), count(archived_ms), "
            "CAST(coalesce(sum(length(body)) FILTER (WHERE archived_ms IS NULL), 0) AS BIGINT), "
            "min(created_ms) FILTER (WHERE archived_ms IS NULL), max(updated_ms) FILTER (WHERE archived_ms IS NULL)"
        )
        condition, values = self._condition(where)
        return Figures(*self._selected(columns, condition, values).fetchone())

    def counted(
        self, by: Literal["agent_id", "run_id", "project"], where: Filter
    ) -> dict[str, int]:
        condition, values = self._condition(where)
        grouped = f"{condition} AND e.{by} NOTNULL GROUP BY 1"
        return dict(self._selected(f"e.{by}, count(*)", grouped, values).fetchall())

    def stored_bytes(self, where: Filter) -> int:
        condition, values = self._condition(where)
        texts = f"{self.BYTES.format('e.body')} + {self.BYTES.format('e.metadata')}"
        (count,) = self._selected(f"coalesce(sum({texts}), 0)", condition, values).fetchone()
        return int(count)

    def search(self, query: Query) -> Hits:
        """Return the best entries that hold terms of the query or of its other words. If no entry
        holds a term of the query, the ones that hold its text as it is written come in their place."""
        terms = sought_in(query.text)
        caller_terms = other_terms(query.other_words, terms)
        matches = self._matches(query, terms)
        other_matches = self._matches(query, caller_terms)
        if not matches:
            as_written = replace(query.where, text=query.text.strip())
            if not other_matches:
                return self._holding_text(as_written, query.limit)
            if as_written.text:
                matches = [Match(entry_id, 1.0) for entry_id in self._newest(as_written)]
        ranking = ranking_of(matches, other_matches, query.least_share)
        shown = ranking.entries[: query.limit]
        hits = tuple(self._hits(shown, terms, caller_terms))
        left_off = ranking.left_off + Counter(damaged=len(shown) - len(hits))
        return Hits(hits, len(ranking.entries), dict(left_off))

    def _holding_text(self, where: Filter, limit: int) -> Hits:
        """Find the entries that hold the text of a filter as it is written, newest first."""
        entries = self.entries(where, limit=limit)
        if not entries:
            return Hits()
        hits = tuple(Hit(entry, 1.0, matched=NOTHING, scope=self._scope) for entry in entries)
        return Hits(hits, self.count(where))

    def _newest(self, where: Filter) -> list[int]:
        condition, values = self._condition(where)
        return self.ids_of(f"{condition} ORDER BY {ORDERS['newest']}", values)

    def shares(self, query: Query) -> list[Share]:
        """Return each entry that holds a term of the query or of its other words, with the terms of
        its title, tags and body as bits: bit n is the n-th term. An entry with a time or importance
        of a wrong type is left out."""
        terms = sought_in(query.text)
        beginnings = [
            _as_beginning(term) for term in (*terms, *other_terms(query.other_words, terms))
        ]
        bits_by_entry: dict[int, list[int]] = {}
        for entry_id, field_number, term_number in self._fields_with(beginnings):
            bits = bits_by_entry.setdefault(entry_id, [0, 0, 0])
            bits[field_number] |= 1 << term_number
        condition, values = self._condition(query.where)
        shares = []
        for entry_id, created_ms, importance in self._selected(
            "e.id, e.created_ms, e.importance", condition, values
        ):
            if entry_id not in bits_by_entry:
                continue
            # A damaged row may have values of other types.
            if isinstance(created_ms, int) and isinstance(importance, int | float | None):
                title, tags, body = bits_by_entry[entry_id]
                shares.append(Share(entry_id, created_ms, importance, title, tags, body))
        return shares

    def nearest(self, vector: bytes, where: Filter) -> tuple[list[tuple[int, float]], int]:
        """Return the ids of the entries of the filter by their cosine to `vector`, the nearest
        first, and the number of entries without a vector of this model and length. A text that the
        model refused (an empty vector) is in neither."""
        import numpy as np

        condition, values = self._condition(where)
        model_mark = vector_key(self._embeds)
        rows = self._connection.execute(
            "SELECT e.id, substr(e.vector_key, 1, 4) = ? AND length(v.vector) = ?, v.vector FROM entries e "
            f"LEFT JOIN vectors v ON v.key = e.vector_key WHERE e.scope = ? AND {condition} "
            "AND NOT (coalesce(length(v.vector), -1) = 0 AND substr(e.vector_key, 1, 4) = ?)",
            (model_mark, len(vector), self._number, *values, model_mark),
        )
        query = np.frombuffer(vector, np.float32)
        cosines: list[tuple[int, float]] = []
        missing = 0
        # Read in parts, so that the vectors of all entries are never in memory at once.
        part = rows.fetchmany(_VECTORS_AT_ONCE)
        while part:
            comparable = [
                (entry_id, stored_vector) for entry_id, fits, stored_vector in part if fits
            ]
            missing += len(part) - len(comparable)
            vectors = [np.frombuffer(stored_vector, np.float32) for _, stored_vector in comparable]
            matrix = np.array(vectors).reshape(len(comparable), len(query))
            entry_ids = [entry_id for entry_id, _ in comparable]
            cosines += zip(entry_ids, (matrix @ query).tolist(), strict=True)
            part = rows.fetchmany(_VECTORS_AT_ONCE)

        best_first = sorted(cosines, key=lambda pair: (-pair[1], -pair[0]))
        return best_first, missing

    def vectors(self, where: Filter) -> int:
        condition, values = self._condition(where)
        has_vector = "substr(e.vector_key, 1, 4) = ? AND e.vector_key IN (SELECT key FROM vectors WHERE length(vector) > 0)"
        values = [vector_key(self._embeds), *values]
        (count,) = self._selected("count(*)", f"{has_vector} AND {condition}", values).fetchone()
        return int(count)

    def alike(self, text: str, where: Filter, limit: int) -> list[Entry]:
        candidates = self._sharing_groups(sought_in(text), limit * _CANDIDATES_FACTOR)
        condition, values = self._condition(where)
        among = f"e.id {self.AMONG}"
        meant = set(self.ids_of(f"{among} AND {condition}", [self.listed(candidates), *values]))
        chosen = [entry_id for entry_id in candidates if entry_id in meant][:limit]
        return list(self.rows(f"{among} ORDER BY e.id", [self.listed(chosen)]))

    def _sharing_groups(self, terms: Sequence[IndexTerm], most: int) -> list[int]:
        """Return the entries that hold most groups of neighbouring terms."""
        size = min(max(_LEAST_TOGETHER, len(terms) // _GROUPS), _MOST_TOGETHER)
        votes: Counter[int] = Counter()
        for start in range(0, max(1, len(terms) - size + 1), size):
            if terms:
                votes.update(self._holding(terms[start : start + size]))
        return [entry_id for entry_id, _ in votes.most_common(most)]

    def apply(self, change: Change, *, mirror: bool) -> AppliedChange:
        """Store a change, and return the entry as it is stored and what it was before (None if
        nothing is different). Raises InvalidInput if the entry to replace does not exist any
        more."""
        if isinstance(change, Entry):
            return self._put(change, mirror)
        row = self._connection.execute(
            "SELECT archived_ms, ref FROM entries WHERE id = ? AND scope = ?",
            (change.id, self._number),
        ).fetchone()
        if row is None:
            return AppliedChange()
        archived_ms, ref = row
        if isinstance(change, Purge):
            return self._purge(change, ref)
        if archived_ms is not None:
            return AppliedChange()
        return self._archive(change)

    def _purge(self, change: Purge, ref: str) -> AppliedChange:
        """Delete an entry with its terms, and empty its former texts in the history."""
        self.unindex(change.id)
        self._connection.execute("DELETE FROM entries WHERE id = ?", (change.id,))
        self._connection.execute(
            "UPDATE changes SET before = '{}' WHERE entry = ? AND before IS NOT NULL", (change.id,)
        )
        return AppliedChange(former=FormerRow(change.id, _json({"ref": ref}), 0))

    def _archive(self, change: Archive) -> AppliedChange:
        """Move a live entry into the archive, out of the index. The result has no entry, only what it was before."""
        self.unindex(change.id)
        self._connection.execute(
            "UPDATE entries SET archived_ms = ?, reason = ?, version = version + 1 WHERE id = ?",
            (change.at_ms, change.reason, change.id),
        )
        (version,) = self._connection.execute(
            "SELECT version FROM entries WHERE id = ?", (change.id,)
        ).fetchone()
        before = _json({"archived_ms": None, "reason": None})
        return AppliedChange(former=FormerRow(change.id, before, version))

    def _put(self, entry: Entry, mirror: bool) -> AppliedChange:
        """Insert an entry without an id, or replace the entry that has its id if a field differs,
        and index it. Archived entries are indexed only with `mirror`. Raises InvalidInput if no
        entry of the scope has the id."""
        if not entry.id:
            after = self._insert(entry)
            if mirror or after.archived_ms is None:
                self.index(after)
            return AppliedChange(after, FormerRow(after.id, None, after.version))
        before = self.get(id=entry.id)
        if before is None:
            raise InvalidInput("An entry of that number does not exist any more; read it again.")
        changed_fields = difference(before, entry)
        if not changed_fields:
            return AppliedChange(before)
        after = self._replace(before, entry)
        if changed_fields.keys() & INDEXED_FIELDS:
            self.unindex(after.id)
            if mirror or after.archived_ms is None:
                self.index(after)
        return AppliedChange(after, FormerRow(after.id, _json(changed_fields), after.version))

    def _insert(self, entry: Entry) -> Entry:
        stored = replace(entry, ref=entry.ref or str(uuid4()), version=1)
        entry_id = self._connection.insert("entries", self._values_of(stored))
        return replace(stored, id=entry_id)

    def _replace(self, before: Entry, entry: Entry) -> Entry:
        """Write `entry` over the row of `before`, as its next version, and return it as it is stored. The index is not
        changed."""
        stored = replace(entry, ref=entry.ref or str(uuid4()), version=before.version + 1)
        values = self._values_of(stored)
        assignments = ", ".join(f"{name} = :{name}" for name in values)
        self._connection.execute(
            f"UPDATE entries SET {assignments} WHERE id = :id", {**values, "id": stored.id}
        )
        return stored

    def _values_of(self, entry: Entry) -> dict[str, Any]:
        """Return the columns of the row of an entry, but for its id."""
        values = json_of(entry)
        del values["id"]
        for name in (*LISTS, "metadata"):
            values[name] = _json(values[name])
        values["scope"] = self._number
        values["vector_key"] = None
        if self._embeds and self._scope.space == "sessions":
            values["vector_key"] = vector_key(self._embeds, self._scope, entry.body)
        return {**values, **self.more_of(entry)}

    def more_of(self, entry: Entry) -> dict[str, Any]:
        """Return columns that only this database has."""
        return {}

    def log_operation(self, operation: Operation, entries: Sequence[int]) -> int:
        """Store an operation, and return its number."""
        values = {
            "op": operation.op,
            "by": operation.by,
            "at_ms": operation.at_ms,
            "error": operation.error,
            "took_ms": operation.took_ms,
            "caller": _json(dict(operation.caller)),
            "detail": _json(dict(operation.detail)),
            "scope": self._number,
            "entries": _json(list(entries)),
        }
        return int(self._connection.insert("operations", values))

    def _selected(self, columns: str, condition: str, values: Sequence[Any]) -> Any:
        query = f"SELECT {columns} FROM entries e WHERE e.scope = ? AND {condition}"
        return self._connection.execute(query, (self._number, *values))

    def rows(self, condition: str, values: Sequence[Any]) -> Iterator[Entry]:
        return self.entries_of(self._selected(COLUMNS, condition, values))

    def entries_of(self, rows: Iterable[Sequence[Any]]) -> Iterator[Entry]:
        """Yield the entries of rows of `COLUMNS`. A row with a value of a wrong type counts for nothing, and stays as
        it is."""
        for row in rows:
            values = values_of(self._connection, row)
            wrong = wrong_field(values)
            if wrong is not None:
                log.warning(
                    "entry %s passed over: its %s is of the wrong kind", values["id"], wrong
                )
                continue
            yield changed_by_json(Entry(""), values)

    def _matches(self, query: Query, terms: Sequence[IndexTerm]) -> list[Match]:
        """Return the entries that hold a term, best first. Entries that are expired or of another
        project come too, with that as the reason why they are hidden."""
        if not terms or self._number is None:
            return []

        # These conditions do not exclude an entry: they give the reason why it is not shown.
        expired, expired_values = self._condition(
            Filter(archived=None, unexpired_at_ms=query.where.unexpired_at_ms)
        )
        elsewhere, elsewhere_values = self._condition(
            Filter(archived=None, projects=query.where.projects)
        )
        condition, values = self._condition(
            replace(query.where, projects=None, unexpired_at_ms=None)
        )
        scored, score_values = self._scored(terms)
        rows = self._connection.execute(
            f"WITH found AS {self.FOUND}({scored}) SELECT e.id, found.score, "
            f"CASE WHEN NOT ({expired}) THEN 'expired' WHEN NOT ({elsewhere}) THEN 'other project' ELSE '' END "
            f"FROM found JOIN entries e ON e.id = found.id WHERE e.scope = ? AND {condition} "
            "ORDER BY found.score, e.updated_ms DESC, e.id DESC",
            (*score_values, *expired_values, *elsewhere_values, self._number, *values),
        ).fetchall()
        return [Match(entry_id, -score, reason) for entry_id, score, reason in rows]

    def _hits(
        self,
        ranked: Sequence[RankedEntry],
        terms: Sequence[IndexTerm],
        caller_terms: Sequence[IndexTerm],
    ) -> Iterator[Hit]:
        """Yield a hit for each of these entries, with the words of the query and the other words that its fields
        hold."""
        ids = [candidate.id for candidate in ranked]
        entries = {entry.id: entry for entry in self.rows(f"e.id {self.AMONG}", [self.listed(ids)])}
        matched = self._matched(ids, terms)
        other_matched: Mapping[int, Mapping[str, tuple[str, ...]]] = {}
        if caller_terms:
            other_matched = self._matched(ids, caller_terms)

        for candidate in ranked:
            entry = entries.get(candidate.id)
            if entry is None or candidate.id not in matched:
                continue  # it is damaged
            yield Hit(
                entry,
                candidate.relevance,
                matched=matched[candidate.id],
                scope=self._scope,
                other_matched=other_matched.get(candidate.id) or NOTHING,
                by_other_words=candidate.by_other_words,
            )

    def _condition(self, where: Filter) -> tuple[str, list[Any]]:
        """Return the conditions of a filter as one SQL expression (`TRUE` if it has none) for the entries `e`, and the
        values of its parameters. An empty `projects` meets nothing; empty `kinds`, `reasons` and `tags` set no
        condition."""
        conditions = _Conditions()
        if where.kinds:
            conditions.add(f"e.kind {self.AMONG}", self.listed(where.kinds))
        if where.projects is not None:
            conditions.add(f"e.project {self.AMONG}", self.listed(where.projects))
        if where.reasons:
            conditions.add(f"e.reason {self.AMONG}", self.listed(where.reasons))
        if where.tags:
            conditions.add(self.TAGGED, self.listed(list(map(index_form, where.tags))))
        if where.agent_id is not None:
            conditions.add("e.agent_id = ?", where.agent_id)
        if where.run_id is not None:
            conditions.add("e.run_id = ?", where.run_id)
        if where.archived is not None:
            conditions.add(
                "e.archived_ms IS NOT NULL" if where.archived else "e.archived_ms IS NULL"
            )
        if where.unexpired_at_ms is not None:
            conditions.add("coalesce(e.expires_ms > ?, TRUE)", where.unexpired_at_ms)
        if where.expired_by_ms is not None:
            conditions.add("e.expires_ms <= ?", where.expired_by_ms)
        if where.archived_by_ms is not None:
            conditions.add("e.archived_ms <= ?", where.archived_by_ms)
        if where.text:
            conditions.add(self.HOLDS, where.text)
        if where.ref_prefix:
            conditions.add("substr(e.ref, 1, ?) = ?", len(where.ref_prefix), where.ref_prefix)

        return " AND ".join(conditions.statements), conditions.values

    # --- what was before ---------------------------------------------------------------------------------

    def object_of(self, text: str | bytes) -> dict[str, Any]:
        """Parse an object of JSON. Return an empty object if the text is another value."""
        value = self._connection.json_of(text, {})
        return value if isinstance(value, dict) else {}

    def changed_after(self, entry_id: int, seq: int) -> int | None:
        """Return the newest operation after `seq` that changed an entry and was not undone, or
        None. Only two changes that are both later than `seq` leave the entry as it was."""
        rows = self._connection.execute(
            "SELECT DISTINCT o.seq, o.op, o.detail FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE c.entry = ? AND o.seq > ? ORDER BY o.seq DESC",
            (entry_id, seq),
        )
        taken_back: set[str] = set()
        for later_seq, op, detail in rows:
            undone = ""
            if op == "undo":
                undone = str(self.object_of(detail).get("change", ""))
            if change_id(later_seq) in taken_back:
                continue
            if not undone or undone in taken_back or seq_of(undone) <= seq:
                return int(later_seq)
            taken_back.add(undone)
        return None

    def changed_since(self, seq: int) -> tuple[list[Entry], list[str]]:
        """Do as `ScopeView.changed_since`."""
        since = "SELECT entry FROM changes WHERE operation > ?"
        removed = self._connection.execute(
            "SELECT c.before FROM changes c JOIN operations o ON o.seq = c.operation "
            f"WHERE o.scope = ? AND o.seq > ? AND c.after_version = 0 AND c.entry IN ({since} AND after_version > 0)",
            (self._number, seq, seq),
        )
        refs = [usable_fields(self.object_of(row[0])).get("ref") for row in removed.fetchall()]
        changed = list(self.rows(f"e.id IN ({since})", [seq]))
        return changed, [ref for ref in refs if ref is not None]

    def former(self, seq: int) -> list[Former]:
        """Return what each entry of the operation `seq` of this scope was before it, in order."""
        rows = self._connection.execute(
            "SELECT c.entry, c.before, c.after_version FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE o.seq = ? AND o.scope = ? ORDER BY c.rowid",
            (seq, self._number),
        )
        formers = []
        for entry_id, before, after_version in rows:
            fields = None if before is None else usable_fields(self.object_of(before))
            formers.append(Former(entry_id, fields, after_version))
        return formers

    def former_texts(self, ids: Sequence[int]) -> list[str]:
        """Do as `ScopeView.former_texts`."""
        rows = self._connection.execute(
            f"SELECT before FROM changes WHERE before NOTNULL AND entry {self.AMONG}",
            (self.listed(ids),),
        )
        texts = []
        for (before,) in rows:
            fields = usable_fields(self.object_of(before))
            texts += [fields[name] for name in ("body", "title", "source") if fields.get(name)]
        return texts

    def former_entries(self) -> list[Entry]:
        """Return each entry as it was before a change, as far as that is kept, newest change first; also entries
        that were removed for good. A change keeps only what it replaced, so each entry is followed back from its
        present form. A version is left out if its change touched none of `INDEXED_FIELDS`."""
        rows = self._connection.execute(
            "SELECT c.entry, c.before FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE o.scope = ? AND c.before NOTNULL ORDER BY c.operation DESC, c.rowid DESC",
            (self._number,),
        ).fetchall()
        entries = {entry.id: entry for entry in self.rows("true", [])}
        former_entries: list[Entry] = []
        for entry_id, before in rows:
            fields = usable_fields(self.object_of(before))
            entries[entry_id] = changed_by_json(entries.get(entry_id, Entry("")), fields)
            if fields.keys() & INDEXED_FIELDS:
                former_entries.append(entries[entry_id])
        return former_entries


def values_of(connection: Any, row: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of a row of `COLUMNS` as JSON has them."""
    values = dict(zip(FIELDS, row, strict=True))
    for name in LISTS:
        values[name] = connection.json_of(values[name], [])
    values["metadata"] = connection.json_of(values["metadata"], {})
    return values


def _as_beginning(term: IndexTerm) -> IndexTerm:
    """Return a term that also finds longer terms which begin so, if it is long enough."""
    return replace(term, prefix=term.prefix or len(term.term) >= _LEAST_BEGINNING)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()

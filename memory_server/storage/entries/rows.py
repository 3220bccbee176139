"""Entries as rows: the SQL that every database of entries takes, in the caller's thread and transaction. What only one
of them takes is in sqlite_rows.py and in postgres/entry_rows.py."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeVar
from uuid import uuid4

import orjson

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.scopes import Scope, vector_key
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
)
from memory_server.knowledge.word_ranking import Match, Ranked, ranking_of
from memory_server.storage.entries.conditions import ORDERS, condition_of
from nlp.index_terms import IndexTerm, other_terms, sought_in

T = TypeVar("T")
Done = tuple[Entry | None, tuple[int, str | None, int] | None]
"""An entry as it is stored, and the row that tells what it was before; None where nothing is different."""
COLUMNS = ", ".join(f"e.{name}" for name in FIELDS)
INDEXED = {"title": 10, "tags": 4, "body": 1}
"""The fields of the index, with their weights in BM25."""
_LEAST_BEGINNING = 3
"""Characters of a term that may be the beginning of another one: `con` of `configuration`."""
_EVERY_ROW = 2**62
_GROUPS, _LEAST_TOGETHER, _MOST_TOGETHER, _LEFT_OFF = 6, 2, 8, 10
"""A text that is alike shares some group of this many neighbouring terms. Of the best candidates, so many times the
wanted ones are filtered."""
_TEXTS = {"title", "tags", "body", "examples", "archived_ms"}
"""Fields that the index depends on."""


class ScopeRows:
    """`ports.ScopeView` on a connection; a scope that does not exist holds nothing, and gets a number with `make`.
    `embeds`: the model of the vectors, "" for none."""

    FOUND: ClassVar[str] = ""
    """How `WITH` says that the hits are found once, before anything is joined to them."""
    AMONG: ClassVar[str]
    """SQL after a column: it has one of the values that `listed` makes one value of."""
    TAGGED: ClassVar[str]
    HOLDS: ClassVar[str]
    BYTES: ClassVar[str]

    def __init__(self, connection: Any, scope: Scope, embeds: str = "", *, make: bool = False) -> None:
        self._connection, self._scope, self._embeds = connection, scope, embeds
        named = (scope.space, scope.owner)
        if make:
            connection.execute("INSERT INTO scopes(space, owner) VALUES(?, ?) ON CONFLICT DO NOTHING", named)
        found = connection.execute("SELECT id FROM scopes WHERE space = ? AND owner = ?", named).fetchone()
        self._number: int | None = None if found is None else found[0]

    @abstractmethod
    def listed(self, values: Sequence[Any]) -> Any:
        """What `AMONG` takes."""

    @abstractmethod
    def index(self, entry: Entry) -> None:
        """Put the terms of an entry into the index."""

    @abstractmethod
    def unindex(self, id: int) -> None: ...
    @abstractmethod
    def _scored(self, sought: Sequence[IndexTerm]) -> tuple[str, list[Any]]:
        """SQL of the ids that hold a term, each with its score, which is lower where it is better."""

    @abstractmethod
    def _matched(self, ids: Sequence[int], sought: Sequence[IndexTerm]) -> Mapping[int, Mapping[str, tuple[str, ...]]]:
        """The words that each field of these entries holds."""

    @abstractmethod
    def _holding(self, sought: Sequence[IndexTerm]) -> list[int]:
        """The ids of the entries that hold all these terms, in order."""

    @abstractmethod
    def _fields_with(self, sought: Sequence[IndexTerm]) -> Iterator[tuple[int, int, int]]:
        """Each id, number of a field and number of a term that it holds."""

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
        return list(self.rows(ordered, [*values, _EVERY_ROW if limit is None else limit, offset]))

    def ids(self, where: Filter) -> list[int]:
        return [row[0] for row in self._selected("e.id", *self._condition(where))]

    def count(self, where: Filter) -> int:
        return int(self._selected("count(*)", *self._condition(where)).fetchone()[0])

    def figures(self, where: Filter = EVERYTHING) -> Figures:
        columns = (
            "count(*) - count(archived_ms), count(archived_ms), "
            "CAST(coalesce(sum(length(body)) FILTER (WHERE archived_ms IS NULL), 0) AS BIGINT), "
            "min(created_ms) FILTER (WHERE archived_ms IS NULL), max(updated_ms) FILTER (WHERE archived_ms IS NULL)"
        )
        return Figures(*self._selected(columns, *self._condition(where)).fetchone())

    def counted(self, by: Literal["agent_id", "run_id", "project"], where: Filter) -> dict[str, int]:
        condition, values = self._condition(where)
        return dict(
            self._selected(f"e.{by}, count(*)", f"{condition} AND e.{by} NOTNULL GROUP BY 1", values).fetchall()
        )

    def stored_bytes(self, where: Filter) -> int:
        condition, values = self._condition(where)
        texts = " + ".join(self.BYTES.format(f"e.{name}") for name in ("body", "metadata"))
        return int(self._selected(f"coalesce(sum({texts}), 0)", condition, values).fetchone()[0])

    def changed_after(self, entry_id: int, seq: int) -> int | None:
        rows = self._connection.execute(
            "SELECT DISTINCT o.seq, o.op, o.detail FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE c.entry = ? AND o.seq > ? ORDER BY o.seq DESC",
            (entry_id, seq),
        )
        taken_back: set[str] = set()
        for number, op, detail in rows:
            undone = self._connection.json_of(detail, {}).get("change", "") if op == "undo" else ""
            if change_id(number) in taken_back:
                continue
            # Only two changes that are both later than `seq` leave the entry as it was.
            if not undone or undone in taken_back or seq_of(undone) <= seq:
                return int(number)
            taken_back.add(undone)
        return None

    def changed_since(self, seq: int) -> tuple[list[Entry], list[str]]:
        since = "SELECT entry FROM changes WHERE operation > ?"
        gone = self._connection.execute(
            "SELECT c.before FROM changes c JOIN operations o ON o.seq = c.operation "
            f"WHERE o.scope = ? AND o.seq > ? AND c.after_version = 0 AND c.entry IN ({since} AND after_version > 0)",
            (self._number, seq, seq),
        )
        refs = (self._connection.json_of(row[0], {}).get("ref") for row in gone.fetchall())
        return list(self.rows(f"e.id IN ({since})", [seq])), [ref for ref in refs if ref is not None]

    def former(self, seq: int) -> list[Former]:
        rows = self._connection.execute(
            "SELECT c.entry, c.before, c.after_version FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE o.seq = ? AND o.scope = ? ORDER BY c.rowid",
            (seq, self._number),
        )
        return [Former(row[0], row[1] and self._connection.json_of(row[1], {}), row[2]) for row in rows]

    def former_texts(self, ids: Sequence[int]) -> list[str]:
        rows = self._connection.execute(
            f"SELECT before FROM changes WHERE before NOTNULL AND entry {self.AMONG}", (self.listed(ids),)
        )
        values = [self._connection.json_of(row[0], {}) for row in rows]
        return [each[name] for each in values for name in ("body", "title", "source") if each.get(name)]

    def former_entries(self) -> list[Entry]:
        rows = self._connection.execute(
            "SELECT c.entry, c.before FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE o.scope = ? AND c.before NOTNULL ORDER BY c.operation DESC, c.rowid DESC",
            (self._number,),
        ).fetchall()
        entries = {entry.id: entry for entry in self.rows("true", [])}
        former: list[Entry] = []
        for number, before in rows:
            values = self._connection.json_of(before, {})
            entries[number] = changed_by_json(entries.get(number, Entry("")), values)
            if values.keys() & _TEXTS:
                former.append(entries[number])
        return former

    def search(self, query: Query) -> Hits:
        sought = sought_in(query.text)
        others = other_terms(query.other_words, sought)
        own = self._matches(query, sought)
        other = self._matches(query, others)
        if not own:
            as_written = replace(query.where, text=query.text.strip())
            if not other:
                entries = self.entries(as_written, limit=query.limit)
                hits = tuple(Hit(entry, 1.0, NOTHING, self._scope) for entry in entries)
                return Hits(hits, self.count(as_written) if hits else 0)
            if as_written.text:
                own = [Match(entry_id, 1.0) for entry_id in self._newest(as_written)]
        ranking = ranking_of(own, other, query.least_share)
        shown = ranking.entries[: query.limit]
        hits = tuple(self._hits(shown, sought, others))
        left_off = ranking.left_off + Counter(damaged=len(shown) - len(hits))
        return Hits(hits, len(ranking.entries), dict(left_off))

    def _newest(self, where: Filter) -> list[int]:
        condition, values = self._condition(where)
        return [row[0] for row in self._selected("e.id", f"{condition} ORDER BY {ORDERS['newest']}", values)]

    def shares(self, query: Query) -> list[Share]:
        held: dict[int, list[int]] = {}
        own = sought_in(query.text)
        sought = (*own, *other_terms(query.other_words, own))
        longer = [replace(each, prefix=each.prefix or len(each.term) >= _LEAST_BEGINNING) for each in sought]
        for entry_id, place, number in self._fields_with(longer):
            held.setdefault(entry_id, [0, 0, 0])[place] |= 1 << number
        rows = self._selected("e.id, e.created_ms, e.importance", *self._condition(query.where))
        return [Share(*row, *held[row[0]]) for row in rows if row[0] in held]

    def nearest(self, vector: bytes, where: Filter) -> tuple[list[tuple[int, float]], int]:
        import numpy as np

        condition, values = self._condition(where)
        rows = self._connection.execute(
            "SELECT e.id, substr(e.vector_key, 1, 4) = ? AND length(v.vector) = ?, v.vector FROM entries e "
            f"LEFT JOIN vectors v ON v.key = e.vector_key WHERE e.scope = ? AND {condition} "
            "AND NOT (coalesce(length(v.vector), -1) = 0 AND substr(e.vector_key, 1, 4) = ?)",
            ((mark := vector_key(self._embeds)), len(vector), self._number, *values, mark),
        )
        sought, found, missing = np.frombuffer(vector, np.float32), list[tuple[int, float]](), 0
        while part := rows.fetchmany(1000):
            fits = [(row[0], row[2]) for row in part if row[1]]
            missing += len(part) - len(fits)
            matrix = np.array([np.frombuffer(each, np.float32) for _, each in fits]).reshape(len(fits), len(sought))
            found += zip((number for number, _ in fits), (matrix @ sought).tolist(), strict=True)
        return sorted(found, key=lambda each: (-each[1], -each[0])), missing

    def vectors(self, where: Filter) -> int:
        condition, values = self._condition(where)
        made = "substr(e.vector_key, 1, 4) = ? AND e.vector_key IN (SELECT key FROM vectors WHERE length(vector) > 0)"
        return int(
            self._selected("count(*)", f"{made} AND {condition}", [vector_key(self._embeds), *values]).fetchone()[0]
        )

    def alike(self, text: str, where: Filter, limit: int) -> list[Entry]:
        sought = sought_in(text)
        size = min(max(_LEAST_TOGETHER, len(sought) // _GROUPS), _MOST_TOGETHER)
        votes: Counter[int] = Counter()
        for start in range(0, max(1, len(sought) - size + 1), size):
            if sought:
                votes.update(self._holding(sought[start : start + size]))
        condition, values = self._condition(where)
        best = [entry_id for entry_id, _ in votes.most_common(limit * _LEFT_OFF)]
        among = f"e.id {self.AMONG}"
        rows = self._selected("e.id", f"{among} AND {condition}", [self.listed(best), *values])
        meant = {row[0] for row in rows}
        chosen = [each for each in best if each in meant][:limit]
        return list(self.rows(f"{among} ORDER BY e.id", [self.listed(chosen)]))

    def apply(self, change: Change, *, mirror: bool) -> Done:
        """Store a change. Raises InvalidInput: its entry does not exist any more."""
        if isinstance(change, Entry):
            return self._put(change, mirror)
        execute, here = self._connection.execute, (change.id, self._number)
        found = execute("SELECT archived_ms, ref FROM entries WHERE id = ? AND scope = ?", here).fetchone()
        if found is None or (isinstance(change, Archive) and found[0] is not None):
            return None, None
        self.unindex(change.id)
        if isinstance(change, Purge):
            execute("DELETE FROM entries WHERE id = ?", here[:1])
            execute("UPDATE changes SET before = '{}' WHERE entry = ? AND before IS NOT NULL", here[:1])
            return None, (change.id, _text({"ref": found[1]}), 0)
        into = "UPDATE entries SET archived_ms = ?, reason = ?, version = version + 1 WHERE id = ?"
        execute(into, (change.at_ms, change.reason, change.id))
        (version,) = execute("SELECT version FROM entries WHERE id = ?", here[:1]).fetchone()
        return None, (change.id, _text({"archived_ms": None, "reason": None}), version)

    def _put(self, change: Entry, mirror: bool) -> Done:
        before = self.get(id=change.id) if change.id else None
        if before is None and change.id:
            raise InvalidInput("An entry of that number does not exist any more; read it again.")
        former = None if before is None else difference(before, change)
        if before is not None and not former:
            return before, None
        values = json_of(change) | {"version": 1 if before is None else before.version + 1, "scope": self._number}
        values |= {name: _text(values[name]) for name in (*LISTS, "metadata")} | {"ref": change.ref or str(uuid4())}
        embedded = self._embeds and self._scope.space == "sessions"
        values["vector_key"] = vector_key(self._embeds, self._scope, change.body) if embedded else None
        del values["id"]
        values |= self.more_of(change)
        if before is None:
            values["id"] = self._connection.insert("entries", values)
        else:
            into = ", ".join(f"{name} = :{name}" for name in values)
            self._connection.execute(f"UPDATE entries SET {into} WHERE id = :id", values | {"id": change.id})
            values["id"] = change.id
        after = replace(change, id=values["id"], ref=values["ref"], version=values["version"])
        if former is None or former.keys() & _TEXTS:
            if before is not None:
                self.unindex(after.id)
            if mirror or after.archived_ms is None:
                self.index(after)
        return after, (after.id, None if former is None else _text(former), after.version)

    def more_of(self, entry: Entry) -> dict[str, Any]:
        """Columns that only this database has."""
        return {}

    def log_operation(self, operation: Operation, entries: Sequence[int]) -> int:
        """Store an operation; its number."""
        values = {name: getattr(operation, name) for name in ("op", "by", "at_ms", "error", "took_ms")}
        values |= {name: _text(dict(getattr(operation, name))) for name in ("caller", "detail")}
        values |= {"scope": self._number, "entries": _text(list(entries))}
        return int(self._connection.insert("operations", values))

    def _selected(self, columns: str, condition: str, values: Sequence[Any]) -> Any:
        query = f"SELECT {columns} FROM entries e WHERE e.scope = ? AND {condition}"
        return self._connection.execute(query, (self._number, *values))

    def rows(self, condition: str, values: Sequence[Any]) -> Iterator[Entry]:
        return map(self.entry, self._selected(COLUMNS, condition, values))

    def entry(self, row: Sequence[Any]) -> Entry:
        """The entry of a row of `COLUMNS`."""
        values, read = dict(zip(FIELDS, row, strict=True)), self._connection.json_of
        values |= {name: tuple(read(values[name], [])) for name in LISTS}
        return Entry(**values | {"metadata": read(values["metadata"], {})})

    def _matches(self, query: Query, sought: Sequence[IndexTerm]) -> list[Match]:
        """The entries that hold a term, best first, also those that are hidden."""
        if not sought or self._number is None:
            return []
        where, cases, given = query.where, "", []
        hidden = {
            "expired": Filter(archived=None, unexpired_at_ms=where.unexpired_at_ms),
            "other project": Filter(archived=None, projects=where.projects),
        }
        for reason, shown in hidden.items():
            met, needed = self._condition(shown)
            cases += f" WHEN NOT ({met}) THEN '{reason}'"
            given += needed
        condition, values = self._condition(replace(where, projects=None, unexpired_at_ms=None))
        scored, terms = self._scored(sought)
        rows = self._connection.execute(
            f"WITH found AS {self.FOUND}({scored}) SELECT e.id, found.score, CASE{cases} ELSE '' END FROM found "
            f"JOIN entries e ON e.id = found.id WHERE e.scope = ? AND {condition} "
            "ORDER BY found.score, e.updated_ms DESC, e.id DESC",
            (*terms, *given, self._number, *values),
        ).fetchall()
        return [Match(row[0], -row[1], row[2]) for row in rows]

    def _hits(
        self, ranked: Sequence[Ranked], sought: Sequence[IndexTerm], others: Sequence[IndexTerm]
    ) -> Iterator[Hit]:
        """These entries, each with the words of the query and the other words that its fields hold."""
        ids = [each.id for each in ranked]
        by_id = {entry.id: entry for entry in self.rows(f"e.id {self.AMONG}", [self.listed(ids)])}
        matched = self._matched(ids, sought)
        other = self._matched(ids, others) if others else {}
        for each in ranked:
            if (entry := by_id.get(each.id)) is not None and each.id in matched:  # else it is damaged
                hit = Hit(entry, each.relevance, matched[each.id], self._scope, by_other_words=each.by_other_words)
                yield replace(hit, other_matched=other[each.id]) if other.get(each.id) else hit

    def _condition(self, where: Filter) -> tuple[str, list[Any]]:
        return condition_of(where, self)


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()

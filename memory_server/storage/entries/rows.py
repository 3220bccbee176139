"""Entries as rows: SQL on a connection, in the caller's thread and transaction."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar
from uuid import uuid4

import orjson

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.scopes import Scope
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
    difference,
    json_of,
    seq_of,
)
from memory_server.storage.entries import schema
from memory_server.storage.entries.vectors import vector_key
from nlp.index_terms import IndexTerm, index_form, sought_in, terms_of
from sandbox.locale import _

T = TypeVar("T")
Done = tuple[Entry | None, tuple[int, bytes | None, int] | None]
"""An entry as it is stored, and the row that tells what it was before; None where nothing is different."""
_COLUMNS = ", ".join(f"e.{name}" for name in FIELDS)
_STORED = (*FIELDS, "vector_key")
_INSERT = (
    f"INSERT INTO entries({', '.join(_STORED)}, scope) VALUES({', '.join(f':{name}' for name in _STORED)}, :scope)"
)
_UPDATE = f"UPDATE entries SET {', '.join(f'{name} = :{name}' for name in _STORED if name != 'id')} WHERE id = :id"
_ORDERS: Mapping[Order, str] = {
    "newest": "e.updated_ms DESC, e.id DESC",
    "made": "e.created_ms DESC, e.id DESC",
    "oldest": "e.created_ms, e.id",
    "best": "e.confidence DESC, e.uses DESC, e.updated_ms DESC, e.id DESC",
    "title": "e.kind, e.title, e.id",
    "removed": "e.archived_ms DESC, e.id DESC",
}
_INDEXED = {"title": 10, "tags": 4, "body": 1}
"""The fields of the index, with their weights in BM25."""
_FOUND = "SELECT rowid FROM terms WHERE terms MATCH ?"
_AMONG = "IN (SELECT value FROM json_each(?))"
_LEAST_BEGINNING = 3
"""Characters of a term that may be the beginning of another one: `con` of `configuration`."""
_TAGS = "iif(json_valid(e.tags), e.tags, '[]')"
"""A list of tags may be damaged."""
_GROUPS, _LEAST_TOGETHER, _MOST_TOGETHER, _LEFT_OFF = 6, 2, 8, 10
"""A text that is alike shares some group of this many neighbouring terms. Of the best candidates, so many times the
wanted ones are filtered."""
_TEXTS = {"title", "tags", "body", "examples", "archived_ms"}
"""Fields that the index depends on."""


class ScopeRows:
    """`ports.ScopeView` on a connection; a scope that does not exist holds nothing, and gets a number with `make`.
    `embeds`: the model of the vectors, "" for none."""

    def __init__(self, connection: sqlite3.Connection, scope: Scope, embeds: str = "", *, make: bool = False) -> None:
        self._connection, self._scope, self._embeds = connection, scope, embeds
        named = (scope.space, scope.owner)
        if make:
            connection.execute("INSERT OR IGNORE INTO scopes(space, owner) VALUES(?, ?)", named)
        found = connection.execute("SELECT id FROM scopes WHERE space = ? AND owner = ?", named).fetchone()
        self._number: int | None = None if found is None else found[0]
        self._lenient = schema.is_lenient(connection)

    def get(self, *, id: int | None = None, ref: str | None = None) -> Entry | None:
        return next(self.rows("(e.id = ? OR e.ref = ?)", [id, ref]), None)

    def keyed(self, kind: str, project: str, key: str) -> Entry | None:
        where = "e.kind = ? AND e.project = ? AND e.key = ? AND e.archived_ms IS NULL"
        return next(self.rows(where, [kind, project, key]), None)

    def entries(
        self, where: Filter, *, order: Order = "newest", limit: int | None = None, offset: int = 0
    ) -> list[Entry]:
        condition, values = _condition(where)
        ordered = f"{condition} ORDER BY {_ORDERS[order]} LIMIT ? OFFSET ?"
        return list(self.rows(ordered, [*values, -1 if limit is None else limit, offset]))

    def ids(self, where: Filter) -> list[int]:
        return [row[0] for row in self._selected("e.id", *_condition(where))]

    def count(self, where: Filter) -> int:
        return int(self._selected("count(*)", *_condition(where)).fetchone()[0])

    def figures(self, where: Filter = EVERYTHING) -> Figures:
        columns = (
            "count(*) - count(archived_ms), count(archived_ms), "
            "coalesce(sum(length(body)) FILTER (WHERE archived_ms IS NULL), 0), "
            "min(created_ms) FILTER (WHERE archived_ms IS NULL), max(updated_ms) FILTER (WHERE archived_ms IS NULL)"
        )
        return Figures(*self._selected(columns, *_condition(where)).fetchone())

    def counted(self, by: Literal["agent_id", "run_id"], where: Filter) -> dict[str, int]:
        condition, values = _condition(where)
        return dict(
            self._selected(f"e.{by}, count(*)", f"{condition} AND e.{by} NOTNULL GROUP BY 1", values).fetchall()
        )

    def stored_bytes(self, where: Filter) -> int:
        condition, values = _condition(where)
        texts = " + ".join(f"length(CAST(e.{name} AS BLOB))" for name in ("body", "metadata"))
        return int(self._selected(f"coalesce(sum({texts}), 0)", condition, values).fetchone()[0])

    def changed_after(self, entry_id: int, seq: int) -> int | None:
        rows = self._connection.execute(
            "SELECT DISTINCT o.seq, o.op, o.detail FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE c.entry = ? AND o.seq > ? ORDER BY o.seq DESC",
            (entry_id, seq),
        )
        taken_back: set[str] = set()
        for number, op, detail in rows:
            undone = json_value(detail, {}, self._lenient).get("change", "") if op == "undo" else ""
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
            "SELECT json_extract(c.before, '$.ref') FROM changes c JOIN operations o ON o.seq = c.operation "
            f"WHERE o.scope = ? AND o.seq > ? AND c.after_version = 0 AND c.entry IN ({since} AND after_version > 0)",
            (self._number, seq, seq),
        )
        return list(self.rows(f"e.id IN ({since})", [seq])), [row[0] for row in gone if row[0] is not None]

    def former(self, seq: int) -> list[Former]:
        rows = self._connection.execute(
            "SELECT c.entry, c.before, c.after_version FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE o.seq = ? AND o.scope = ? ORDER BY c.rowid",
            (seq, self._number),
        )
        return [Former(row[0], row[1] and json_value(row[1], {}, self._lenient), row[2]) for row in rows]

    def former_texts(self, ids: Sequence[int]) -> list[str]:
        rows = self._connection.execute(
            f"SELECT before FROM changes WHERE before NOTNULL AND entry {_AMONG}", (_text(list(ids)),)
        )
        values = [json_value(row[0], {}, self._lenient) for row in rows]
        return [each[name] for each in values for name in ("body", "title", "source") if each.get(name)]

    def search(self, query: Query) -> Hits:
        sought = sought_in(query.text) if self._number is not None else ()
        ranked, left_off = self._ranked(query, sought) if sought else ([], Counter())
        if not ranked and not left_off:
            as_written = replace(query.where, text=query.text.strip())
            hits = tuple(Hit(entry, 1.0, NOTHING, self._scope) for entry in self.entries(as_written, limit=query.limit))
            return Hits(hits, self.count(as_written) if hits else 0)
        best = ranked[0][1] if ranked else 0.0
        strong = [each for each in ranked if each[1] / best >= query.least_share]
        left_off += Counter(weaker=len(ranked) - len(strong))
        shown = {entry_id: score / best for entry_id, score in strong[: query.limit]}
        hits = tuple(self._hits(shown, sought))
        left_off += Counter(damaged=len(shown) - len(hits))
        return Hits(hits, len(strong), dict(+left_off))

    def shares(self, query: Query) -> list[Share]:
        held: dict[int, list[int]] = {}
        for number, sought in enumerate(sought_in(query.text)):
            longer = replace(sought, prefix=sought.prefix or len(sought.term) >= _LEAST_BEGINNING)
            for place, column in enumerate(_INDEXED):
                match = f"{column} : {self._match([longer])}"
                for (entry_id,) in self._connection.execute(_FOUND, (match,)):
                    held.setdefault(entry_id, [0, 0, 0])[place] |= 1 << number
        rows = self._selected("e.id, e.created_ms, e.importance", *_condition(query.where))
        return [Share(*row, *held[row[0]]) for row in rows if row[0] in held]

    def nearest(self, vector: bytes, where: Filter) -> tuple[list[tuple[int, float]], int]:
        import numpy as np

        condition, values = _condition(where)
        rows = self._connection.execute(
            "SELECT e.id, substr(e.vector_key, 1, 4) = ? AND length(v.vector) = ?, v.vector FROM entries e "
            f"LEFT JOIN vectors v ON v.key = e.vector_key WHERE e.scope = ? AND {condition} "
            "AND NOT (ifnull(length(v.vector), -1) = 0 AND substr(e.vector_key, 1, 4) = ?)",
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
        condition, values = _condition(where)
        made = "substr(e.vector_key, 1, 4) = ? AND e.vector_key IN (SELECT key FROM vectors WHERE vector != x'')"
        return int(
            self._selected("count(*)", f"{made} AND {condition}", [vector_key(self._embeds), *values]).fetchone()[0]
        )

    def alike(self, text: str, where: Filter, limit: int) -> list[Entry]:
        sought = sought_in(text)
        size = min(max(_LEAST_TOGETHER, len(sought) // _GROUPS), _MOST_TOGETHER)
        votes: Counter[int] = Counter()
        for start in range(0, max(1, len(sought) - size + 1), size):
            match = " AND ".join(f'"{self._number}_{each.term}"' for each in sought[start : start + size])
            if match:
                votes.update(row[0] for row in self._connection.execute(_FOUND, (match,)))
        condition, values = _condition(where)
        best = [entry_id for entry_id, _ in votes.most_common(limit * _LEFT_OFF)]
        meant = {row[0] for row in self._selected("e.id", f"e.id {_AMONG} AND {condition}", [_text(best), *values])}
        chosen = [each for each in best if each in meant][:limit]
        return list(self.rows(f"e.id {_AMONG}", [_text(chosen)]))

    def apply(self, change: Change, *, mirror: bool) -> Done:
        """Store a change. Raises InvalidInput: its entry does not exist any more."""
        if isinstance(change, Entry):
            return self._put(change, mirror)
        execute, here = self._connection.execute, (change.id, self._number)
        found = execute("SELECT archived_ms, ref FROM entries WHERE id = ? AND scope = ?", here).fetchone()
        if found is None or (isinstance(change, Archive) and found[0] is not None):
            return None, None
        execute("DELETE FROM terms WHERE rowid = ?", here[:1])
        if isinstance(change, Purge):
            execute("DELETE FROM entries WHERE id = ?", here[:1])
            execute("UPDATE changes SET before = '{}' WHERE entry = ? AND before IS NOT NULL", here[:1])
            return None, (change.id, orjson.dumps({"ref": found[1]}), 0)
        into = "UPDATE entries SET archived_ms = ?, reason = ?, version = version + 1 WHERE id = ?"
        execute(into, (change.at_ms, change.reason, change.id))
        (version,) = execute("SELECT version FROM entries WHERE id = ?", here[:1]).fetchone()
        return None, (change.id, orjson.dumps({"archived_ms": None, "reason": None}), version)

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
        if before is None:
            values["id"] = self._connection.execute(_INSERT, values | {"id": None}).lastrowid
        else:
            self._connection.execute(_UPDATE, values)
        after = replace(change, id=values["id"], ref=values["ref"], version=values["version"])
        if former is None or former.keys() & _TEXTS:
            self._connection.execute("DELETE FROM terms WHERE rowid = ?", (after.id,))
            if mirror or after.archived_ms is None:
                self.index(after)
        return after, (after.id, None if former is None else orjson.dumps(former), after.version)

    def index(self, entry: Entry) -> None:
        """Put the terms of an entry into the index."""
        texts = (entry.title, "\n".join(entry.tags), "\n".join((entry.body, *entry.examples)))
        terms = (" ".join(f"{self._number}_{term}" for term in terms_of(text)) for text in texts)
        self._connection.execute("INSERT INTO terms(rowid, title, tags, body) VALUES(?, ?, ?, ?)", (entry.id, *terms))

    def log_operation(self, operation: Operation, entries: Sequence[int]) -> int:
        """Store an operation; its number."""
        values = {name: getattr(operation, name) for name in ("op", "by", "at_ms", "error", "took_ms")}
        values |= {name: _text(dict(getattr(operation, name))) for name in ("caller", "detail")}
        values |= {"scope": self._number, "entries": _text(list(entries))}
        statement = f"INSERT INTO operations({', '.join(values)}) VALUES({', '.join(f':{name}' for name in values)})"
        return self._connection.execute(statement, values).lastrowid or 0

    def _selected(self, columns: str, condition: str, values: Sequence[Any]) -> sqlite3.Cursor:
        query = f"SELECT {columns} FROM entries e WHERE e.scope = ? AND {condition}"
        return self._connection.execute(query, (self._number, *values))

    def rows(self, condition: str, values: Sequence[Any]) -> Iterator[Entry]:
        if not self._lenient:
            return map(_entry, self._selected(_COLUMNS, condition, values))
        ids = [row[0] for row in self._selected("e.id", condition, values).fetchall()]
        one_by_one = (self._readable(f"SELECT {_COLUMNS} FROM entries e WHERE e.id {_AMONG}", [each]) for each in ids)
        return (_entry(row, lenient=True) for rows in one_by_one for row in rows)

    def _readable(self, query: str, ids: Sequence[int]) -> list[sqlite3.Row]:
        """The rows of these ids; where the file is damaged, only those that can be read."""
        try:
            return self._connection.execute(query, (_text(list(ids)),)).fetchall()
        except sqlite3.Error:
            if not self._lenient:
                raise
            return [] if len(ids) == 1 else [row for each in ids for row in self._readable(query, [each])]

    def _match(self, sought: Sequence[IndexTerm]) -> str:
        return " OR ".join(f'"{self._number}_{each.term}"{" *" if each.prefix else ""}' for each in sought)

    def _ranked(self, query: Query, sought: Sequence[IndexTerm]) -> tuple[list[tuple[int, float]], Counter[str]]:
        """Ids with their scores, best first, and the counts of matches that are hidden."""
        where, cases, given = query.where, "", []
        hidden = {
            "expired": Filter(archived=None, unexpired_at_ms=where.unexpired_at_ms),
            "other project": Filter(archived=None, projects=where.projects),
        }
        for reason, shown in hidden.items():
            met, needed = _condition(shown)
            cases += f" WHEN NOT ({met}) THEN '{reason}'"
            given += needed
        condition, values = _condition(replace(where, projects=None, unexpired_at_ms=None))
        rows = self._connection.execute(
            f"SELECT e.id, bm25(terms, {', '.join(map(str, _INDEXED.values()))}) score, CASE{cases} ELSE '' END hidden "
            f"FROM terms JOIN entries e ON e.id = terms.rowid WHERE terms MATCH ? AND e.scope = ? AND {condition} "
            "ORDER BY score, e.updated_ms DESC, e.id DESC",
            (*given, self._match(sought), self._number, *values),
        ).fetchall()
        return [(row[0], row[1]) for row in rows if not row[2]], Counter(row[2] for row in rows if row[2])

    def _hits(self, shares: Mapping[int, float], sought: Sequence[IndexTerm]) -> Iterator[Hit]:
        """The entries of `shares` in its order, each with the words of the query that its fields hold."""
        fields = ", ".join(f"' ' || t.{name} || ' ' in_{name}" for name in _INDEXED)
        found = self._readable(
            f"SELECT {_COLUMNS}, {fields} FROM entries e JOIN terms t ON t.rowid = e.id WHERE e.id {_AMONG}",
            list(shares),
        )
        terms = [(f" {self._number}_{each.term}{'' if each.prefix else ' '}", each.word) for each in sought]
        by_id = {row["id"]: row for row in found}
        for entry_id, share in shares.items():
            if (row := by_id.get(entry_id)) is None:
                continue  # it is damaged
            matched = {name: tuple(word for term, word in terms if term in row[f"in_{name}"]) for name in _INDEXED}
            yield Hit(
                _entry(row, self._lenient),
                share,
                {name: words for name, words in matched.items() if words},
                self._scope,
            )


def _condition(where: Filter) -> tuple[str, list[Any]]:
    """The conditions of a filter in SQL, with their values."""
    each: list[tuple[Any, ...]] = [
        (where.kinds, f"e.kind {_AMONG}", _text(where.kinds)),
        (where.projects is not None, f"e.project {_AMONG}", _text(where.projects)),
        (where.reasons, f"e.reason {_AMONG}", _text(where.reasons)),
        (
            where.tags,
            f"EXISTS(SELECT 1 FROM json_each({_TAGS}) tag WHERE fold(tag.value) {_AMONG})",
            _text(list(map(index_form, where.tags))),
        ),
        (where.agent_id is not None, "e.agent_id = ?", where.agent_id),
        (where.run_id is not None, "e.run_id = ?", where.run_id),
        (where.archived is not None, f"e.archived_ms IS {'NOT NULL' if where.archived else 'NULL'}"),
        (where.unexpired_at_ms is not None, "ifnull(e.expires_ms > ?, TRUE)", where.unexpired_at_ms),
        (where.expired_by_ms is not None, "e.expires_ms <= ?", where.expired_by_ms),
        (where.archived_by_ms is not None, "e.archived_ms <= ?", where.archived_by_ms),
        (where.text, "instr(lower(e.title || char(10) || e.body || char(10) || e.examples), lower(?))", where.text),
        (where.ref_prefix, "substr(e.ref, 1, length(?)) = ?", where.ref_prefix, where.ref_prefix),
    ]
    chosen = [(sql, values) for given, sql, *values in each if given]
    return " AND ".join(["TRUE", *(sql for sql, _ in chosen)]), [value for _, values in chosen for value in values]


def _entry(row: sqlite3.Row, lenient: bool = False) -> Entry:
    values = {name: row[name] for name in FIELDS}
    values |= {name: tuple(json_value(values[name], [], lenient)) for name in LISTS}
    return Entry(**values | {"metadata": json_value(values["metadata"], {}, lenient)})


def json_value(text: str, damaged: Any, lenient: bool) -> Any:
    """A value that was stored as JSON; `damaged` where it cannot be read. Raises sqlite3.DatabaseError: it cannot be
    read, and `lenient` is not set."""
    try:
        return orjson.loads(text)
    except ValueError as error:
        if lenient:
            return damaged
        raise schema.damaged(_("a value is not JSON: {reason}", error)) from error


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()

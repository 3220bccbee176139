"""Entries as rows: SQL on a connection, in the caller's thread and transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

import orjson

from memory_server.core.errors import InvalidInput
from memory_server.core.model import NOTHING
from memory_server.knowledge.entry import (
    FIELDS,
    LISTS,
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
    Scope,
    Share,
    changed_by_json,
    difference,
    json_of,
)
from memory_server.knowledge.ports import Committed, Decide
from memory_server.storage.entries import schema
from nlp.index_terms import Sought, index_form, signature, sought_in, terms_of

T = TypeVar("T")

_JSON = ("tags", "examples", "metadata")
COLUMNS = ", ".join(f"e.{name}" for name in FIELDS)
_INSERT = f"INSERT INTO entries({', '.join(FIELDS)}, scope) VALUES({', '.join(f':{name}' for name in FIELDS)}, :scope)"
_UPDATE = f"UPDATE entries SET {', '.join(f'{name} = :{name}' for name in FIELDS if name != 'id')} WHERE id = :id"
_ORDERS: Mapping[Order, str] = {
    "newest": "e.updated_ms DESC, e.id DESC",
    "oldest": "e.created_ms, e.id",
    "best": "e.confidence DESC, e.uses DESC, e.updated_ms DESC, e.id DESC",
    "title": "e.kind, e.title, e.id",
    "removed": "e.archived_ms DESC, e.id DESC",
}
_INDEXED = ("title", "tags", "body")
_WEIGHTS = "10, 4, 1"
"""Of these fields in BM25."""


class Held:
    """`ports.Held` on a connection; a scope that does not exist holds nothing."""

    def __init__(self, connection: sqlite3.Connection, scope_id: int | None) -> None:
        self._connection = connection
        self._scope_id = scope_id

    def get(self, *, id: int | None = None, ref: str | None = None, archived: bool | None = False) -> Entry | None:
        found = self._rows("(e.id = ? OR e.ref = ?)", [id, ref])
        return next((each for each in found if archived is None or (each.archived_ms is not None) == archived), None)

    def keyed(self, kind: str, project: str, key: str) -> Entry | None:
        where = "e.kind = ? AND e.project = ? AND e.key = ? AND e.archived_ms IS NULL"
        return next(iter(self._rows(where, [kind, project, key])), None)

    def entries(
        self, where: Filter, *, order: Order = "newest", limit: int | None = None, offset: int = 0
    ) -> list[Entry]:
        condition, values = _condition(where)
        ordered = f"{condition} ORDER BY {_ORDERS[order]} LIMIT ? OFFSET ?"
        return self._rows(ordered, [*values, -1 if limit is None else limit, offset])

    def count(self, where: Filter) -> int:
        condition, values = _condition(where)
        query = f"SELECT count(*) FROM entries e WHERE e.scope = ? AND {condition}"
        return int(self._connection.execute(query, (self._scope_id, *values)).fetchone()[0])

    def former(self, seq: int) -> list[Former]:
        rows = self._connection.execute(
            "SELECT c.entry, c.before, c.after_version FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE o.seq = ? AND o.scope = ? ORDER BY c.rowid",
            (seq, self._scope_id),
        )
        return [Former(row[0], None if row[1] is None else orjson.loads(row[1]), row[2]) for row in rows]

    def _rows(self, condition: str, values: Sequence[Any]) -> list[Entry]:
        query = f"SELECT {COLUMNS} FROM entries e WHERE e.scope = ? AND {condition}"
        return list(map(_entry, self._connection.execute(query, (self._scope_id, *values))))


def scope_id_of(connection: sqlite3.Connection, scope: Scope, *, make: bool = False) -> int | None:
    """The number of a scope; None if nothing was ever written to it."""
    if make:
        connection.execute("INSERT OR IGNORE INTO scopes(space, owner) VALUES(?, ?)", (scope.space, scope.owner))
    query = "SELECT id FROM scopes WHERE space = ? AND owner = ?"
    found = connection.execute(query, (scope.space, scope.owner)).fetchone()
    return None if found is None else int(found[0])


def held(connection: sqlite3.Connection, scope: Scope) -> Held:
    """What a decision about the scope may look at."""
    return Held(connection, scope_id_of(connection, scope))


def commit(
    connection: sqlite3.Connection,
    scope: Scope,
    decide: Decide[T],
    operation: Operation,
    clock: Callable[[], int],
    *,
    mirror: bool = False,
) -> Committed[T]:
    """Decide and store, in the caller's transaction. `mirror`: of entries that are kept elsewhere, so without history,
    and what is archived is searched too."""
    began = time.perf_counter()
    changes, result = decide(held(connection, scope))
    scope_id = scope_id_of(connection, scope, make=bool(changes))
    done = [_apply(connection, scope_id, change, mirror) for change in changes]
    formers = [former for _, former in done if former is not None]
    stored = tuple(after for after, _ in done if after is not None)
    if not formers or mirror:
        return Committed(result, stored, None)
    timed = replace(operation, took_ms=(time.perf_counter() - began) * 1000)
    seq = note(connection, scope_id, timed, [former[0] for former in formers], clock)
    connection.executemany("INSERT INTO changes VALUES(?, ?, ?, ?)", [(seq, *former) for former in formers])
    return Committed(result, stored, seq)


def note(
    connection: sqlite3.Connection,
    scope_id: int | None,
    operation: Operation,
    entries: Sequence[int],
    clock: Callable[[], int],
) -> int:
    """Store an operation; its number."""
    values = {name: getattr(operation, name) for name in ("op", "by", "error", "took_ms")}
    values |= {name: _text(dict(getattr(operation, name))) for name in ("caller", "detail")}
    values |= {"at_ms": operation.at_ms or clock(), "scope": scope_id, "entries": _text(list(entries))}
    statement = f"INSERT INTO operations({', '.join(values)}) VALUES({', '.join(f':{name}' for name in values)})"
    return connection.execute(statement, values).lastrowid or 0


def operations(
    connection: sqlite3.Connection, scope: Scope | None, before: int | None, limit: int
) -> list[tuple[Scope, Operation]]:
    """A page of what was done, newest first."""
    wanted = None if scope is None else scope_id_of(connection, scope)
    query = (
        "SELECT o.*, s.space, s.owner FROM operations o JOIN scopes s ON s.id = o.scope "
        "WHERE (? OR o.scope = ?) AND o.seq < ? ORDER BY o.seq DESC LIMIT ?"
    )
    found = connection.execute(query, (scope is None, wanted, before or 2**62, limit))
    return [(Scope(row["space"], row["owner"]), _operation(row)) for row in found]


def figures(connection: sqlite3.Connection, scope_id: int | None) -> Figures:
    """Counts of a scope."""
    row = connection.execute(
        "SELECT count(*) - count(archived_ms) count, count(archived_ms) archived, "
        "coalesce(sum(length(body)) FILTER (WHERE archived_ms IS NULL), 0) characters, "
        "min(created_ms) FILTER (WHERE archived_ms IS NULL) oldest_ms, "
        "max(updated_ms) FILTER (WHERE archived_ms IS NULL) newest_ms FROM entries WHERE scope = ?",
        (scope_id,),
    ).fetchone()
    return Figures(**dict(row))


def rebuild(connection: sqlite3.Connection) -> int:
    """Make the index anew; the number of live entries. A damaged index is mended too, since it is made and not
    emptied."""
    connection.execute("DROP TABLE terms")
    connection.execute(schema.TERMS)
    found = connection.execute(f"SELECT {COLUMNS}, e.scope FROM entries e WHERE archived_ms IS NULL")
    count = 0
    for row in found:
        _index(connection, row["scope"], _entry(row))
        count += 1
    connection.execute("UPDATE meta SET value = ? WHERE name = 'terms'", (signature(),))
    return count


def tidy(connection: sqlite3.Connection, texts_before_ms: int, operations_before_ms: int) -> None:
    """Forget former texts and operations of before, and merge the pieces of the index."""
    older = "operation IN (SELECT seq FROM operations WHERE at_ms < ?)"
    blank = f"UPDATE changes SET before = '{{}}' WHERE before IS NOT NULL AND {older}"
    connection.execute(blank, (texts_before_ms,))
    connection.execute(f"DELETE FROM changes WHERE {older}", (operations_before_ms,))
    connection.execute("DELETE FROM operations WHERE at_ms < ?", (operations_before_ms,))
    connection.execute("INSERT INTO terms(terms) VALUES('optimize')")


def _apply(
    connection: sqlite3.Connection, scope_id: int | None, change: Change, mirror: bool
) -> tuple[Entry | None, tuple[int, bytes | None, int] | None]:
    """The entry as it is stored, and the row that tells what it was before; None where nothing is different."""
    if isinstance(change, Purge):
        connection.execute("DELETE FROM terms WHERE rowid = ?", (change.id,))
        gone = connection.execute("DELETE FROM entries WHERE id = ? AND scope = ?", (change.id, scope_id)).rowcount
        connection.execute("UPDATE changes SET before = '{}' WHERE entry = ? AND before IS NOT NULL", (change.id,))
        return None, (change.id, b"{}", 0) if gone else None
    before = Held(connection, scope_id).get(id=change.id, archived=None) if change.id else None
    if before is None and change.id:
        raise InvalidInput("An entry of that number does not exist any more; read it again.")
    former = None if before is None else difference(before, change)
    if before is not None and not former:
        return before, None
    values = json_of(change) | {"version": 1 if before is None else before.version + 1, "scope": scope_id}
    values |= {name: _text(values[name]) for name in _JSON} | {"ref": change.ref or str(uuid4())}
    if before is None:
        values["id"] = connection.execute(_INSERT, values | {"id": None}).lastrowid
    else:
        connection.execute(_UPDATE, values)
    after = changed_by_json(change, {name: values[name] for name in ("id", "ref", "version")})
    if former is None or former.keys() & {"title", "tags", "body", "examples", "archived_ms"}:
        connection.execute("DELETE FROM terms WHERE rowid = ?", (after.id,))
        if mirror or after.archived_ms is None:
            _index(connection, scope_id, after)
    return after, (after.id, None if former is None else orjson.dumps(former), after.version)


def _index(connection: sqlite3.Connection, scope_id: int | None, entry: Entry) -> None:
    texts = (entry.title, "\n".join(entry.tags), "\n".join((entry.body, *entry.examples)))
    terms = (" ".join(f"{scope_id}_{term}" for term in terms_of(text)) for text in texts)
    connection.execute("INSERT INTO terms(rowid, title, tags, body) VALUES(?, ?, ?, ?)", (entry.id, *terms))


def _condition(where: Filter) -> tuple[str, list[Any]]:
    """The conditions of a filter in SQL, with their values."""

    def among(column: str, names: Sequence[str] | None) -> tuple[str, Sequence[str]]:
        return f"{column} IN ({', '.join('?' * len(names or ()))})", names or ()

    tags = among("fold(value)", tuple(map(index_form, where.tags)))
    archived = f"e.archived_ms IS {'NOT NULL' if where.archived else 'NULL'}"
    each: list[tuple[object, tuple[str, Sequence[Any]]]] = [
        (where.kinds, among("e.kind", where.kinds)),
        (where.projects is not None, among("e.project", where.projects)),
        (where.reasons, among("e.reason", where.reasons)),
        (where.tags, (f"EXISTS(SELECT 1 FROM json_each(e.tags) WHERE {tags[0]})", tags[1])),
        (where.agent_id is not None, ("e.agent_id = ?", [where.agent_id])),
        (where.run_id is not None, ("e.run_id = ?", [where.run_id])),
        (where.archived is not None, (archived, [])),
        (where.unexpired_at_ms is not None, ("ifnull(e.expires_ms > ?, TRUE)", [where.unexpired_at_ms])),
        (where.expired_by_ms is not None, ("e.expires_ms <= ?", [where.expired_by_ms])),
        (where.archived_by_ms is not None, ("e.archived_ms <= ?", [where.archived_by_ms])),
        (where.text, ("instr(lower(e.title || char(10) || e.body || char(10) || e.examples), lower(?))", [where.text])),
        (where.ref_prefix, ("substr(e.ref, 1, length(?)) = ?", [where.ref_prefix] * 2)),
    ]
    chosen = [condition for given, condition in each if given]
    return " AND ".join(["TRUE", *(sql for sql, _ in chosen)]), [value for _, values in chosen for value in values]


def search(connection: sqlite3.Connection, scope_id: int | None, query: Query) -> Hits:
    if scope_id is None:
        return Hits()
    sought = sought_in(query.text)
    ranked, left_off = _matching(connection, scope_id, query.where, _match(scope_id, sought)) if sought else ([], {})
    if not ranked and not left_off:
        as_written, held = replace(query.where, text=query.text.strip()), Held(connection, scope_id)
        found = held.entries(as_written, limit=query.limit)
        return Hits(tuple(Hit(entry, 1.0, NOTHING) for entry in found), held.count(as_written))
    best = ranked[0][1] if ranked else 0.0
    strong = [each for each in ranked if each[1] / best >= query.least_share]
    if weaker := len(ranked) - len(strong):
        left_off["weaker"] = weaker
    shown = {entry_id: score / best for entry_id, score in strong[: query.limit]}
    return Hits(tuple(_hits(connection, scope_id, shown, sought)), len(strong), left_off)


def shares(connection: sqlite3.Connection, scope_id: int | None, query: Query) -> list[Share]:
    """Which terms of the query each live entry holds in each field."""
    if scope_id is None:
        return []
    held: dict[int, list[int]] = {}
    for number, sought in enumerate(sought_in(query.text)):
        for place, column in enumerate(_INDEXED):
            match = f"{column} : {_match(scope_id, [sought])}"
            for (entry_id,) in connection.execute("SELECT rowid FROM terms WHERE terms MATCH ?", (match,)):
                held.setdefault(entry_id, [0, 0, 0])[place] |= 1 << number
    condition, values = _condition(query.where)
    rows = connection.execute(
        f"SELECT e.id, e.created_ms, e.importance FROM entries e WHERE e.scope = ? AND {condition}", (scope_id, *values)
    )
    return [Share(*row, *held[row[0]]) for row in rows if row[0] in held]


def _match(scope_id: int, sought: Sequence[Sought]) -> str:
    return " OR ".join(f'"{scope_id}_{each.term}"{" *" if each.prefix else ""}' for each in sought)


def _matching(
    connection: sqlite3.Connection, scope_id: int, where: Filter, match: str
) -> tuple[list[tuple[int, float]], dict[str, int]]:
    """Ids with their scores, best first, and the counts of matches that are hidden."""
    hidden = {
        "expired": Filter(archived=None, unexpired_at_ms=where.unexpired_at_ms),
        "other project": Filter(archived=None, projects=where.projects),
    }
    condition, values = _condition(replace(where, projects=None, unexpired_at_ms=None))
    cases, given = "", []
    for reason, shown in hidden.items():
        met, needed = _condition(shown)
        cases += f" WHEN NOT ({met}) THEN '{reason}'"
        given += needed
    rows = connection.execute(
        f"SELECT e.id, bm25(terms, {_WEIGHTS}) score, CASE{cases} ELSE '' END hidden "
        f"FROM terms JOIN entries e ON e.id = terms.rowid WHERE terms MATCH ? AND e.scope = ? AND {condition} "
        "ORDER BY score, e.updated_ms DESC, e.id DESC",
        (*given, match, scope_id, *values),
    ).fetchall()
    left_off: dict[str, int] = {}
    for row in rows:
        if row["hidden"]:
            left_off[row["hidden"]] = left_off.get(row["hidden"], 0) + 1
    return [(row["id"], row["score"]) for row in rows if not row["hidden"]], left_off


def _hits(
    connection: sqlite3.Connection, scope_id: int, shares: Mapping[int, float], sought: Sequence[Sought]
) -> Iterator[Hit]:
    """The entries of `shares` in its order, each with the words of the query that its fields hold."""
    found = connection.execute(
        f"SELECT {COLUMNS}, ' ' || t.title || ' ' in_title, ' ' || t.tags || ' ' in_tags, ' ' || t.body || ' ' in_body "
        f"FROM entries e JOIN terms t ON t.rowid = e.id WHERE e.id IN ({', '.join('?' * len(shares))})",
        tuple(shares),
    )
    terms = [(f" {scope_id}_{each.term}{'' if each.prefix else ' '}", each.word) for each in sought]
    by_id = {row["id"]: row for row in found}
    for entry_id, share in shares.items():
        row = by_id[entry_id]
        fields = {name: row[f"in_{name}"] for name in _INDEXED}
        matched = {name: tuple(word for term, word in terms if term in text) for name, text in fields.items()}
        yield Hit(_entry(row), share, {name: words for name, words in matched.items() if words})


def _entry(row: sqlite3.Row) -> Entry:
    values = {name: row[name] for name in FIELDS}
    metadata = orjson.loads(values["metadata"])
    return Entry(**values | {name: tuple(orjson.loads(values[name])) for name in LISTS} | {"metadata": metadata})


def _operation(row: sqlite3.Row) -> Operation:
    values = {name: row[name] for name in ("op", "by", "at_ms", "error", "took_ms", "seq")}
    values |= {name: orjson.loads(row[name]) for name in ("caller", "detail")}
    return Operation(**values, entries=tuple(orjson.loads(row["entries"])))


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()

"""What is done to entries, in the caller's transaction: a commit with its note, the notes of the past, and what
time and repairs do to all of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from memory_server.kernel.erasure import Erasure
from memory_server.kernel.scopes import KEY_BYTES, Scope, Space, vector_key
from memory_server.knowledge.entry import Operation
from memory_server.knowledge.ports import Committed, Decide, Later
from memory_server.storage.entries.database import Database

T = TypeVar("T")
_TEXTS = ("title", "body", "tags", "examples", "metadata", "source", "key")
"""The columns of an entry with what people said, and those of them that hold JSON."""
_JSON = ("tags", "examples", "metadata")
_CHANGED = "INSERT INTO changes(operation, entry, before, after_version) VALUES(?, ?, ?, ?)"
_VECTOR_MS = 86_400_000
"""A vector that no live entry has, such as that of a query, is kept for a day."""


def commit(
    connection: Database,
    scope: Scope,
    decide: Decide[T],
    operation: Operation,
    embeds: str = "",
    *,
    mirror: bool = False,
) -> Committed[T]:
    """Decide and store, in the caller's transaction. `mirror`: of entries that are kept elsewhere, so without history,
    and what is archived is searched too."""
    began = time.perf_counter()
    changes, result = decide(connection.view(scope, embeds))
    held = connection.view(scope, embeds, make=bool(changes))
    done = [held.apply(change, mirror=mirror) for change in changes]
    formers = [former for _, former in done if former is not None]
    stored = tuple(after for after, _ in done if after is not None)
    if not formers or mirror:
        return Committed(result, stored, None)
    took_ms = (operation.took_ms or 0.0) + (time.perf_counter() - began) * 1000
    seq = held.log_operation(replace(operation, took_ms=took_ms), [former[0] for former in formers])
    connection.executemany(_CHANGED, [(seq, *former) for former in formers])
    return Committed(result, stored, seq)


def operations(
    connection: Database, scope: Scope | None, before: int | None, limit: int, caller: Mapping[str, str]
) -> list[tuple[Scope, Operation]]:
    """A page of what was done, newest first."""
    chosen, read = scope or Scope("notes"), connection.json_of
    of_caller = "".join(f" AND {connection.field('o.caller', name)} = :{name}" for name in caller)
    rows = connection.execute(
        "SELECT s.space, s.owner, o.op, o.by, o.at_ms, o.caller, o.entries, o.error, o.took_ms, o.detail, o.seq "
        "FROM operations o JOIN scopes s ON s.id = o.scope "
        f"WHERE (:any OR (s.space = :space AND s.owner = :owner)) AND o.seq < :before{of_caller} "
        "ORDER BY o.seq DESC LIMIT :limit",
        {"any": scope is None, "space": chosen.space, "owner": chosen.owner, "before": before or 2**62, "limit": limit}
        | dict(caller),
    )
    return [
        (
            Scope(space, owner),
            Operation(
                op,
                by,
                at_ms,
                read(caller, {}),
                tuple(read(entries, [])),
                error,
                took_ms,
                read(detail, {}),
                seq,
            ),
        )
        for space, owner, op, by, at_ms, caller, entries, error, took_ms, detail, seq in rows
    ]


def scopes(connection: Database, space: Space | None = None) -> list[Scope]:
    """The scopes, or those of one space."""
    query = "SELECT space, owner FROM scopes WHERE ? IN ('', space) ORDER BY space, owner"
    return [Scope(row[0], row[1]) for row in connection.execute(query, (space or "",))]


def rebuild(connection: Database) -> int:
    """Make the index again; the number of live entries."""
    connection.empty_index()
    count = 0
    for scope in scopes(connection):
        held = connection.view(scope)
        for entry in held.rows("e.archived_ms IS NULL", []):
            held.index(entry)
            count += 1
    return count


def erase(connection: Database, erasure: Erasure, *, past: bool = False) -> None:
    """Delete what is erased from all tables. Of the `past`, such as a former copy, also entries that hold a text of it:
    nobody could see and name those."""
    execute, read = connection.execute, connection.json_of
    columns = ", ".join(f"e.{name}" for name in _TEXTS)
    rows = execute(
        f"SELECT e.id, e.ref, e.vector_key, s.space, s.owner, {columns} FROM entries e JOIN scopes s ON s.id = e.scope"
    )
    entries: dict[int, dict[str, Any]] = {}
    for number, ref, vector, space, owner, *values in rows.fetchall():
        place = "/".join(filter(None, (space, owner)))
        entry = dict(zip(_TEXTS, values, strict=True))
        entry |= {name: read(entry[name], []) for name in _JSON}
        if {ref, str(number)} & erasure.in_place(place) or (past and erasure.held_in(entry)):
            execute("DELETE FROM vectors WHERE key = ?", (vector,))
            connection.view(Scope(space, owner)).unindex(number)
            execute("DELETE FROM entries WHERE id = ?", (number,))
            execute("UPDATE changes SET before = '{}' WHERE entry = ? AND before NOTNULL", (number,))
        else:
            entries[number] = entry
    for item in erasure.items:
        if item.family == "memories":
            key = vector_key("", Scope("conversations", item.place), item.text)[4:]
            execute("DELETE FROM vectors WHERE substr(key, 5) = ?", (key,))
    _erase_changes(connection, erasure, entries)
    for seq, caller, detail, error in execute("SELECT seq, caller, detail, error FROM operations").fetchall():
        if erasure.held_in([read(caller, {}), read(detail, {}), error]):
            execute("UPDATE operations SET caller = '{}', detail = '{}', error = NULL WHERE seq = ?", (seq,))
    for place, key in execute("SELECT place, key FROM uses").fetchall():
        if erasure.held_in(key):
            execute("DELETE FROM uses WHERE place = ? AND key = ?", (place, key))
    if erasure.user is not None:
        of_user = "(SELECT id FROM scopes WHERE space = 'sessions' AND owner = ?)"
        execute(
            f"DELETE FROM changes WHERE operation IN (SELECT seq FROM operations WHERE scope IN {of_user})",
            (erasure.user,),
        )
        execute(f"DELETE FROM operations WHERE scope IN {of_user}", (erasure.user,))
        execute(f"DELETE FROM scopes WHERE id IN {of_user} AND id NOT IN (SELECT scope FROM entries)", (erasure.user,))


def _erase_changes(connection: Database, erasure: Erasure, entries: dict[int, dict[str, Any]]) -> None:
    """Take what is erased out of the texts that entries had before. A change keeps only what it replaced, so each entry
    is followed back, from the one that is there now."""
    rows = connection.execute(
        "SELECT rowid, entry, before FROM changes WHERE before NOTNULL ORDER BY operation DESC, rowid DESC"
    )
    for number, entry, before in rows.fetchall():
        replaced = connection.json_of(before, {})
        former = {"body": "", **entries.get(entry, {}), **replaced}
        entries[entry] = former
        has_texts = not replaced.keys().isdisjoint(_TEXTS)
        if erasure.held_in(replaced) or (has_texts and erasure.held_in(former)):
            connection.execute("UPDATE changes SET before = '{}' WHERE rowid = ?", (number,))


def complete(
    source: Database, present: Database | None, scope: Scope, operation: Operation, later: Later | None, embeds: str
) -> int:
    """Make a copy ready to take the place of the store that is `present`: with the note of `operation`, whose number is
    returned, and with what `later` brings over of each scope."""
    number = source.view(scope, make=True).log_operation(operation, ())
    if present is not None and later is not None:
        kept = replace(operation, op="keep", detail={})
        for each in dict.fromkeys((*scopes(present), *scopes(source))):
            commit(source, each, partial(later, present.view(each, embeds)), kept, embeds)
    return number


def tidy(connection: Database, texts_before_ms: int, operations_before_ms: int, now_ms: int) -> None:
    """Forget former texts and operations that are older than these times, vectors of no live entry, and scopes of which
    nothing is left, and merge the pieces of the index."""
    unused = "key NOT IN (SELECT vector_key FROM entries WHERE vector_key NOTNULL AND archived_ms IS NULL)"
    older = f"DELETE FROM vectors WHERE length(key) = ? AND used_ms < ? AND {unused}"
    connection.execute(older, (KEY_BYTES["sessions"], now_ms - _VECTOR_MS))
    older = "operation IN (SELECT seq FROM operations WHERE at_ms < ?)"
    blank = f"UPDATE changes SET before = '{{}}' WHERE before IS NOT NULL AND {older}"
    connection.execute(blank, (texts_before_ms,))
    connection.execute(f"DELETE FROM changes WHERE {older}", (operations_before_ms,))
    for table in ("operations", "model_calls"):
        connection.execute(f"DELETE FROM {table} WHERE at_ms < ?", (operations_before_ms,))
    connection.execute(
        "DELETE FROM scopes WHERE id NOT IN (SELECT scope FROM entries) AND id NOT IN (SELECT scope FROM operations)"
    )
    connection.merge_index()

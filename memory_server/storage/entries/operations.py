"""What is done to entries, in the caller's transaction: a commit with its note, the notes of the past, and what
time and repairs do to all of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
"""The columns of an entry with what people said."""
_JSON = ("tags", "examples", "metadata")
"""Those of them that hold JSON."""
_CHANGED = "INSERT INTO changes(operation, entry, before, after_version) VALUES(?, ?, ?, ?)"
_VECTOR_MS = 86_400_000
"""A vector without a live entry, such as the vector of a query, is kept for a day."""


def commit(
    connection: Database,
    scope: Scope,
    decide: Decide[T],
    operation: Operation,
    embeds: str = "",
    *,
    mirror: bool = False,
) -> Committed[T]:
    """Decide and store, in the caller's transaction. With `mirror` the entries are kept elsewhere: no history is
    written, and archived entries are searched too."""
    began = time.perf_counter()
    changes, result = decide(connection.view(scope, embeds))
    view = connection.view(scope, embeds, make=bool(changes))
    applied_changes = [view.apply(change, mirror=mirror) for change in changes]
    formers = [applied.former for applied in applied_changes if applied.former is not None]
    stored = tuple(applied.entry for applied in applied_changes if applied.entry is not None)
    # An operation that changed nothing is not written to the history.
    if not formers or mirror:
        return Committed(result, stored, None)
    took_ms = (operation.took_ms or 0.0) + (time.perf_counter() - began) * 1000
    seq = view.log_operation(
        replace(operation, took_ms=took_ms), [former.entry_id for former in formers]
    )
    connection.executemany(_CHANGED, [(seq, *former) for former in formers])
    return Committed(result, stored, seq)


def operations(
    connection: Database,
    scope: Scope | None,
    before: int | None,
    limit: int,
    caller: Mapping[str, str],
) -> list[tuple[Scope, Operation]]:
    """Return a page of what was done, newest first."""
    of_caller = "".join(f" AND {connection.field('o.caller', name)} = :{name}" for name in caller)
    statement = (
        "SELECT s.space, s.owner, o.op, o.by, o.at_ms, o.caller, o.entries, o.error, o.took_ms, o.detail, o.seq "
        "FROM operations o JOIN scopes s ON s.id = o.scope "
        f"WHERE (:any OR (s.space = :space AND s.owner = :owner)) AND o.seq < :before{of_caller} "
        "ORDER BY o.seq DESC LIMIT :limit"
    )
    searched_scope = scope or Scope("notes")
    values = {
        "any": scope is None,
        "space": searched_scope.space,
        "owner": searched_scope.owner,
        "before": before or 2**62,
        "limit": limit,
        **caller,
    }
    return [_operation_of(connection, row) for row in connection.execute(statement, values)]


def _operation_of(connection: Database, row: Sequence[Any]) -> tuple[Scope, Operation]:
    space, owner, op, by, at_ms, caller, entries, error, took_ms, detail, seq = row
    operation = Operation(
        op,
        by,
        at_ms=at_ms,
        caller=_typed(connection.json_of(caller, {}), {}),
        entries=tuple(_typed(connection.json_of(entries, []), [])),
        error=error,
        took_ms=took_ms,
        detail=_typed(connection.json_of(detail, {}), {}),
        seq=seq,
    )
    return Scope(space, owner), operation


def _typed(value: T, usual: T) -> T:
    """Return a value, or the usual value if it is of another type."""
    return value if isinstance(value, type(usual)) else usual


def scopes(connection: Database, space: Space | None = None) -> list[Scope]:
    """List the scopes, or the scopes of `space`."""
    query = "SELECT space, owner FROM scopes WHERE ? IN ('', space) ORDER BY space, owner"
    return [Scope(row[0], row[1]) for row in connection.execute(query, (space or "",))]


def rebuild(connection: Database) -> int:
    """Make the index again; the number of live entries."""
    connection.empty_index()
    count = 0
    for scope in scopes(connection):
        view = connection.view(scope)
        for entry in view.rows("e.archived_ms IS NULL", []):
            view.index(entry)
            count += 1
    return count


def erase(connection: Database, erasure: Erasure, *, past: bool = False) -> None:
    """Delete what is erased from all tables. With `past` this is a former copy: its entries that hold an erased text
    go too, because people cannot see them there and name them."""
    entries = _erase_entries(connection, erasure, past=past)
    for item in erasure.items:
        # The vector of a memory of a conversation has no entry, so it is found by its text, with any model.
        if item.family == "memories":
            key = vector_key("", Scope("conversations", item.place), item.text)[4:]
            connection.execute("DELETE FROM vectors WHERE substr(key, 5) = ?", (key,))
    _erase_changes(connection, erasure, entries)
    _erase_operations(connection, erasure)
    for place, key in connection.execute("SELECT place, key FROM uses").fetchall():
        if erasure.held_in(key):
            connection.execute("DELETE FROM uses WHERE place = ? AND key = ?", (place, key))
    if erasure.user is not None:
        _erase_user(connection, erasure.user)


def _erase_entries(
    connection: Database, erasure: Erasure, *, past: bool
) -> dict[int, dict[str, Any]]:
    """Delete the entries that are erased; the texts of the others, by id."""
    columns = ", ".join(f"e.{name}" for name in _TEXTS)
    rows = connection.execute(
        f"SELECT e.id, e.ref, e.vector_key, s.space, s.owner, {columns} FROM entries e JOIN scopes s ON s.id = e.scope"
    )
    entries: dict[int, dict[str, Any]] = {}
    for entry_id, ref, vector, space, owner, *values in rows.fetchall():
        place = "/".join(filter(None, (space, owner)))
        texts = dict(zip(_TEXTS, values, strict=True))
        for name in _JSON:
            texts[name] = connection.json_of(texts[name], [])

        # The text of an entry can be elsewhere too: only the named entry goes, unless `past`.
        is_named = bool({ref, str(entry_id)} & erasure.in_place(place))
        if not is_named and not (past and erasure.held_in(texts)):
            entries[entry_id] = texts
            continue

        connection.execute("DELETE FROM vectors WHERE key = ?", (vector,))
        connection.view(Scope(space, owner)).unindex(entry_id)
        connection.execute("DELETE FROM entries WHERE id = ?", (entry_id,))
        connection.execute(
            "UPDATE changes SET before = '{}' WHERE entry = ? AND before NOTNULL", (entry_id,)
        )

    return entries


def _erase_operations(connection: Database, erasure: Erasure) -> None:
    """Take what is erased out of what operations say of their callers, details and errors."""
    blank = "UPDATE operations SET caller = '{}', detail = '{}', error = NULL WHERE seq = ?"
    for seq, caller, detail, error in connection.execute(
        "SELECT seq, caller, detail, error FROM operations"
    ).fetchall():
        values = [connection.json_of(caller, {}), connection.json_of(detail, {}), error]
        if erasure.held_in(values):
            connection.execute(blank, (seq,))


def _erase_user(connection: Database, user: str) -> None:
    """Delete the past of a user, and the scope unless it still has entries."""
    scopes_of_user = "(SELECT id FROM scopes WHERE space = 'sessions' AND owner = ?)"
    for statement in (
        f"DELETE FROM changes WHERE operation IN (SELECT seq FROM operations WHERE scope IN {scopes_of_user})",
        f"DELETE FROM operations WHERE scope IN {scopes_of_user}",
        f"DELETE FROM scopes WHERE id IN {scopes_of_user} AND id NOT IN (SELECT scope FROM entries)",
    ):
        connection.execute(statement, (user,))


def _erase_changes(
    connection: Database, erasure: Erasure, entries: dict[int, dict[str, Any]]
) -> None:
    """Take what is erased out of the texts that entries had before. A change keeps only what it replaced, so each
    entry is followed back from its present form."""
    rows = connection.execute(
        "SELECT rowid, entry, before FROM changes WHERE before NOTNULL ORDER BY operation DESC, rowid DESC"
    )
    for row_id, entry_id, before in rows.fetchall():
        replaced = _typed(connection.json_of(before, {}), {})
        former = {"body": "", **entries.get(entry_id, {}), **replaced}
        entries[entry_id] = former
        has_texts = not replaced.keys().isdisjoint(_TEXTS)
        # The words of an erased text may be in two fields, of which a change replaced only one.
        if erasure.held_in(replaced) or (has_texts and erasure.held_in(former)):
            connection.execute("UPDATE changes SET before = '{}' WHERE rowid = ?", (row_id,))


def complete(
    source: Database,
    present: Database | None,
    scope: Scope,
    operation: Operation,
    later: Later | None,
    embeds: str,
) -> int:
    """Make a copy ready to replace the store `present`: add the note of `operation`, and what `later` brings over of
    each scope. Return the number of the operation."""
    number = source.view(scope, make=True).log_operation(operation, ())
    if present is None or later is None:
        return number
    # The copy is older than the store: what is newer must not be lost with it.
    keep = replace(operation, op="keep", detail={})
    for own_scope in dict.fromkeys((*scopes(present), *scopes(source))):
        decide = partial(later, present.view(own_scope, embeds))
        commit(source, own_scope, decide=decide, operation=keep, embeds=embeds)
    return number


def tidy(
    connection: Database, texts_before_ms: int, operations_before_ms: int, now_ms: int
) -> None:
    """Forget former texts and operations that are older than these times, vectors of no live entry, and scopes of which
    nothing is left, and merge the pieces of the index."""
    unused = "key NOT IN (SELECT vector_key FROM entries WHERE vector_key NOTNULL AND archived_ms IS NULL)"
    connection.execute(
        f"DELETE FROM vectors WHERE length(key) = ? AND used_ms < ? AND {unused}",
        (KEY_BYTES["sessions"], now_ms - _VECTOR_MS),
    )
    # A change is kept longer than the text before it: it still tells that an entry changed.
    of_older_operation = "operation IN (SELECT seq FROM operations WHERE at_ms < ?)"
    connection.execute(
        f"UPDATE changes SET before = '{{}}' WHERE before IS NOT NULL AND {of_older_operation}",
        (texts_before_ms,),
    )
    connection.execute(f"DELETE FROM changes WHERE {of_older_operation}", (operations_before_ms,))
    for table in ("operations", "model_calls"):
        connection.execute(f"DELETE FROM {table} WHERE at_ms < ?", (operations_before_ms,))

    connection.execute(
        "DELETE FROM scopes WHERE id NOT IN (SELECT scope FROM entries) AND id NOT IN (SELECT scope FROM operations)"
    )
    connection.merge_index()

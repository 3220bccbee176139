"""What every `EntryStore` on a database does: each call is a reading or a writing transaction.

The functions above the class are what is done in the caller's transaction: a commit with its note, the notes of the
past, vectors, and what time and repairs do to all of it.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from languages import Sentence, _
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import InvalidInput, StorageError, StorageUnwritable
from memory_server.kernel.items import KEY_BYTES, Scope, Space, vector_key
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.meter import Meter
from memory_server.kernel.text import Finding
from memory_server.kernel.times import moment_of
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge.entry import Operation
from memory_server.knowledge.ports import (
    REPLACED,
    Committed,
    Decide,
    Later,
    ModelCall,
    ScopeView,
)

if TYPE_CHECKING:
    from memory_server.storage.entries.rows import ScopeRows


# --- a database --------------------------------------------------------------------------------------------------

# What the statements about entries need of a database: SQLite and PostgreSQL have it.


class Database(Protocol):
    """A connection to a database of entries, in a transaction. Statements have `?` or `:name` for their values."""

    def execute(self, statement: str, values: Any = (), /) -> Any:
        """Return the rows of a statement, as a cursor of the DB-API."""

    def executemany(self, statement: str, values: Any, /) -> Any: ...
    def insert(self, table: Literal["entries", "operations"], values: Mapping[str, Any]) -> int:
        """Store a row, and give it the next number of its table."""

    def view(self, scope: Scope, embeds: str = "", *, make: bool = False) -> ScopeRows: ...
    def json_of(self, text: str | bytes, damaged: Any) -> Any:
        """Parse a value that was stored as JSON. Return `damaged` if it cannot be read, and such values are shown."""

    def field(self, column: str, name: str) -> str:
        """Return the SQL of a text in a column of JSON."""

    def empty_index(self) -> None:
        """Nothing of deleted entries is left in it; it is of the normal form of this process."""

    def merge_index(self) -> None:
        """Merge the pieces of the index."""


# --- vectors, as rows beside the entries ---------------------------------------------------------------------------


def known_vectors(
    connection: Database, embeds: str, scope: Scope, texts: Sequence[str]
) -> dict[str, bytes]:
    """Return the known vectors by their texts; a text without a vector is left out."""
    query = "SELECT vector FROM vectors WHERE key = ?"
    vectors: dict[str, bytes] = {}
    for text in texts:
        row = connection.execute(query, (vector_key(embeds, scope, text),)).fetchone()
        if row is not None:
            vectors[text] = row[0]
    return vectors


def without_vector(connection: Database, embeds: str, limit: int) -> list[tuple[Scope, str]]:
    """List texts of memories of users without a vector, newest first. Before that, set the keys of another model and
    the keys that a process without a model left out, and remove vectors of another length than the newest."""
    live = "e.archived_ms IS NULL AND s.space = 'sessions'"
    of_other_model = (
        "SELECT e.id, s.space, s.owner, e.body FROM entries e JOIN scopes s ON s.id = e.scope "
        f"WHERE {live} AND (e.vector_key IS NULL OR substr(e.vector_key, 1, 4) != ?)"
    )
    model_mark = vector_key(embeds)
    keys = []
    for entry_id, space, owner, body in connection.execute(
        of_other_model, (model_mark,)
    ).fetchall():
        keys.append((vector_key(embeds, Scope(space, owner), body), entry_id))

    connection.executemany("UPDATE entries SET vector_key = ? WHERE id = ?", keys)
    _forget_other_lengths(connection, model_mark)
    missing = (
        "SELECT s.space, s.owner, e.body FROM entries e JOIN scopes s ON s.id = e.scope "
        "WHERE e.id IN (SELECT max(e.id) FROM entries e JOIN scopes s ON s.id = e.scope "
        f"LEFT JOIN vectors v ON v.key = e.vector_key WHERE {live} AND v.key IS NULL GROUP BY e.vector_key) "
        "ORDER BY e.id DESC LIMIT ?"
    )
    return [
        (Scope(space, owner), body) for space, owner, body in connection.execute(missing, (limit,))
    ]


def _forget_other_lengths(connection: Database, mark: bytes) -> None:
    """Remove the vectors of a model that have another length than the newest."""
    of_model = "substr(key, 1, 4) = :mark AND length(vector) > 0"
    newest = f"SELECT length(vector) FROM vectors WHERE {of_model} ORDER BY used_ms DESC LIMIT 1"
    connection.execute(
        f"DELETE FROM vectors WHERE {of_model} AND length(vector) != ({newest})", {"mark": mark}
    )


def forget_vectors(
    connection: Database, embeds: str, live: Iterable[tuple[Scope, str]], before_ms: int
) -> None:
    """Remove the vectors of conversations that were made before that time and are of no live text, and vectors of
    another length than the newest."""
    _forget_other_lengths(connection, vector_key(embeds))
    older = "SELECT key FROM vectors WHERE length(key) = ? AND used_ms < ?"
    rows = connection.execute(older, (KEY_BYTES["conversations"], before_ms)).fetchall()
    old_keys = {bytes(row[0]) for row in rows}
    live_keys = {vector_key(embeds, scope, text) for scope, text in live}
    connection.executemany(
        "DELETE FROM vectors WHERE key = ?", [(key,) for key in old_keys - live_keys]
    )


# --- entries and their past --------------------------------------------------------------------------------------

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
    """Decide, and store the changes in order in the caller's transaction. Return the result, the entries as they are
    now stored (also the ones that did not differ; none for an archived or purged one), and the number of the operation:
    None if nothing is different, or with `mirror`, which writes no history and indexes archived entries too. Archiving
    or purging an entry that is gone changes nothing. Raises InvalidInput if an entry to replace does not exist any
    more; the caller then rolls back."""
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
    """Return the scope and the operation of a row. A JSON value of a wrong type counts as empty.
    Raises as `json_of` does if a value is not JSON."""
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
    """Make the index again, and return the number of live entries."""
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
    """Delete the entries that are erased, with their vectors and their past: the named ones,
    and with `past` every entry that holds an erased text. Return the texts of the others by their ids."""
    columns = ", ".join(f"e.{name}" for name in _TEXTS)
    rows = connection.execute(
        f"SELECT e.id, e.ref, e.vector_key, s.space, s.owner, {columns} FROM entries e JOIN scopes s ON s.id = e.scope"
    )
    entries: dict[int, dict[str, Any]] = {}
    for entry_id, ref, vector, space, owner, *values in rows.fetchall():
        scope = "/".join(filter(None, (space, owner)))
        texts = dict(zip(_TEXTS, values, strict=True))
        for name in _JSON:
            texts[name] = connection.json_of(texts[name], [])

        # The text of an entry can be elsewhere too: only the named entry goes, unless `past`.
        is_named = bool({ref, str(entry_id)} & erasure.in_place(scope))
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
    former: Path | None,
) -> int:
    """Make a copy ready to replace the store `present`: add the note of `operation`, with the copy of what was there
    before (`former`), and what `later` brings over of each scope. Return the number of the operation."""
    if former is not None:
        operation = replace(operation, detail={**operation.detail, REPLACED: str(former)})
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


T = TypeVar("T")
D = TypeVar("D", bound=Database)
_TOUCH_SECONDS = 1.0
"""How long noting a use or a search waits for other writers: a caller that only reads must not wait for them."""


# --- the store ---------------------------------------------------------------------------------------------------


@frozen
class _Statement:
    """A statement, and the rows of values for which it is executed."""

    sql: str
    rows: Sequence[Sequence[object]]


@dataclass(eq=False)
class DatabaseStore(Generic[D]):
    """Entries in a database. With `mirror` the entries are kept elsewhere: no history is written, and archived
    entries are searched too. `embeds`: the model of the vectors."""

    place: Path | None
    clock: Callable[[], int]
    _: KW_ONLY
    wait_seconds: float = 10.0
    read_only: bool = False
    mirror: bool = False
    embeds: str = ""
    meter: Meter = field(default_factory=Meter)
    erased: Callable[[Iterable[str]], bool] = lambda _texts: False

    @abstractmethod
    async def _read(self, read: Callable[[D], T]) -> T:
        """Return the result of `read`, which runs in a thread and sees one moment."""

    @abstractmethod
    def _findings(self, connection: D) -> list[Finding]:
        """Return what `examine` finds; nothing for a store that was never written."""

    @abstractmethod
    async def _write(self, write: Callable[[D], T], wait_seconds: float | None = None) -> T:
        """Return the result of `write`, which runs in a transaction that excludes other writers. `wait_seconds`: how
        long it waits for other writers (default: `wait_seconds` of the store)."""

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        """Decide and store the changes in one transaction, with the present time on an operation
        without one. Raises StorageError if the store is read-only or cannot be written."""
        dated = self._dated(operation)

        def write(connection: D) -> Committed[T]:
            return commit(
                connection,
                scope,
                decide=decide,
                operation=dated,
                embeds=self.embeds,
                mirror=self.mirror,
            )

        return await self._write(write)

    async def read(self, scope: Scope, read: Callable[[ScopeView], T]) -> T:
        return await self._read(lambda connection: read(connection.view(scope, self.embeds)))

    async def count_use(self, ids: Sequence[int], at_ms: int) -> None:
        statement = "UPDATE entries SET uses = uses + 1, accessed_ms = ? WHERE id = ?"
        rows = [(at_ms, entry_id) for entry_id in ids]
        await self._write_in_passing(_Statement(statement, rows))

    async def log_operation(
        self, scope: Scope, operation: Operation, *, passing: bool = False
    ) -> int:
        """Store an operation that changed no entry, and return its number, or 0 if the store is
        read-only. With `passing`, it raises LockTimeout after `_TOUCH_SECONDS` of waiting for other
        writers."""
        if self.read_only:
            return 0
        dated = self._dated(operation)
        wait_seconds = None  # None: as long as for other writes
        if passing:
            wait_seconds = _TOUCH_SECONDS

        def write(connection: D) -> int:
            scope_view = connection.view(scope, make=True)
            return scope_view.log_operation(dated, operation.entries)

        return await self._write(write, wait_seconds)

    async def operations(
        self,
        scope: Scope | None = None,
        *,
        before: int | None = None,
        limit: int = 50,
        caller: Mapping[str, str] = NOTHING,
    ) -> list[tuple[Scope, Operation]]:
        """Return at most `limit` operations of a scope, or of all, the newest first: those with a
        number below `before`, by callers with the values of `caller`."""
        return await self._read(
            lambda connection: operations(
                connection, scope, before=before, limit=limit, caller=caller
            )
        )

    async def note_call(self, call: ModelCall) -> None:
        statement = "INSERT INTO model_calls VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
        await self._write_in_passing(_Statement(statement, [call]))

    async def tokens(self, since_ms: int, until_ms: int) -> int:
        """Return how many tokens the calls of models took between these times."""
        query = "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM model_calls WHERE at_ms BETWEEN ? AND ?"

        def read(connection: D) -> int:
            (tokens,) = connection.execute(query, (since_ms, until_ms)).fetchone()
            return int(tokens)

        return await self._read(read)

    async def scopes(self, space: Space | None = None) -> list[Scope]:
        return await self._read(lambda c: scopes(c, space))

    async def rebuild(self) -> int:
        return await self._write(rebuild)

    async def tidy(self, *, texts_before_ms: int, operations_before_ms: int) -> None:
        """Do as the function `tidy`; nothing for a store that was never written."""
        if await self.scopes():
            await self._write(
                lambda c: tidy(
                    c,
                    texts_before_ms,
                    operations_before_ms=operations_before_ms,
                    now_ms=self.clock(),
                )
            )

    async def uses(self, place: str) -> dict[str, tuple[int, int]]:
        """Return when each key of a place was last used, in milliseconds since 1970, and how often."""
        query = "SELECT key, accessed_ms, count FROM uses WHERE place = ?"

        def read(connection: D) -> dict[str, tuple[int, int]]:
            return {
                key: (accessed_ms, count)
                for key, accessed_ms, count in connection.execute(query, (place,))
            }

        return await self._read(read)

    async def mark_used(self, place: str, keys: Sequence[str], at_ms: int) -> None:
        """Count a use of each key; an earlier time than the last one does not replace it. Raises as `_write_in_passing`."""
        first = "INSERT INTO uses(place, key, accessed_ms, count) VALUES(?, ?, ?, 0) ON CONFLICT DO NOTHING"
        latest = "CASE WHEN accessed_ms > ? THEN accessed_ms ELSE ? END"
        use = (
            f"UPDATE uses SET count = count + 1, accessed_ms = {latest} WHERE place = ? AND key = ?"
        )
        await self._write_in_passing(
            _Statement(first, [(place, key, at_ms) for key in keys]),
            _Statement(use, [(at_ms, at_ms, place, key) for key in keys]),
        )

    async def vectors(self, scope: Scope, texts: Sequence[str]) -> dict[str, bytes]:
        return await self._read(lambda c: known_vectors(c, self.embeds, scope=scope, texts=texts))

    async def keep_vectors(self, vectors: Mapping[tuple[Scope, str], bytes]) -> None:
        """Keep the vectors of texts, in place of former ones. Raises as `_write_in_passing`."""
        now_ms = self.clock()
        vectors_by_key: dict[bytes, bytes] = {}
        for (scope, text), vector in vectors.items():
            vectors_by_key[vector_key(self.embeds, scope, text)] = vector
        former_rows = [(key,) for key in vectors_by_key]
        new_rows = [(key, vector, now_ms) for key, vector in vectors_by_key.items()]
        await self._write_in_passing(
            _Statement("DELETE FROM vectors WHERE key = ?", former_rows),
            _Statement("INSERT INTO vectors VALUES(?, ?, ?)", new_rows),
        )

    async def without_vector(self, limit: int) -> list[tuple[Scope, str]]:
        if not await self.scopes():
            return []
        return await self._write(lambda c: without_vector(c, self.embeds, limit))

    async def forget_vectors(self, live: Sequence[tuple[Scope, str]], before_ms: int) -> None:
        await self._write(lambda c: forget_vectors(c, self.embeds, live=live, before_ms=before_ms))

    async def examine(self) -> list[Finding]:
        try:
            return await self._read(self._findings)
        except StorageError as error:
            return [Finding("error", "knowledge", str(error))]

    async def _write_in_passing(self, *statements: _Statement) -> None:
        """Execute statements for their rows; do nothing without rows, or in a read-only store. Raises LockTimeout soon,
        `_TOUCH_SECONDS`, if others write."""

        def write(connection: D) -> None:
            # A cursor must not leave its thread: another thread would end its statement while this one uses it again.
            for statement in statements:
                connection.executemany(statement.sql, statement.rows)

        if any(statement.rows for statement in statements) and not self.read_only:
            await self._write(write, _TOUCH_SECONDS)

    def _dated(self, operation: Operation) -> Operation:
        return replace(operation, at_ms=operation.at_ms or self.clock())

    def _refuse_read_only(self) -> None:
        if self.read_only:
            raise read_only_refusal(self.place)


def read_only_refusal(place: Path | None) -> StorageUnwritable:
    """Return the error of a store that is read-only."""
    return StorageUnwritable(Sentence("Nothing can be changed, because `read_only` is set."), place)


def copy_name(made_ms: int) -> str:
    """Return the name of a copy that is set aside, made at this time in milliseconds since 1970."""
    return f"knowledge-{moment_of(made_ms):%Y%m%d-%H%M%S}-{made_ms % 1000:03d}.sqlite3"


def name_taken() -> InvalidInput:
    """Return the error where a live entry has the key of a new entry."""
    return InvalidInput(
        _("Another entry has that name now; rename or delete it first. Nothing was changed.")
    )

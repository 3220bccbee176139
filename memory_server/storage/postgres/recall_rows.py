"""The record of recalls, and what was erased, as rows of PostgreSQL for all nodes."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from errno import EIO
from pathlib import Path
from typing import Any, TypeVar

from psycopg import sql

from memory_server.conversations.recall_log import LINES_AFTER_A_CUT, MOST_LINES, Change, Line
from memory_server.kernel import json_text
from memory_server.kernel.erasure import Erasure, Trace, Traces
from memory_server.kernel.errors import StorageError
from memory_server.storage.entries import searching
from memory_server.storage.erased_files import begun_of, hash_of, hashes_of
from memory_server.storage.postgres.connection import Attempt, Connection, Database, Work
from memory_server.storage.postgres.entry_rows import OwnRows, with_nul, without_nul
from memory_server.storage.recall_files import line_in

T = TypeVar("T")
_SMALL_SECONDS = 2.0
_VACUUM_SECONDS = 600.0
_PAGE = 500
_WITH_TEXT = ("text", "json", "jsonb", "bytea", "tsvector", "ARRAY")
"""The types of columns that can have texts."""
_FROM_TEXTS = ("vector", "folded")
"""The columns with terms that were made of the texts of an entry that is there."""
_ERASED = "INSERT INTO erased(hash) VALUES(?) ON CONFLICT DO NOTHING"
_KEY = "SELECT key FROM memory_server.all_erasures WHERE tenant = %s"
_KNOWN = "SELECT 1 FROM memory_server.all_erased WHERE tenant = %s AND hash = ANY(%s) LIMIT 1"


_APPEND = """
  WITH added AS (
    INSERT INTO memory_server.all_recalls(tenant, conversation, line)
    SELECT %(tenant)s, name, line FROM unnest(%(names)s::text[], %(lines)s::text[]) given(name, line),
      set_config('synchronous_commit', 'off', true)),
  cut AS (
    SELECT name, (SELECT id FROM memory_server.all_recalls WHERE tenant = %(tenant)s AND conversation = name
      ORDER BY id DESC OFFSET greatest(%(left)s - new, 0) LIMIT 1) last
    FROM (SELECT name, count(*) new FROM unnest(%(names)s::text[]) name GROUP BY name) named
    WHERE EXISTS(SELECT FROM memory_server.all_recalls WHERE tenant = %(tenant)s AND conversation = name
      ORDER BY id DESC OFFSET greatest(%(most)s - new, 0)))
  DELETE FROM memory_server.all_recalls USING cut WHERE tenant = %(tenant)s AND conversation = name AND id <= last"""
"""One statement, because it is one journey. The cut sees only the lines from before it, so it counts the new ones
itself (`new`). Its commit does not wait for the disk, because the loss of the last lines does no harm."""


class _Rows:
    """Statements about small things of a tenant. They raise StorageError."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    def _do(self, work: Callable[[OwnRows], T], *, writes: bool = True) -> T:
        """Return the result of `work`, which may run twice."""

        def do(attempt: Attempt) -> T:
            rows = OwnRows(attempt, self._tenant, writes=writes)
            with attempt.connection.pipeline():  # what needs no answer goes in one journey
                result = work(rows)
                attempt.connection.execute("commit" if rows.changed else "rollback")
            return result

        return self._ask(do)

    def _ask(self, work: Work[T]) -> T:
        """Run statements that name their tenant, each a transaction of its own, and return their result."""
        return self._database.work(work, seconds=_SMALL_SECONDS)


class RecallRows(_Rows):
    """As `RecallLog`. A line that was sent when the connection was lost may be there twice."""

    def _ask(self, work: Work[T]) -> T:
        try:
            return super()._ask(work)
        except StorageError as error:
            raise OSError(EIO, str(error)) from error

    def append(self, *lines: Line) -> None:
        first_lines = lines[:LINES_AFTER_A_CUT]  # the cut leaves room for no more of them
        parameters: dict[str, object] = {
            "tenant": self._tenant,
            "names": [without_nul(line["conversation"]) for line in first_lines],
            "lines": [json_text.dumps(line).decode() for line in first_lines],
            "left": LINES_AFTER_A_CUT,
            "most": MOST_LINES,
        }
        self._ask(lambda attempt: attempt.connection.execute(_APPEND, parameters))
        further_lines = lines[LINES_AFTER_A_CUT:]
        if further_lines:
            self.append(*further_lines)

    def lines(self, conversation_id: str | None = None) -> list[Line]:
        query = "SELECT line FROM recalls WHERE ?::text IS NULL OR conversation = ? ORDER BY conversation, id"
        parameters = (conversation_id, conversation_id)
        lines = self._do(lambda rows: rows.execute(query, parameters).fetchall(), writes=False)
        usable = (line_in(text.encode()) for (text,) in lines)
        return [line for line in usable if line is not None]

    def rewrite(self, change: Change) -> None:
        def work(rows: OwnRows) -> None:
            for number, text in rows.execute(
                "SELECT id, line FROM recalls ORDER BY id FOR UPDATE"
            ).fetchall():
                line = line_in(text.encode())
                after = None if line is None else change(line)
                if after is None:
                    rows.execute("DELETE FROM recalls WHERE id = ?", (number,))
                elif after != line:
                    rows.execute(
                        "UPDATE recalls SET line = ? WHERE id = ?",
                        (json_text.dumps(after).decode(), number),
                    )

        self._do(work)


class ErasedRows(_Rows):
    """As `kernel.erasure.Tombstones`."""

    _key: bytes | None = None

    def begin(self, erasure: Erasure) -> None:
        def work(rows: OwnRows) -> None:
            key = _key_of(rows, secrets.token_bytes(32))
            rows.execute(
                "UPDATE erasures SET now = ?", (json_text.dumps(asdict(erasure)).decode(),)
            )
            rows.executemany(_ERASED, [(hash_of(key, text),) for text in erasure.marks])

        self._do(work)

    def known(self) -> tuple[bytes, frozenset[str]]:
        def work(rows: OwnRows) -> tuple[bytes, frozenset[str]]:
            key = b""
            row = rows.execute("SELECT key FROM erasures").fetchone()
            if row is not None:
                key = bytes(row[0])
            hashes = rows.execute("SELECT hash FROM erased")
            return key, frozenset(row[0] for row in hashes)

        return self._do(work, writes=False)

    def adopt(self, key: bytes, hashes: Iterable[str]) -> bool:
        def work(rows: OwnRows) -> bool:
            is_same_key = _key_of(rows, key) == key
            new_hashes = [(text_hash,) for text_hash in hashes if is_same_key]
            rows.executemany(_ERASED, new_hashes)
            return is_same_key

        return self._do(work)

    def begun(self) -> Erasure | None:
        row = self._do(
            lambda rows: rows.execute("SELECT now FROM erasures").fetchone(), writes=False
        )
        if row is None or row[0] is None:
            return None
        return begun_of(row[0].encode())

    def end(self) -> None:
        """End the erasure. Before and after it, PostgreSQL clears the dead rows, where its user may."""
        self._vacuum()
        self._do(lambda rows: rows.execute("UPDATE erasures SET now = NULL"))
        self._vacuum("all_erasures")

    def _vacuum(self, *tables: str) -> None:
        def work(attempt: Attempt) -> None:
            for table in tables or _columns(attempt.connection):
                attempt.connection.execute(
                    sql.SQL("vacuum {}").format(sql.Identifier("memory_server", table))
                )

        with suppress(StorageError):
            self._database.work(work, seconds=_VACUUM_SECONDS)

    def holds(self, texts: Iterable[str]) -> bool:
        def work(attempt: Attempt) -> bool:
            key = self._known_key(attempt.connection)
            if key is None:
                return False
            hashes: set[str] = set()
            for text in filter(None, texts):
                hashes |= hashes_of(key, text)
            row = attempt.connection.execute(_KNOWN, [self._tenant, sorted(hashes)]).fetchone()
            return row is not None

        return self._ask(work)

    def _known_key(self, connection: Connection) -> bytes | None:
        """Return the key of the hashes, or None if nothing was ever erased."""
        if self._key is None:
            row = connection.execute(_KEY, [self._tenant]).fetchone()
            if row is not None:
                self._key = bytes(row[0])
        return self._key

    def holding(self, erasure: Erasure) -> Traces:
        """Find the tables that still contain something that is erased, in the rows of this tenant."""

        def work(attempt: Attempt) -> Traces:
            traces: dict[str, Trace | None] = {}
            with attempt.connection.transaction():
                for table, columns in _columns(attempt.connection).items():
                    rows = _rows(attempt.connection, table, columns=columns, tenant=self._tenant)
                    traces[table] = _trace_among(rows, erasure)
            return Traces(_tables_with(traces, "text"), _tables_with(traces, "name"))

        return self._database.work(work, seconds=_VACUUM_SECONDS)


def _tables_with(traces: Mapping[str, Trace | None], kind: str) -> tuple[Path, ...]:
    return tuple(Path(f"memory_server.{table}") for table, trace in traces.items() if trace == kind)


def _trace_among(rows: Iterable[dict[str, Any]], erasure: Erasure) -> Trace | None:
    in_names = False
    for row in rows:
        if any(map(erasure.held_in, _bytes_in(row))):
            return "text"
        if not erasure.words:
            continue
        trace = _trace_in(row, erasure)
        if trace == "text":
            return trace
        if trace == "name":
            in_names = True
    return "name" if in_names else None


def _trace_in(row: dict[str, Any], erasure: Erasure) -> Trace | None:
    """Find a trace of an erasure in a row. A value that is a copy of a database is searched by its rows."""
    for value in row.values():
        if isinstance(value, bytes) and value.startswith(searching.SIGNATURE):
            trace = searching.trace_in(value, erasure)
            if trace:
                return trace
    texts = {name: value for name, value in row.items() if name not in _FROM_TEXTS}
    return searching.trace_among([searching.row_of(texts)], erasure)


def _key_of(rows: OwnRows, key: bytes) -> bytes:
    """Return the key of the hashes. Without a stored key, `key` is stored and used from now on."""
    rows.execute("INSERT INTO erasures(key) VALUES(?) ON CONFLICT DO NOTHING", (key,))
    return bytes(rows.execute("SELECT key FROM erasures").fetchone()[0])


def _columns(connection: Connection) -> dict[str, dict[str, str]]:
    """Read the type of each column of each table."""
    types_by_table: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(
        "select table_name, column_name, data_type from information_schema.columns natural join "
        "information_schema.tables where table_schema = 'memory_server' and table_type = 'BASE TABLE'"
    ):
        types_by_table.setdefault(table, {})[column] = kind
    return types_by_table


def _rows(
    connection: Connection, table: str, columns: dict[str, str], tenant: str
) -> Iterator[dict[str, Any]]:
    """Read the values of the rows of a tenant in the columns that can have texts."""
    names = [name for name, kind in columns.items() if kind in _WITH_TEXT and name != "tenant"]
    if "tenant" in columns:
        where = "tenant = %s"
    elif "place" in columns:
        where = "place in (select place from memory_server.partitions where tenant = %s)"
    else:
        return

    if not names:
        return

    selected = sql.SQL(", ").join(_selected(name, columns[name]) for name in names)
    query = sql.SQL("select {} from {} where " + where).format(
        selected, sql.Identifier("memory_server", table)
    )
    # A named cursor stays on the server, so that a large table is read by the page.
    with connection.cursor(name="memory_server_search") as cursor:
        cursor.itersize = _PAGE
        cursor.execute(query, [tenant])
        for values in cursor:
            yield {name: _plain(value) for name, value in zip(names, values, strict=True)}


def _selected(name: str, kind: str) -> sql.Composed:
    """Name a column in a query: bytes as they are, and all else as text."""
    form = "{}" if kind == "bytea" else "{}::text"
    return sql.SQL(form).format(sql.Identifier(name))


def _plain(value: Any) -> Any:
    if isinstance(value, memoryview):
        return bytes(value)
    return with_nul(value)


def _bytes_in(row: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the values of a row, also unpacked where they are packed."""
    for value in filter(None, row.values()):
        data = value.encode() if isinstance(value, str) else value
        yield data
        with suppress(zlib.error):
            yield zlib.decompress(data)

"""The record of recalls, what was erased, whose turn upkeep is and whether memory is paused, as rows of PostgreSQL for
all nodes."""

from __future__ import annotations

import asyncio
import secrets
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from errno import EIO
from math import inf
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from psycopg import sql

from memory_server.conversations.ports import LINES_AFTER_A_CUT, MOST_LINES, Line, LineChange
from memory_server.kernel import json_text
from memory_server.kernel.erasure import Erasure, Trace, Traces
from memory_server.kernel.errors import StorageError
from memory_server.kernel.json_text import Fields, Json
from memory_server.kernel.private import Pause
from memory_server.kernel.values import dataclass
from memory_server.storage.entries import searching
from memory_server.storage.erased_files import begun_of, hash_of, hashes_of
from memory_server.storage.postgres.connection import Attempt, Connection, Database, Work
from memory_server.storage.postgres.entry_rows import OwnRows, with_nul, without_nul
from memory_server.storage.small_files import line_in

T = TypeVar("T")
_SMALL_SECONDS = 2.0
"""The timeout for a fact that a call in the event loop asks for."""
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


@dataclass(eq=False)
class _Rows:
    """Statements about small things of a tenant. They raise StorageError."""

    _database: Database
    _tenant: str

    def _do(self, work: Callable[[OwnRows], T], *, writes: bool = True) -> T:
        """Return the result of `work` in a transaction, which is committed if it changed something; `work` may run
        twice."""

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

    def _first_row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        """Return the first row that a statement gives, or None. The statement may run twice; `%(tenant)s` is the
        tenant."""
        parameters = {str(number): value for number, value in enumerate(values, 1)}
        parameters["tenant"] = self._tenant

        def work(attempt: Attempt) -> tuple[Any, ...] | None:
            cursor = attempt.connection.execute(query, parameters)
            if not cursor.description:
                return None
            row: tuple[Any, ...] | None = cursor.fetchone()
            return row

        return self._ask(work)


class RecallRows(_Rows):
    """As `RecallLog`. A line that was sent when the connection was lost may be there twice."""

    def _ask(self, work: Work[T]) -> T:
        """Do work as the base class does, but raise OSError in place of StorageError, as files do."""
        try:
            return super()._ask(work)
        except StorageError as error:
            raise OSError(EIO, str(error)) from error

    def append(self, *lines: Line) -> None:
        """Append lines, and delete the oldest of a conversation with more than `MOST_LINES`, so
        that `LINES_AFTER_A_CUT` stay. Raises OSError if the database cannot be written."""
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

    def rewrite(self, change: LineChange) -> None:
        """Replace each line of the tenant by what `change` returns for it, and delete it for None;
        delete lines that cannot be read too. Raises OSError if the database cannot be written."""

        def work(rows: OwnRows) -> None:
            """Change each line under a lock on its row, in the order in which they were
            appended."""
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
        """Keep the erasure until `end`, and the hashes of its texts for good. Raises StorageError."""

        def work(rows: OwnRows) -> None:
            key = _key_of(rows, secrets.token_bytes(32))
            rows.execute(
                "UPDATE erasures SET now = ?", (json_text.dumps(asdict(erasure)).decode(),)
            )
            rows.executemany(_ERASED, [(hash_of(key, text),) for text in erasure.marks])

        self._do(work)

    def known(self) -> tuple[bytes, frozenset[str]]:
        """Return the key of the hashes, empty if none exists, and the hashes. Raises StorageError."""

        def work(rows: OwnRows) -> tuple[bytes, frozenset[str]]:
            key = b""
            row = rows.execute("SELECT key FROM erasures").fetchone()
            if row is not None:
                key = bytes(row[0])
            hashes = rows.execute("SELECT hash FROM erased")
            return key, frozenset(row[0] for row in hashes)

        return self._do(work, writes=False)

    def adopt(self, key: bytes, hashes: Iterable[str]) -> bool:
        """Add the hashes of another home. Return False, and add none, if this one has a key of its own. Raises
        StorageError."""

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
        """Let PostgreSQL remove deleted rows from these tables, by default from all; if it fails, they stay for now."""

        def work(attempt: Attempt) -> None:
            for table in tables or _columns(attempt.connection):
                attempt.connection.execute(
                    sql.SQL("vacuum {}").format(sql.Identifier("memory_server", table))
                )

        with suppress(StorageError):
            self._database.work(work, seconds=_VACUUM_SECONDS)

    def holds(self, texts: Iterable[str]) -> bool:
        """Return whether at least one of these texts was erased; empty texts do not count. Raises
        StorageError if the database cannot be asked."""

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
                    traces[table] = searching.strongest(_trace_in(row, erasure) for row in rows)
            return Traces(_tables_with(traces, "text"), _tables_with(traces, "name"))

        return self._database.work(work, seconds=_VACUUM_SECONDS)


def _tables_with(traces: Mapping[str, Trace | None], kind: str) -> tuple[Path, ...]:
    return tuple(Path(f"memory_server.{table}") for table, trace in traces.items() if trace == kind)


def _trace_in(row: Json, erasure: Erasure) -> Trace | None:
    """Find a trace of an erasure in a row. A value that is a copy of a database is searched by its rows."""
    if any(map(erasure.held_in, _bytes_in(row))):
        return "text"
    if not erasure.words:
        return None
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
) -> Iterator[Json]:
    """Yield the values of each row of a tenant, by the columns that can have texts; nothing for a
    table without such columns, or without tenants."""
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


def _bytes_in(row: Fields) -> Iterator[bytes]:
    """Yield the values of a row, also unpacked where they are packed."""
    for value in filter(None, row.values()):
        data = value.encode() if isinstance(value, str) else value
        yield data
        with suppress(zlib.error):
            yield zlib.decompress(data)


# --- upkeep and pauses -------------------------------------------------------------------------------------------

# Small facts about a tenant in PostgreSQL: whose turn upkeep is and when it ran last, and whether memory is paused.

LEASE_SECONDS = 15 * 60
"""The duration of a lease: a node that ended in the middle keeps others from upkeep for so long."""
RENEWED_SECONDS = 60
"""The time between two renewals of a lease."""
PAUSE_SECONDS = 1.0
"""The time for which a node may not know that another one paused: each call asks, and the event loop waits for the
answer."""


class Lease(_Rows):
    """As `FolderLedger`, with a lease: an advisory lock would be lost or kept silently behind a pooler."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Yield True if this process gets the lease, which it renews during the block and then
        gives back; yield False if another one has it. Raises StorageError if the database cannot be
        asked."""
        holder = uuid4()
        if not await asyncio.to_thread(self._take, holder):
            yield False
            return
        renewing = asyncio.create_task(self._renew(holder))
        try:
            yield True
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            with suppress(StorageError):  # it ends by itself
                await asyncio.to_thread(self._first_row, _GIVE_BACK, holder)

    def _take(self, holder: Any) -> bool:
        return self._first_row(_TAKE, holder, LEASE_SECONDS) is not None

    async def _renew(self, holder: Any) -> None:
        while True:
            await asyncio.sleep(RENEWED_SECONDS)
            with suppress(StorageError):
                await asyncio.to_thread(self._take, holder)

    def last_run_ms(self) -> int | None:
        """Return when upkeep of this tenant last ran, in milliseconds since 1970, or None if it never did. Raises
        StorageError."""
        row = self._first_row(
            "select last_run_ms from memory_server.upkeep where tenant = %(tenant)s"
        )
        if row is None:
            return None
        last_run_ms: int | None = row[0]
        return last_run_ms

    def note_run(self, at_ms: int) -> None:
        self._first_row(
            "insert into memory_server.upkeep (tenant, last_run_ms) values (%(tenant)s, %(1)s) "
            "on conflict (tenant) do update set last_run_ms = %(1)s",
            at_ms,
        )


_TAKE = (
    "insert into memory_server.upkeep as u (tenant, holder, until) "
    "values (%(tenant)s, %(1)s, now() + make_interval(secs => %(2)s)) on conflict (tenant) do update "
    "set holder = excluded.holder, until = excluded.until "
    "where u.until is null or u.until < now() or u.holder = excluded.holder returning 1"
)
_GIVE_BACK = "update memory_server.upkeep set holder = null, until = null where tenant = %(tenant)s and holder = %(1)s"


class PauseRow(_Rows):
    """As `PauseNote`, for all nodes; what another node says counts within `PAUSE_SECONDS`."""

    _row: tuple[Any, ...] | None = None
    _asked = -inf
    """The time of the last question, by the monotonic clock."""

    def read(self, now_ms: int) -> Pause | None:
        """Read the pause of this tenant, which may be some seconds old. Raises StorageError: it cannot be known."""
        now = time.monotonic()
        if now - self._asked > PAUSE_SECONDS:
            self._row = self._first_row(
                "select until_ms from memory_server.pauses where tenant = %(tenant)s"
            )
            self._asked = now
        if self._row is None:
            return None
        (until_ms,) = self._row
        if until_ms is not None and until_ms <= now_ms:
            return None
        return Pause(until_ms)

    def write(self, pause: Pause) -> None:
        self._first_row(
            "insert into memory_server.pauses (tenant, until_ms) values (%(tenant)s, %(1)s) "
            "on conflict (tenant) do update set until_ms = %(1)s",
            pause.until_ms,
        )
        self._asked = -inf

    def remove(self) -> None:
        self._first_row("delete from memory_server.pauses where tenant = %(tenant)s")
        self._asked = -inf

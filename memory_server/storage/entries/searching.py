"""Finds words in bytes that are kept: in the rows of a database, in records of JSON, or in a text as a whole.

Two words in two memories of a file are not in the same text. So bytes are taken apart into records before the words
are looked for, and a record is read only where its bytes have all of them."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from memory_server.kernel.erasure import Erasure, Trace
from memory_server.kernel.json_text import Fields, Json
from memory_server.storage.entries import schema
from memory_server.storage.entries.schema import Connection
from memory_server.storage.text_records import records_in

SIGNATURE = b"SQLite format 3\x00"
_WAIT_SECONDS = 5.0
_JSON = ("{", "[")
_LOG_VERSIONS = slice(18, 20)
"""The bytes of a database that say whether it has a write-ahead log (https://www.sqlite.org/fileformat2.html, 1.3.3):
2 with a log; a copy in memory cannot have a log."""


class NotSearched(Exception):
    """A database of which not every row could be looked at."""


def trace_in(data: bytes, erasure: Erasure, path: Path | None = None) -> Trace | None:
    """Find where bytes have all the words of an erasure. `path` is the file with these bytes; a database there may
    have a log. Raises NotSearched: nothing was found, and not all of a database could be read."""
    if not data.startswith(SIGNATURE):
        return _trace_in_text(data, erasure)
    try:
        database = _opened(data, path)
        with closing(database.connection) as connection:
            trace = trace_among(_rows(connection), erasure)
    except sqlite3.Error as error:
        trace = _trace_in_text(data, erasure)
        if trace is None:
            raise NotSearched(str(error)) from error
        return trace
    if trace is None and not database.with_log:
        raise NotSearched("its write-ahead log was not read")
    return trace


def _trace_in_text(data: bytes, erasure: Erasure) -> Trace | None:
    return trace_among(records_in(data.decode(errors="replace"), erasure.may_be_in), erasure)


def trace_among(records: Iterable[Any], erasure: Erasure) -> Trace | None:
    """Return the trace in these records: a text in any of them counts more than a name."""
    return strongest(map(erasure.trace_in, records))


def strongest(traces: Iterable[Trace | None]) -> Trace | None:
    """Return "text" if any of these traces is one in a text, which ends the search, or else "name" if any is one."""
    in_names = False
    for trace in traces:
        if trace == "text":
            return trace
        in_names = in_names or trace == "name"
    return "name" if in_names else None


def row_of(values: Fields) -> Json:
    """Return a row of a table as a record: values that are JSON are read, and what is packed is unpacked."""
    row = {name: _value(value) for name, value in values.items()}
    before = row.pop("before", None)
    if isinstance(before, dict):  # the fields that a change of an entry replaced
        row["former"] = {"body": "", **before}
    return row


def _value(value: Any) -> Any:
    """Return what a column holds: the value of its JSON, plain or compressed, or None for other bytes."""
    if isinstance(value, str) and value.startswith(_JSON):
        with suppress(ValueError):
            return json.loads(value)
    if isinstance(value, bytes):
        with suppress(zlib.error, ValueError):
            return json.loads(zlib.decompress(value))
        return None  # a vector or a hash
    return value


class SearchedDatabase(NamedTuple):
    """A database. `with_log`: whether what stands only in its write-ahead log is read too."""

    connection: Connection
    with_log: bool


def _opened(data: bytes, path: Path | None) -> SearchedDatabase:
    """Return the database at `path`, opened with its log, or without the log if that cannot be
    used; without a path, or if both fail, a copy of `data` in memory."""
    has_log = False
    if path is not None:
        has_log = _is_filled(path.with_name(f"{path.name}-wal"))
        for mode in ("ro", "immutable"):
            connection = schema.connect(path, mode, _WAIT_SECONDS)
            try:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError:  # such as a log that cannot be made in this folder
                connection.close()
            else:
                return SearchedDatabase(connection, with_log=mode == "ro" or not has_log)
    connection = schema.connect(None, "rw", 0)
    plain = bytearray(data)
    plain[_LOG_VERSIONS] = b"\x01\x01"
    connection.deserialize(bytes(plain))
    return SearchedDatabase(connection, with_log=not has_log)


def _is_filled(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _rows(connection: Connection) -> Iterator[Json]:
    """Yield the rows of the tables that a store keeps, or of all tables if the database belongs to another program."""
    connection.read_leniently()
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    ]
    own_tables = [table for table in schema.KEPT if table in tables]
    for table in own_tables or tables:
        quoted = table.replace('"', '""')
        for row in connection.execute(f'SELECT * FROM "{quoted}"'):
            yield row_of(dict(row))

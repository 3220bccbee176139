"""Where words stand in bytes that are kept: in the rows of a database, in records of JSON, or in a text as a whole.

Two words in two memories of one file are not in one text. So bytes are taken apart into records before the words are
looked for, and a record is read only where its bytes have all of them.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from memory_server.kernel.erasure import Erasure, Trace
from memory_server.storage.entries import schema
from memory_server.storage.entries.sqlite_rows import Connection
from memory_server.storage.text_records import records_in

SIGNATURE = b"SQLite format 3\x00"
_WAIT_SECONDS = 5.0
_JSON = ("{", "[")
_LOG_VERSIONS = slice(18, 20)
"""The bytes of a database that say whether it has a write-ahead log (https://www.sqlite.org/fileformat2.html, 1.3.3):
2 for one that has; a copy in memory cannot have one."""


def trace_in(data: bytes, erasure: Erasure, path: Path | None = None) -> Trace | None:
    """Where bytes have all the words of an erasing; `path`: of the file that they are, of which a database may have a
    log."""
    if data.startswith(SIGNATURE):
        with suppress(sqlite3.Error), closing(_opened(data, path)) as connection:
            return trace_among(_rows(connection), erasure)
    text = data.decode(errors="replace")
    return trace_among(records_in(text, erasure.may_be_in), erasure)


def trace_among(records: Iterable[Any], erasure: Erasure) -> Trace | None:
    """The trace in these records: a text of one of them counts more than a name of another."""
    by_name = False
    for record in records:
        trace = erasure.trace_in(record)
        if trace == "text":
            return trace
        by_name = by_name or trace == "name"
    return "name" if by_name else None


def row_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a table as a record: values that are JSON are read, and what is packed is unpacked."""
    row = {name: _value(value) for name, value in values.items()}
    before = row.pop("before", None)
    if isinstance(before, dict):  # the fields that a change of an entry replaced
        row["former"] = {"body": "", **before}
    return row


def _value(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_JSON):
        with suppress(ValueError):
            return json.loads(value)
    if isinstance(value, bytes):
        with suppress(zlib.error, ValueError):
            return json.loads(zlib.decompress(value))
        return None  # a vector or a hash
    return value


def _opened(data: bytes, path: Path | None) -> Connection:
    for mode in ("ro", "immutable") if path is not None else ():
        connection = schema.connect(path, mode, _WAIT_SECONDS)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:  # such as a log that cannot be made in this folder
            connection.close()
        else:
            return connection
    connection = schema.connect(None, "rw", 0)
    plain = bytearray(data)
    plain[_LOG_VERSIONS] = b"\x01\x01"
    connection.deserialize(bytes(plain))
    return connection


def _rows(connection: Connection) -> Iterator[dict[str, Any]]:
    connection.read_leniently()
    for table in schema.KEPT:
        for row in connection.execute(f"SELECT * FROM {table}"):
            yield row_of(dict(row))

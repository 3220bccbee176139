"""Tables of a database that another program made, as rows. It is opened to read only, and nothing in it is run: no
extension is loaded, a view is not a table, a generated column is not read, and a trigger runs only where something is
written. What is in it was written by others, so rows, bytes and time have a bound: a damaged tree could work for ever.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from memory_server.kernel.errors import InvalidInput
from memory_server.storage.entries import schema

MOST_ROWS = 1_000_000
"""The most rows of a table."""
MOST_BYTES = 1024**3
"""The most bytes of all texts, as of a file that is read whole. A whole database has no more than its file: a damaged
database may refer to a page many times."""
_LEAST_ROW_BYTES = 6
"""The bytes of the smallest row: its place in the page, its length, its number, and its header."""
_BESIDE = ("-wal", "-journal")
"""Endings of files with changes that are not yet in the database."""
MOST_SECONDS = 60.0
_MOST_VALUE_BYTES = 16 * 1024 * 1024
_STEPS = 100_000
"""Steps of SQLite between two looks at the clock."""


class Table(NamedTuple):
    rows: int
    columns: frozenset[str]


def tables_of(path: Path) -> dict[str, Table]:
    """Return the tables by name, without tables of SQLite and of full-text indexes. Raises InvalidInput: the database
    cannot be read."""
    with _opened(path) as connection:
        try:
            return {
                name: _table(connection, name) for name in _names(connection) if "_fts" not in name
            }
        except sqlite3.Error as error:
            raise _refusal(path, error) from error


def rows_of(
    path: Path, columns: Mapping[str, Collection[str]]
) -> dict[str, list[Mapping[str, Any]]]:
    """Read the rows of these tables, in the columns that the database has. Raises InvalidInput: the database cannot
    be read, or has too much."""
    rows_by_table: dict[str, list[Mapping[str, Any]]] = {}
    file_bytes = _bytes_of(path)
    room = min(MOST_BYTES, 2 * file_bytes)  # a text may be longer in UTF-8 than in UTF-16
    most_rows = min(MOST_ROWS, file_bytes // _LEAST_ROW_BYTES)
    with _opened(path) as connection:
        try:
            for name in _names(connection) & columns.keys():
                rows = rows_by_table.setdefault(name, [])
                for row in connection.execute(_selection(connection, name, columns[name])):
                    room -= sum(len(value) for value in row if isinstance(value, str | bytes))
                    if room < 0 or len(rows) == most_rows:
                        raise InvalidInput(
                            "{name} has more than {rows:,} rows or {bytes:,} bytes, or is damaged; split it.",
                            path,
                            MOST_ROWS,
                            MOST_BYTES,
                        )
                    rows.append(dict(zip(row.keys(), row, strict=True)))
        except sqlite3.Error as error:
            raise _refusal(path, error) from error

    return rows_by_table


def _selection(connection: sqlite3.Connection, table: str, columns: Collection[str]) -> str:
    """Write the statement for the columns that a table has."""
    stored = _columns(connection, table)
    selected = ", ".join(_quoted(column) for column in columns if column in stored)
    return f"SELECT {selected or 'NULL'} FROM {_quoted(table)} LIMIT {MOST_ROWS + 1}"


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection that reads only, within bounds, and leaves nothing beside the database: with its journal,
    SQLite reads it in a copy. Raises InvalidInput: it cannot be opened."""
    if not _has_journal(path):
        with closing(_connection(path, path, "immutable")) as connection:
            yield connection
        return
    with tempfile.TemporaryDirectory(prefix="memory-server-") as folder:
        copy = Path(folder, "copy.db")
        try:
            _copy(path, copy)
        except OSError as error:
            raise _refusal(path, error) from error
        with closing(_connection(copy, path, "rw")) as connection:
            yield connection


def _copy(path: Path, copy: Path) -> None:
    """Copy a database and what is beside it, again if another program writes meanwhile; the last of `_COPIES` attempts
    counts even then."""
    for _attempt in range(_COPIES):
        before = _state_of(path)
        shutil.copyfile(path, copy)
        for ending in _BESIDE:
            beside = copy.with_name(copy.name + ending)
            beside.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                shutil.copyfile(path.with_name(path.name + ending), beside)
        if _state_of(path) == before:
            return


_COPIES = 5
"""Copies that are tried; SQLite checks each page of the last one as it checks any file."""


def _state_of(path: Path) -> list[tuple[int, int] | None]:
    """Return size and time of a database and of each file beside it, None for one that is missing."""
    states: list[tuple[int, int] | None] = []
    for ending in ("", *_BESIDE):
        try:
            facts = path.with_name(path.name + ending).stat()
            states.append((facts.st_size, facts.st_mtime_ns))
        except FileNotFoundError:
            states.append(None)
    return states


def _bytes_of(path: Path) -> int:
    return sum(state[0] for state in _state_of(path) if state is not None)


def _connection(path: Path, name: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to the database at `path` that only reads and ends after `MOST_SECONDS`;
    messages call the database `name`. Raises InvalidInput if it cannot be opened."""
    try:
        connection = schema.connect(path, mode, 1.0)
    except sqlite3.Error as error:
        raise _refusal(name, error) from error
    connection.text_factory = lambda text: text.decode(errors="replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)
    # A made-up database can make a query run for hours.
    deadline = time.monotonic() + MOST_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        for pragma in ("query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error as error:
        connection.close()
        raise _refusal(name, error) from error
    return connection


def _has_journal(path: Path) -> bool:
    """Tell whether another program has left or writes a journal: beside a journal, the file alone is not whole, and
    SQLite reads both."""
    for ending in _BESIDE:
        journal = path.with_name(path.name + ending)
        if journal.exists() and journal.stat().st_size:
            return True
    return False


def _names(connection: sqlite3.Connection) -> set[str]:
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    return {str(name) for (name,) in connection.execute(sql) if not str(name).startswith("sqlite_")}


def _table(connection: sqlite3.Connection, name: str) -> Table:
    [count] = connection.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()
    return Table(int(count), _columns(connection, name))


def _columns(connection: sqlite3.Connection, name: str) -> frozenset[str]:
    """Return the columns that are stored as they were given: `table_info` leaves out what is computed."""
    return frozenset(
        str(row[1]) for row in connection.execute(f"PRAGMA table_info({_quoted(name)})")
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _refusal(path: Path, error: sqlite3.Error | OSError) -> InvalidInput:
    return InvalidInput(
        "{name} cannot be read as a database ({reason}); close the program that made it, and copy the file again.",
        path,
        error,
    )

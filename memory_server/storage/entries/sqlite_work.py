"""Work with SQLite: copies of a database, and work in a thread whose errors name the place."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from languages import Sentence, in_this_language
from memory_server.kernel import files as folders
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import StorageUnwritable
from memory_server.storage.entries import operations, schema
from memory_server.storage.entries.sqlite_rows import Connection
from memory_server.storage.entries.store import name_taken

_PAUSE_SECONDS = 0.02


def fill(source: sqlite3.Connection, path: Path, wait_seconds: float) -> None:
    """Make an empty database equal to the copy at `path`, which is checked before."""
    with closing(schema.connect(path, "immutable", wait_seconds)) as copy:
        try:
            schema.check(copy, path)
        except sqlite3.Error as error:
            raise schema.trouble(error, path) from error
        copy.backup(source)
    source.execute("PRAGMA journal_mode = MEMORY")
    source.execute("PRAGMA synchronous = OFF")  # it is removed soon


def copy_database(connection: sqlite3.Connection, path: Path) -> None:
    schema.make_file(path)
    try:
        connection.execute("VACUUM INTO ?", (str(path),))
    except BaseException:
        folders.remove_file(path)
        raise


def adopt(connection: Connection, path: Path) -> bool:
    """Take all of a copy into a database that holds nothing; False: it holds something."""
    connection.execute("ATTACH DATABASE ? AS source", (str(path),))
    try:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            if operations.scopes(connection):
                return False
            for table in schema.KEPT:
                connection.execute(f"INSERT INTO main.{table} SELECT * FROM source.{table}")
            connection.execute("DELETE FROM main.sqlite_sequence")
            connection.execute(
                "INSERT INTO main.sqlite_sequence SELECT * FROM source.sqlite_sequence"
            )
            operations.rebuild(connection)
            return True
    finally:
        connection.execute("DETACH DATABASE source")


def empty_free_pages(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """Write the database again, and leave nothing in its log, which other processes may read for a while."""
    connection.execute("VACUUM")
    deadline = time.monotonic() + wait_seconds
    while _log_is_used(connection) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)


def _log_is_used(connection: sqlite3.Connection) -> bool:
    """Tell whether another process still reads the log, so that it could not be emptied."""
    (busy, *_pages) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return bool(busy)


def erase_copy(path: Path, erasure: Erasure, wait_seconds: float) -> None:
    """Remove what is erased from a copy, all of it or nothing."""
    with closing(schema.connect(path, "rw", wait_seconds)) as copy:
        schema.check(copy, path)
        copy.execute("PRAGMA secure_delete = ON")
        copy.execute("BEGIN IMMEDIATE")
        with copy:
            operations.erase(copy, erasure, past=True)
            operations.rebuild(copy)
        empty_free_pages(copy, wait_seconds)


T = TypeVar("T")


@contextmanager
def errors_named(path: Path | None) -> Iterator[None]:
    """Turn errors of SQLite into errors that name `path`."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise name_taken() from error
    except sqlite3.Error as error:
        raise schema.trouble(error, path) from error
    except OSError as error:
        reason = error.strerror or error
        raise StorageUnwritable(
            Sentence("{path} cannot be written: {reason}; nothing was changed.", path, reason), path
        ) from error


async def run_in_thread(threads: ThreadPoolExecutor, work: Callable[[], T], path: Path | None) -> T:
    """Run `work` in a thread and return its result, with `errors_named`. It runs to its end, also where the caller
    gives up: so two calls never use one connection."""

    def run() -> T:
        with errors_named(path):
            return work()

    return await asyncio.get_running_loop().run_in_executor(threads, in_this_language(run))

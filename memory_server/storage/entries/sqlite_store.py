"""The default `EntryStore`: one SQLite file that several processes may use at once, or a database in memory.

One thread writes and two read, each with a connection of its own; in memory one thread does all. A write is on disk
when its call returns (WAL, `synchronous=FULL`). The file is made by the first write, never by looking.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import KW_ONLY
from functools import partial
from pathlib import Path
from typing import TypeVar

from languages import in_this_language
from memory_server.conversations.archive import KEEP_MS
from memory_server.kernel import files as folders
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import StorageError
from memory_server.kernel.items import Scope
from memory_server.kernel.text import Finding
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Operation
from memory_server.knowledge.ports import Committed, Decide, Later
from memory_server.storage.entries import examination, schema, store
from memory_server.storage.entries.schema import Connection, damaged
from memory_server.storage.entries.store import DatabaseStore, copy_name, name_taken

# --- copies, and work in a thread --------------------------------------------------------------------------------

# Work with SQLite: copies of a database, and work in a thread whose errors name the place.

_PAUSE_SECONDS = 0.02


def fill(source: sqlite3.Connection, path: Path, wait_seconds: float) -> None:
    """Make an empty database, which is removed soon, equal to the copy at `path`, and no longer safe from a power loss.
    Raises StorageError if the copy is damaged."""
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
    """Take all of the copy at `path` into a database that holds nothing. Return False, and change
    nothing, if it holds something. Raises sqlite3.Error if the copy cannot be read."""
    connection.execute("ATTACH DATABASE ? AS source", (str(path),))
    try:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            if store.scopes(connection):
                return False
            for table in schema.KEPT:
                connection.execute(f"INSERT INTO main.{table} SELECT * FROM source.{table}")
            connection.execute("DELETE FROM main.sqlite_sequence")
            connection.execute(
                "INSERT INTO main.sqlite_sequence SELECT * FROM source.sqlite_sequence"
            )
            store.rebuild(connection)
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
    """Remove what is erased from a copy, all of it or nothing. Raises StorageError, sqlite3.Error if the copy cannot
    be used."""
    with closing(schema.connect(path, "rw", wait_seconds)) as copy:
        schema.check(copy, path)
        copy.execute("PRAGMA secure_delete = ON")
        copy.execute("BEGIN IMMEDIATE")
        with copy:
            store.erase(copy, erasure, past=True)
            store.rebuild(copy)
        empty_free_pages(copy, wait_seconds)


@contextmanager
def errors_named(path: Path | None) -> Iterator[None]:
    """Turn the errors of SQLite and of the disk in the block into errors that name `path`:
    InvalidInput if a live entry has the same key, else StorageError."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise name_taken() from error
    except sqlite3.Error as error:
        raise schema.trouble(error, path) from error
    except OSError as error:
        raise folders.refused_by(error, path or Path()) from error


async def run_in_thread(threads: ThreadPoolExecutor, work: Callable[[], T], path: Path | None) -> T:
    """Run `work` in a thread and return its result, with `errors_named`. It runs to its end, also where the caller
    gives up: so two calls never use one connection."""

    def run() -> T:
        with errors_named(path):
            return work()

    return await asyncio.get_running_loop().run_in_executor(threads, in_this_language(run))


T = TypeVar("T")
log = logging.getLogger(__name__)
# --- the store ---------------------------------------------------------------------------------------------------

CHECKED_BYTES = 64 * 1024**2
"""A file of up to this size is examined before a process first writes to it: 0.3 s. A larger one only by `doctor`."""
_AGAIN_SECONDS = 0.2
"""The time after which an index can be read that another process was about to make: the making takes some
milliseconds."""
_WAITED_SECONDS = 0.05
"""A write that begins later than this counts as a write that waited, in the figures."""


@dataclass(eq=False)
class SqliteStore(DatabaseStore[Connection]):
    """Entries in the file `place`, or in memory for None. `durability`: `full` or `normal` (`PRAGMA synchronous`).
    `keep_ms`: how long copies that were set aside are kept, in milliseconds."""

    _: KW_ONLY
    durability: str = "full"
    cache_mb: int = 16
    keep_ms: int = KEEP_MS

    def __post_init__(self) -> None:
        self._writer = ThreadPoolExecutor(1, "entries-write")
        self._readers = (
            self._writer if self.place is None else ThreadPoolExecutor(2, "entries-read")
        )
        self._threads = threading.local()
        self._opened: list[Connection] = []
        self._checked: Connection | None = None
        self._damaged = False

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        if not self.read_only and self.place is not None and not self.place.exists():
            await self.read(
                scope, decide
            )  # a decision that refuses must not leave an empty database
        return await super().commit(scope, decide, operation)

    async def rebuild(self) -> int:
        count = await super().rebuild()
        await self._optional_statement("VACUUM")
        return count

    async def tidy(self, *, texts_before_ms: int, operations_before_ms: int) -> None:
        await super().tidy(
            texts_before_ms=texts_before_ms, operations_before_ms=operations_before_ms
        )
        if await self.scopes():
            await self._optional_statement("PRAGMA wal_checkpoint(TRUNCATE)")

    async def forget_vectors(self, live: Sequence[tuple[Scope, str]], before_ms: int) -> None:
        if self.place is None or self.place.exists():
            await super().forget_vectors(live, before_ms)

    async def erase(self, erasure: Erasure, copy: Path | None = None) -> None:
        """Erase from the store and from the copies beside it that were set aside; with `copy`, from
        that copy only. A store that was never written has nothing to erase.

        Raises:
            StorageUnwritable: the store is read-only; then the copies beside it stay as they are too.
            StorageError: a file is damaged or cannot be written. What was erased before stays erased."""
        is_written = self.place is None or self.place.exists()
        if copy is None and is_written:
            self._refuse_read_only()
        copies: list[Path] = []
        if copy is not None:
            copies = [copy]
        elif self.place is not None and is_written:
            copies = sorted((self.place.parent / "archive").glob("knowledge-*.sqlite3"))
        for path in copies:
            await self._run(self._writer, partial(erase_copy, path, erasure, self.wait_seconds))
        if copy is None and is_written:
            await self._write(partial(_erase, erasure))
            await self._run(
                self._writer, lambda: empty_free_pages(self._connection("write"), self.wait_seconds)
            )

    async def copy_to(self, path: Path) -> None:
        await self._read(partial(copy_database, path=path))

    async def set_aside(self) -> Path | None:
        self._refuse_read_only()
        return await self._read(self._set_aside)

    async def has_copy(self, path: Path) -> bool:
        return await asyncio.to_thread(path.exists)

    def _set_aside(self, connection: Connection) -> Path | None:
        """Copy the database into the archive, and remove the copies there that were kept long enough. Return the path
        of the copy, or None if there is no file."""
        if self.place is None or not self.place.exists():
            return None
        path = self._place_aside(self.place)
        copy_database(connection, path)
        kept_from_ms = self.clock() - self.keep_ms
        for former_copy in path.parent.glob("knowledge-*.sqlite3*"):
            with suppress(FileNotFoundError):  # another process is making that copy just now
                if former_copy.stat().st_mtime * 1000 < kept_from_ms:
                    folders.remove_file(former_copy)
        return path

    def _place_aside(self, file: Path) -> Path:
        """Make a new empty file, named after the present moment or the first moment after it that no other copy has."""
        now_ms = self.clock()
        aside = file.parent / "archive"
        folders.make_folder(aside)
        while True:
            path = aside / copy_name(now_ms)
            try:
                folders.open_file(path, "xb").close()
                return path
            except FileExistsError:
                now_ms += 1

    def copy_at(self, path: Path) -> SqliteStore:
        return SqliteStore(path, self.clock, read_only=True)

    async def adopt(self, path: Path) -> bool:
        self._refuse_read_only()
        return await self._run(self._writer, lambda: adopt(self._connection("write"), path))

    async def replace_by(
        self, path: Path, scope: Scope, operation: Operation, later: Later | None = None
    ) -> tuple[int, Path | None]:
        """Make the whole store equal to the copy at `path`, and note `operation` in `scope`. Raises StorageUnwritable
        if the store is read-only."""
        self._refuse_read_only()
        replacement = _Replacement(
            self, path, scope=scope, operation=self._dated(operation), later=later
        )
        return await self._run(self._writer, replacement.run)

    def _move_away(self, file: Path) -> None:
        """Keep a file that cannot be opened, with those beside it, where a new one takes its place."""
        aside = self._place_aside(file)
        for ending in ("-wal", "-shm", ""):  # the database last: a new one must not get the old log
            with suppress(FileNotFoundError):
                Path(f"{file}{ending}").replace(f"{aside}{ending}")
        log.warning("%s was damaged; it is kept as %s", file, aside)

    def _findings(self, connection: Connection) -> list[Finding]:
        if self.place is None or not self.place.exists():
            return []
        return examination.examine(self.place, self.embeds, connection)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        for connection in self._opened:
            connection.close()

    async def _read(self, read: Callable[[Connection], T]) -> T:
        """Return the result of `read`. Where the file is damaged, it reads once more, and gets what can be read."""
        return await self._timed(
            "reads", "read_us", self._run(self._readers, partial(self._read_now, read))
        )

    def _read_now(self, read: Callable[[Connection], T]) -> T:
        """Return the result of `read`, and call it once more while another process makes the file.
        If the file is damaged, read again what can be read. Raises sqlite3.Error if only the index
        is damaged, or for another reason."""
        connection = self._connection("read")
        try:
            return read(connection)
        except sqlite3.Error as error:
            is_damage = schema.is_damage(error)
            if "vtable constructor failed" in str(error) and not is_damage:
                time.sleep(_AGAIN_SECONDS)  # another process is making the file
                return read(connection)
            index_only = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CORRUPT_VTAB
            if connection.lenient or index_only or not is_damage:
                raise
            connection.read_leniently()
            result = read(connection)
            self._damaged = True
            log.warning("only a part can be read: %s", schema.trouble(error, self.place))
            return result

    async def _timed(self, count: str, microseconds: str, work: Awaitable[T]) -> T:
        """Return the result of `work`, and count it with its time, including the wait for a thread
        or another process."""
        began = time.perf_counter()
        result = await work
        self.meter.count("knowledge", count)
        self.meter.count(
            "knowledge", microseconds, round((time.perf_counter() - began) * 1_000_000)
        )
        return result

    def _refuse_damaged(self, connection: Connection) -> None:
        """Refuse to write to a damaged file: where damage was met, and before the first write to a file that is not
        large. Raises sqlite3.DatabaseError."""
        if self.place is None or (connection is self._checked and not self._damaged):
            return
        if self._damaged or self.place.stat().st_size <= CHECKED_BYTES:
            damage = examination.damage(connection)
            self._damaged = bool(damage)
            if damage:
                raise damaged(damage)
        self._checked = connection

    async def _write(
        self, write: Callable[[Connection], T], wait_seconds: float | None = None
    ) -> T:
        """Return the result of `write`, which runs in a transaction that excludes other writers. Raises
        StorageUnwritable if the store is read-only, LockTimeout after `wait_seconds`."""
        timeout_seconds = self.wait_seconds if wait_seconds is None else wait_seconds

        def run() -> tuple[T, bool]:
            connection = self._connection("write")
            connection.execute(f"PRAGMA busy_timeout = {round(timeout_seconds * 1000)}")
            self._refuse_damaged(connection)
            began = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            waited = time.perf_counter() - began > _WAITED_SECONDS
            with connection:  # commits, or rolls back where this raises
                return write(connection), waited

        self._refuse_read_only()
        result, waited = await self._timed("commits", "commit_us", self._run(self._writer, run))
        self.meter.count("knowledge", "waits", int(waited))
        return result

    async def _optional_statement(self, statement: str) -> None:
        """Run a statement that other processes may make impossible, and that can then be left for the next time."""
        with suppress(StorageError):
            await self._run(
                self._writer, lambda: self._connection("write").execute(statement).fetchall()
            )

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await run_in_thread(threads, work, self.place)

    def _connection(self, role: str) -> Connection:
        """Return the connection of this thread to `write` or `read`, which is opened again if the file was replaced. A
        missing file is made to write; to read, an empty database in memory takes its place."""
        if role == "write" and self.place is not None and not self.place.exists():
            schema.make_file(self.place)
        file_number = 0
        if self.place is not None:
            with suppress(FileNotFoundError):
                file_number = self.place.stat().st_ino
        name = f"{role} {file_number}" if file_number else "memory 0"
        connection: Connection | None = getattr(self._threads, name, None)
        if connection is None:
            connection = self._open(role, self.place if file_number else None)
            self._opened.append(connection)
            setattr(self._threads, name, connection)
        return connection

    def _open(self, role: str, file: Path | None) -> Connection:
        """Open a connection that writes, or reads in the first mode that works. Without a file, it
        is to a new database in memory. Raises sqlite3.Error if the file is cut off or no mode
        works."""
        if file is not None:
            schema.refuse_cut(file)
        if file is None or role == "write":
            return self._prepared(file)
        modes = ("ro", "immutable") if self.read_only else ("rw", "ro", "immutable")
        for mode in modes:
            try:
                connection = schema.connect(file, mode, self.wait_seconds)
                if schema.version_of(connection, file) == 0 and mode == "rw":
                    self._prepared(
                        file
                    ).close()  # another process has just begun to make it, or broke off
                return connection
            except sqlite3.OperationalError:
                if mode == modes[-1]:
                    raise
        raise AssertionError("no mode")

    def _prepared(self, file: Path | None) -> Connection:
        """Open a connection that can write."""
        connection = schema.connect(file, "rw", self.wait_seconds)
        try:
            schema.prepare(connection, file, durability=self.durability, cache_mb=self.cache_mb)
        except BaseException:
            connection.close()
            raise
        return connection


@dataclass(eq=False)
class _Replacement:
    """The work of `replace_by`, in the thread that writes. From the first page to the last no other process can
    write, so an acknowledged write is kept. SQLite copies also what changes in the source meanwhile, so all of it is
    there at once, or nothing."""

    store: SqliteStore
    path: Path
    scope: Scope
    operation: Operation
    later: Later | None
    seq: int | None = None
    former: Path | None = None

    def run(self) -> tuple[int, Path | None]:
        """Replace the store. Return the number of the operation, and where a copy of what the store held until now
        is."""
        file = self.store.place
        source_place = None if file is None else self.store._place_aside(file)
        try:
            with closing(schema.connect(source_place, "rw", self.store.wait_seconds)) as source:
                fill(source, self.path, self.store.wait_seconds)
                self._copy(source)
        finally:
            if source_place is not None:
                folders.remove_file(source_place)
        return self.seq or 0, self.former

    def _copy(self, source: Connection) -> None:
        """Copy the source over the store. A damaged store is first moved away. Raises
        sqlite3.Error."""
        try:
            source.backup(
                self.store._connection("write"),
                pages=1,
                progress=partial(self._complete_at_first, source),
            )
        except sqlite3.DatabaseError as error:
            if self.store.place is None or not schema.is_damage(error):
                raise
            self.store._move_away(self.store.place)
            if self.seq is None:
                self._complete(source, None)
            source.backup(self.store._connection("write"))

    def _complete_at_first(self, source: Connection, status: int, *_: int) -> None:
        """Complete the source after the first page, when other processes can no longer write."""
        if self.seq is not None or status != sqlite3.SQLITE_OK:
            return
        present = None
        if self.store.place:
            present = self.store._connection("read")
        self._complete(source, present)

    def _complete(self, source: Connection, present: Connection | None) -> None:
        """Set a copy of the present store aside, and write to the source the operation and what
        `later` decides by the present store. Nothing of a damaged or missing one (None) is used."""
        last_seq = 0
        try:
            if present is not None:
                former = self.store._set_aside(present)
                last_seq = schema.last_operation(present)
                self.former = former
        except sqlite3.Error as error:
            # What a damaged store held cannot be copied or brought over.
            if not schema.is_damage(error):
                raise
            present = None

        source.execute("BEGIN")
        with source:
            schema.number_after(source, last_seq)
            self.seq = store.complete(
                source,
                present,
                scope=self.scope,
                operation=self.operation,
                later=self.later,
                embeds=self.store.embeds,
                former=self.former,
            )


def _erase(erasure: Erasure, connection: Connection) -> None:
    store.erase(connection, erasure)
    store.rebuild(connection)  # it keeps the terms of deleted entries

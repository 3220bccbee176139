"""A PostgreSQL database: its connections, how long one waits for it, and its errors as sentences.

All calls are blocking ones with a connection of a pool; `Database.run` is for the event loop. A piece of work that
loses its connection is done again on another one until patience ends. How to commit so that nothing is done twice:

    def do(attempt: Attempt) -> str:
        with attempt.connection.transaction():            # or a pipeline, as log.py has it
            lock(attempt.connection)                      # from here on a lost attempt has ended, either way
            if attempt.again:
                result = find(attempt.connection, attempt.token)
                if result is not None:
                    return result                         # the lost attempt was committed
                attempt.again = False                     # it was not, and never will be
            store(attempt.connection, attempt.token)
            attempt.sent = True                           # just before COMMIT is sent
        return "done"
    await database.run(do)

If patience ends after a lost COMMIT, `OutcomeUnknown` is raised, and otherwise an error that says that nothing was
changed. Connections are in autocommit mode; what `do` leaves open is rolled back. Nothing needs a session's state.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import field
from importlib.resources import files
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

import psycopg
from psycopg import conninfo, errors
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from languages import Sentence, in_this_language
from memory_server.kernel.errors import (
    InvalidInput,
    LockTimeout,
    OutcomeUnknown,
    StorageError,
    StorageUnwritable,
)
from memory_server.kernel.values import dataclass
from memory_server.storage.options import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Iterator


# --- tables ------------------------------------------------------------------------------------------------------

# The tables, as numbered files of SQL in `migrations/`: each is applied once, in order, all of them in one
# transaction. A file that was released is never changed; what is new is a file with the next number.

_LOCK = 0x6D656D73
"""The number of the advisory lock, held for the transaction, that lets one node migrate at a time."""


def migrations() -> dict[int, str]:
    """Return the SQL of each migration by its number, in order."""
    folder = files("memory_server.storage.postgres") / "migrations"
    scripts = {
        int(script.name[:4]): script for script in folder.iterdir() if script.name.endswith(".sql")
    }
    return {number: scripts[number].read_text("utf-8") for number in sorted(scripts)}


def missing(connection: psycopg.Connection[Any]) -> list[int]:
    """Return the numbers of the migrations that the database lacks. Raises StorageUnwritable: it has newer ones."""
    numbers = list(migrations())
    applied = _newest_applied(connection)
    if applied > max(numbers):
        raise StorageUnwritable(
            Sentence(
                "The tables of the database are newer ({there}) than this memory-server knows ({known}); update this "
                "memory-server. Nothing was changed.",
                applied,
                max(numbers),
            )
        )
    return [number for number in numbers if number > applied]


def _newest_applied(connection: psycopg.Connection[Any]) -> int:
    """Return the number of the newest migration that the database has, or 0."""
    # Not `to_regclass`, which may answer from before another node migrated.
    tables = connection.execute(
        "select from pg_catalog.pg_tables where schemaname = 'memory_server' and tablename = 'migrations'"
    ).fetchall()
    if not tables:
        return 0
    [[newest]] = connection.execute(
        "select coalesce(max(number), 0) from memory_server.migrations"
    ).fetchall()
    return int(newest)


def prepare(connection: psycopg.Connection[Any], migrate: bool) -> None:
    """Bring the tables up to date, or refuse to work where `migrate` is off and they are not. Raises StorageUnwritable:
    they are older, or newer."""
    if not missing(connection):
        return
    if not migrate:
        raise StorageUnwritable(
            Sentence(
                "The tables of the database are older than this memory-server; run `memory-server migrate`."
            )
        )
    apply(connection)


def apply(connection: psycopg.Connection[Any]) -> list[int]:
    """Apply the migrations that the database lacks, all or none, and return their numbers. Raises
    StorageUnwritable if it has newer ones, psycopg.Error if one fails."""
    scripts = migrations()
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
        # Again under the lock: another node may have done it meanwhile.
        lacking = missing(connection)
        for number in lacking:
            connection.execute(scripts[number])
            connection.execute(
                "insert into memory_server.migrations (number) values (%s)", [number]
            )
    return lacking


log = logging.getLogger(__name__)
T = TypeVar("T")

# --- connections -------------------------------------------------------------------------------------------------

FIRST_SECONDS = 2.0
"""The patience before the database answered for the first time: what is set may be wrong."""
_SPARE = 2
"""The number of connections for calls that are not made by `run`: the event loop must not wait for the connection of
a thread that waits for the event loop."""
_PAUSE_SECONDS = 0.02
_MOST_PAUSE_SECONDS = 0.5
_POOL_SECONDS = 1.0
_LOST = ("08", "57P0", "25006", "25P03", "53300", "40001", "40P01", "57014")
"""The beginnings of the codes of errors after which another attempt may succeed: the connection is lost, the server
ends, starts or is a standby, waited too long for this client, has no connection left, or chose this transaction to
fail."""
_USUAL = {
    "application_name": "memory-server",
    "connect_timeout": "3",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "target_session_attrs": "read-write",
}
"""The settings of libpq where the URL does not say otherwise: a host that is gone is noticed, and a standby is not
written to."""


class Connection(psycopg.Connection[Any]):
    """A connection that waits for no answer after `deadline`, by the monotonic clock."""

    deadline = inf

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        return super().wait(_until(gen, self), *args, **kwargs)


def _until(gen: Generator[Any, Any, T], connection: Connection) -> Generator[Any, Any, T]:
    """Do what `gen`, a wait of psycopg, does, but raise OperationalError if no answer comes before the deadline of the
    connection."""
    try:
        condition = next(gen)
        while True:
            ready = yield condition
            if not ready and time.monotonic() > connection.deadline:
                raise errors.OperationalError("it does not answer")
            condition = gen.send(ready)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


@dataclass(slots=True)
class Attempt:
    """An attempt at a piece of work. `token` is the same in all attempts. `again`: an attempt before this one was lost
    while its COMMIT was on the way, so look for the token; set it to False if the token is not there. `sent`: set it
    before a COMMIT is sent. `deadline`: when patience ends, by the monotonic clock."""

    deadline: float
    token: UUID = field(default_factory=uuid4)
    again: bool = False
    sent: bool = False
    connection: Connection = None  # type: ignore[assignment]

    @property
    def left(self) -> float:
        """Seconds of patience."""
        return max(0.0, self.deadline - time.monotonic())


Work = Callable[[Attempt], T]


class Database:
    """The database at `url`, for all tenants of this process; connects at the first use. `shown` is the URL for people:
    without password. `wait_seconds`: patience, for other writers as for the database itself. Raises InvalidInput: it is
    not a URL of PostgreSQL."""

    def __init__(
        self, url: str, wait_seconds: float = 10.0, options: PostgresSettings | None = None
    ) -> None:
        """Read the URL, and prepare the pool without opening a connection. Raises InvalidInput if
        it is not a URL of PostgreSQL."""
        settings = options or PostgresSettings()
        self.url = url
        self.wait_seconds = wait_seconds
        self.migrates = settings.migrate
        parts = _parts(url)
        if parts is None:
            # Without the reason, which may hold the password.
            raise InvalidInput(
                "`store` is not a URL of PostgreSQL; write it as postgresql://user:password@host:5432/database, and in "
                "a password `%2F` for a slash, `%40` for @ and `%23` for #."
            )

        self.shown = shown(parts)
        self._conninfo = conninfo.make_conninfo("", **(_USUAL | parts))
        # What the pool warns of is said by the errors below, once, and without a line of the client library.
        logging.getLogger("psycopg").setLevel(logging.ERROR)
        self._prepare = {"autocommit": True, "prepare_threshold": 5 if settings.prepare else None}
        self._pool = ConnectionPool(
            self._conninfo,
            connection_class=Connection,
            kwargs=self._prepare,
            min_size=0,
            max_size=settings.connections + _SPARE,
            open=False,
            max_idle=60.0,
            reconnect_timeout=1.0,
        )
        self._connections = settings.connections
        self._threads = ThreadPoolExecutor(settings.connections, "postgres")
        self._opening = threading.Lock()
        self._reached = False
        self._ready = False

    async def run(self, do: Work[T], *, seconds: float | None = None) -> T:
        """Return the result of `do` as `work` does, in another thread. The wait for a thread takes
        from the patience."""
        deadline = self._deadline(seconds)
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, in_this_language(self._work), do, deadline
        )

    def work(self, do: Work[T], *, seconds: float | None = None) -> T:
        """Return what `do` returns, which is called again if its connection is lost, within `seconds` (default: all
        patience).

        Raises:
            OutcomeUnknown: patience ended, and what `do` sent may have been committed.
            LockTimeout: others held the lock, or all connections, for too long; nothing was changed.
            StorageError: the database cannot be reached, or refuses it; nothing was changed.
        """
        return self._work(do, self._deadline(seconds))

    def _deadline(self, seconds: float | None) -> float:
        """Return the monotonic time when patience ends: after these seconds, or after `wait_seconds`."""
        if seconds is None:
            seconds = self.wait_seconds
        return time.monotonic() + seconds

    def _work(self, do: Work[T], deadline: float) -> T:
        """Return the result of `do`, and call it again on another connection while the connection
        is lost, until `deadline`, or sooner if the database never answered. Raises as `work`
        does."""
        # A wrong address should be told soon; a database that answered before may restart.
        if not self._reached:
            deadline = min(deadline, time.monotonic() + FIRST_SECONDS)

        attempt = Attempt(deadline)
        pause = 0.0
        losses = 0
        while True:
            try:
                with self._connected(attempt):
                    return do(attempt)
            except psycopg.Error as error:
                attempt.again = attempt.again or attempt.sent
                if not _is_lost(error):
                    failure = self._unknown() if attempt.again else _refused(error, self)
                    raise failure from error
                # Each connection of the pool may be a dead one, and the next is tried at once. After that the
                # server is down.
                losses += 1
                if losses > self._connections and not isinstance(error, PoolTimeout):
                    pause = min(_MOST_PAUSE_SECONDS, pause * 2 or _PAUSE_SECONDS)
                if attempt.left <= pause:
                    raise self._given_up(error, attempt) from None
                log.debug("again, because the connection was lost: %s", first_line(error))
                time.sleep(pause)

    @contextmanager
    def _connected(self, attempt: Attempt) -> Iterator[None]:
        """Give `attempt` a connection of the pool for the block, on tables that are up to date.
        Raises psycopg.Error if the database gives no connection, StorageUnwritable if its tables
        are older or newer."""
        attempt.sent = False
        if not self._reached:
            self.connect(attempt.left).close()  # its error says why, the pool's error does not
            self._reached = True

        with self._opening:
            if self._pool.closed:
                self._pool.open()

        # Asked again and again: a pool that gave up to connect begins again only when it is asked.
        with self._pool.connection(min(attempt.left, _POOL_SECONDS)) as connection:
            connection.deadline = (
                attempt.deadline + 1.0
            )  # lock_timeout of the server ends first, with its own error
            attempt.connection = connection
            try:
                if not self._ready:
                    prepare(connection, self.migrates)
                    self._ready = True
                yield
            except psycopg.Error as error:
                if _is_lost(error):
                    connection.close()
                raise
            finally:
                # A connection with an open transaction must not go back to the pool.
                if connection.info.transaction_status not in (
                    TransactionStatus.IDLE,
                    TransactionStatus.UNKNOWN,
                ):
                    with suppress(psycopg.Error):
                        connection.rollback()

    def connect(self, seconds: float = FIRST_SECONDS) -> Connection:
        """Open a connection outside the pool, which the caller closes. Raises psycopg.Error."""
        connection = Connection.connect(self._conninfo, **self._prepare)  # type: ignore[arg-type]
        connection.deadline = time.monotonic() + seconds
        return connection

    def _given_up(self, error: psycopg.Error, attempt: Attempt) -> StorageError:
        """Return the error for a connection that stayed lost: OutcomeUnknown if something may have
        been committed, LockTimeout if only the pool has no free connection, else
        StorageUnwritable."""
        if attempt.again:
            return self._unknown()

        # The pool only says that it got no connection; a direct try tells the reason.
        if isinstance(error, PoolTimeout):
            try:
                self.connect().close()
            except psycopg.Error as reason:
                error = reason
            else:
                return LockTimeout(
                    Sentence(
                        "The database {place} has too much to do; try again, nothing was changed.",
                        self.shown,
                    )
                )

        return StorageUnwritable(
            Sentence(
                "The database {place} cannot be reached ({reason}); check that it runs, and what `store` says of host, "
                "user, password and database. Nothing was changed.",
                self.shown,
                first_line(error),
            )
        )

    def migrate(self, *, dry_run: bool = False) -> list[int]:
        """Apply the migrations that the tables lack, or with `dry_run` none, and return their
        numbers. Raises StorageError if the database cannot be reached or refuses it."""
        try:
            with self.connect() as connection:
                if dry_run:
                    return missing(connection)
                return apply(connection)
        except psycopg.Error as error:
            if _is_lost(error):
                raise self._given_up(error, Attempt(0.0)) from None
            raise _refused(error, self) from error

    def _unknown(self) -> OutcomeUnknown:
        """Return the error of a connection that was lost during a commit."""
        return OutcomeUnknown(
            Sentence(
                "The database {place} was lost while it stored this, which may or may not have happened; look before "
                "you repeat it.",
                self.shown,
            )
        )

    def close(self) -> None:
        """Finish what runs, and disconnect; idempotent."""
        self._threads.shutdown()
        self._pool.close()


def _parts(url: str) -> dict[str, str] | None:
    """Split a database URL. Return None if it is malformed or has an unescaped password: a piece of such a password
    would count as host or name of the database, and would be shown."""
    try:
        parts = {name: str(value) for name, value in conninfo.conninfo_to_dict(url).items()}
    except psycopg.Error:
        return None
    location = url.partition("?")[0].partition("://")[2]
    authority, _slash, path = location.partition("/")
    ports = filter(None, parts.get("port", "").split(","))
    is_escaped = authority.count("@") <= 1 and "@" not in path and all(map(str.isdecimal, ports))
    if not is_escaped:
        return None
    return parts


def shown(parts: dict[str, str]) -> str:
    """Write the URL of a connection for people: without password and options."""
    hosts = parts.get("host", "").split(",")
    ports = parts.get("port", "").split(",")
    if len(ports) == 1:
        ports = ports * len(hosts)
    addresses = [
        f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False)
    ]
    user = f"{parts['user']}@" if "user" in parts else ""
    return f"postgresql://{user}{','.join(addresses)}/{parts.get('dbname', '')}"


def first_line(error: BaseException) -> str:
    """Return the text of an error of the database, on one line."""
    text = " ".join(str(error).split())
    return text.removeprefix("connection failed: ").removesuffix(".") or type(error).__name__


def _is_lost(error: psycopg.Error) -> bool:
    """Tell whether the connection failed, and not the statement."""
    if isinstance(error, PoolTimeout) or error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(_LOST)


def _refused(error: psycopg.Error, database: Database) -> StorageError:
    """Return the refusal of the database, as a sentence."""
    match error:
        case errors.LockNotAvailable():
            return LockTimeout(
                Sentence(
                    "Another node is writing there for too long; try again, nothing was changed."
                )
            )
        case errors.InsufficientPrivilege() | errors.UndefinedTable() | errors.InvalidSchemaName():
            return StorageUnwritable(
                Sentence(
                    "The database {place} does not let this user do that ({reason}); run `memory-server migrate` once "
                    "as a user who may create a schema there, and grant this one its use. Nothing was changed.",
                    database.shown,
                    first_line(error),
                )
            )
        case _:
            return StorageUnwritable(
                Sentence(
                    "The database {place} refuses it ({reason}); nothing was changed.",
                    database.shown,
                    first_line(error),
                )
            )

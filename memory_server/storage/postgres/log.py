"""A log of commits in rows, with a compressed snapshot of each partition: what journal.py is in files. It knows bytes
and JSON, and nothing of what they mean. Blocking calls, each on a connection that connection.py gives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg import errors

from memory_server.kernel.values import frozen
from memory_server.storage.postgres.connection import Attempt, Connection

T = TypeVar("T")

KIND = "conversation"
"""The kind of all partitions."""
LEAST_PENDING_BYTES = 64_000
"""The bytes of commits since the last snapshot from which a new one may be due."""
PENDING_SHARE = 4
"""A new snapshot is due when these commits have so many times as many bytes as the last one."""
IDLE_SECONDS = 5.0
"""The time for which the transaction of a node that stopped in the middle keeps others out: less than a writer
waits."""
PAGE = 200
"""The number of commits that are read at once where not all of them may be needed."""

_SINCE = (
    "select version, at_ms, by, changes::text from memory_server.commits "
    "where place = %(place)s and version > %(known)s order by version"
)
_COLD = (
    "select p.version, p.base, p.snapshot, null::bigint, null, null from memory_server.partitions p "
    "where place = %(place)s union all "
    "select c.version, null, null, c.at_ms, c.by, c.changes::text from memory_server.commits c "
    "join memory_server.partitions p using (place) where place = %(place)s and c.version > p.base"
)
_WARM = (
    "select p.version, c.version, c.at_ms, c.by, c.changes::text from memory_server.partitions p "
    "left join memory_server.commits c on c.place = p.place and c.version > %(known)s "
    "where p.place = %(place)s order by c.version"
)


class Line(NamedTuple):
    """A commit: its version, when (milliseconds since 1970) and by whom it was made, and the JSON of its changes."""

    version: int
    at_ms: int
    by: str
    changes: str


class News(NamedTuple):
    """A partition: its version, and the commits since a known version. `snapshot` has the state at version `base`, if
    the whole partition was asked for and has a snapshot."""

    version: int
    lines: Sequence[Line]
    base: int = 0
    snapshot: bytes | None = None


@frozen
class CommitPlan(Generic[T]):
    """What is to be committed (None: nothing): JSON, and whether the archive can change by it; how many records there
    are then, and the result of the decision."""

    result: T
    line: Line | None = None
    archival: bool = False
    records: int = 0


class CommitResult(NamedTuple, Generic[T]):
    """`version` None: nothing was committed. `due`: a new snapshot is. `settled`: the outcome was unknown at first, and
    the commit was found by its token."""

    result: T
    version: int | None = None
    due: bool = False
    settled: bool = False


def place_of(tenant: str, kind: str, name: str) -> UUID:
    """Return the key of a partition: short, spread evenly, and the same in every process."""
    key = "\0".join((tenant, kind, name))
    digest = hashlib.sha256(key.encode()).digest()
    return UUID(bytes=digest[:16])


@frozen
class Log:
    """The partitions of `tenant`."""

    tenant: str

    def place(self, name: str) -> UUID:
        return place_of(self.tenant, KIND, name)

    # --- reading ---------------------------------------------------------------------------------------

    def names(self, connection: Connection, more_than: int = -1) -> list[str]:
        """List the names of the partitions with more records than this, sorted as Python does."""
        rows = connection.execute(
            "select name from memory_server.partitions where tenant = %s and kind = %s and records > %s order by name",
            [self.tenant, KIND, more_than],
        )
        return [name for (name,) in rows]

    def since(self, connection: Connection, name: str, version: int) -> News | None:
        """Read the commits after a version, as a single statement sees them. Return None if the partition is missing."""
        rows = connection.execute(_WARM, {"place": self.place(name), "known": version}).fetchall()
        if not rows:
            return None
        newest_version = rows[0][0]
        lines = [Line(*line) for _newest, *line in rows if line[0] is not None]
        return News(newest_version, lines)

    def whole(self, connection: Connection, name: str) -> News | None:
        """Read the snapshot and the commits after it, as a single statement sees them. Return None if the partition
        is missing."""
        rows = connection.execute(_COLD, {"place": self.place(name)}, binary=True).fetchall()
        head = next((row for row in rows if row[1] is not None), None)
        if head is None:
            return None
        newest_version, base, snapshot, *_no_commit = head
        lines = sorted(
            Line(version, *line)
            for version, line_base, _snapshot, *line in rows
            if line_base is None
        )
        return News(newest_version, lines, base=base, snapshot=snapshot)

    def newest_first(
        self,
        connection: Connection,
        name: str,
        before: int | None = None,
        *,
        page: int = PAGE,
        archival: bool = False,
    ) -> Iterator[Line]:
        """Yield the kept commits before the version `before`, newest first, read by the page as they are needed. With
        `archival` only those by which the archive can change."""
        condition = "and archival" if archival else ""
        while True:
            lines = connection.execute(
                "select version, at_ms, by, changes::text from memory_server.commits "
                f"where place = %s and (%s::bigint is null or version < %s) {condition} order by version desc limit %s",
                [self.place(name), before, before, page],
            ).fetchall()
            yield from map(Line._make, lines)
            if len(lines) < page:
                return
            before = lines[-1][0]

    # --- committing ------------------------------------------------------------------------------------

    def committing(
        self,
        name: str,
        known_version: Callable[[], int | None],
        decide: Callable[[News | None, bool], CommitPlan[T] | None],
    ) -> Callable[[Attempt], CommitResult[T]]:
        """Return work for `Database.run`: lock the partition, `decide` by its news, and commit that with the
        attempt's token. `known_version`: the version after which commits are wanted, or None for the whole partition.
        `decide` learns by True that its news are whole; if it returns None, it is called again with the whole. An
        error that it raises changes nothing."""
        return _CommitWork(self, name, known_version=known_version, decide=decide).work

    # --- compacting ------------------------------------------------------------------------------------

    def fold(self, connection: Connection, name: str, version: int, snapshot: bytes) -> None:
        """Keep a snapshot of a version, unless there is a snapshot of a later version. It needs no lock, because it
        is right whatever came after it."""
        connection.execute(
            "update memory_server.partitions p set snapshot = %b, base = %s, snapshot_format = 1, pending_bytes = "
            "(select coalesce(sum(octet_length(changes::text)), 0) from memory_server.commits c "
            "where c.place = p.place and c.version > %s) where place = %s and base < %s",
            [snapshot, version, version, self.place(name), version],
        )

    def expire(
        self, connection: Connection, since_ms: int, now_ms: int, name: str | None = None
    ) -> None:
        """Delete the folded commits of a partition, or of all, that are no longer kept, by the rule of
        `Horizon.passed`: the clock can be wrong, the order of the versions cannot."""
        connection.execute(
            """
            with kept as (
              select c.place, min(c.version) filter (where c.at_ms between %(since)s and %(now)s) as first
              from memory_server.commits c join memory_server.partitions p using (place)
              where p.tenant = %(tenant)s and p.kind = %(kind)s and (%(name)s::text is null or p.name = %(name)s)
              group by c.place),
            passed as (
              select c.place, max(c.version) as last from memory_server.commits c join kept using (place)
              where c.at_ms < %(since)s and (kept.first is null or c.version < kept.first) group by c.place)
            delete from memory_server.commits c using passed, memory_server.partitions p
            where c.place = passed.place and p.place = c.place and c.version <= least(passed.last, p.base)
            """,
            {
                "since": since_ms,
                "now": now_ms,
                "tenant": self.tenant,
                "kind": KIND,
                "name": name,
            },
        )

    def unfolded(self, connection: Connection, before_ms: int) -> list[str]:
        """List the partitions with commits from before that time that no snapshot has yet."""
        rows = connection.execute(
            "select name from memory_server.partitions p where tenant = %s and kind = %s and version > base and exists "
            "(select from memory_server.commits c where c.place = p.place and c.version > p.base and c.at_ms < %s)",
            [self.tenant, KIND, before_ms],
        )
        return [name for (name,) in rows]

    def rewrite(self, connection: Connection, name: str, change: Callable[[str], str]) -> None:
        """Replace the changes of each commit of a partition by what `change` returns for them: it gets and returns the
        JSON of one commit. One transaction with the lock of the partition; versions and times stay. Raises
        psycopg.Error."""
        place = self.place(name)
        with connection.transaction():
            connection.execute(
                "select from memory_server.partitions where place = %s for update", [place]
            )
            for line in list(self.newest_first(connection, name)):
                changes = change(line.changes)
                if changes != line.changes:
                    connection.execute(
                        "update memory_server.commits set changes = %s::json where place = %s and version = %s",
                        [changes, place, line.version],
                    )

    def adopt(
        self,
        connection: Connection,
        name: str,
        news: News,
        records: int,
        archival: Mapping[int, bool],
    ) -> bool:
        """Make a partition of a conversation of another store: its snapshot, and as `news.lines` the past that the
        snapshot holds already. `archival`: for the version of each line, whether the archive can change by it;
        `records`: how many the snapshot has. One transaction. Return False, and change nothing, if the partition
        exists. Raises psycopg.Error."""
        place = self.place(name)
        with connection.transaction():
            inserted = connection.execute(
                "insert into memory_server.partitions (place, tenant, kind, name, version, base, snapshot, records) "
                "values (%s, %s, %s, %s, %s, %s, %b, %s) on conflict do nothing returning 1",
                [
                    place,
                    self.tenant,
                    KIND,
                    name,
                    news.version,
                    news.base,
                    news.snapshot,
                    records,
                ],
            ).fetchone()
            if inserted is None:
                return False

            for line in news.lines:
                values = (
                    place,
                    line.version,
                    place,
                    line.at_ms,
                    line.by,
                    archival[line.version],
                    line.changes,
                )
                connection.execute(_INSERT, values)

        return True


@frozen
class _LockedPartition:
    """A partition as read under its lock. `version` is None if the partition is missing; `lines`: the commits after
    the known version; `settled`: the version of the commit with this attempt's token."""

    version: int | None
    lines: Sequence[Line]
    settled: int | None


class _CommitWork(Generic[T]):
    """The work of a commit, which may be attempted several times."""

    def __init__(
        self,
        partitions: Log,
        name: str,
        known_version: Callable[[], int | None],
        decide: Callable[[News | None, bool], CommitPlan[T] | None],
    ) -> None:
        """Keep the work for the partition `name`. `known_version` returns the version that the
        caller has, or None. `decide` returns None if the news that it is given are not enough."""
        self._partitions = partitions
        self._name = name
        self._place = partitions.place(name)
        self._known_version = known_version
        self._decide = decide
        self._sent: list[CommitPlan[T]] = []
        """What was decided by each attempt that may have been committed."""

    def work(self, attempt: Attempt) -> CommitResult[T]:
        """Lock, decide and commit; do it again if another node has just made the partition. Raises psycopg.Error."""
        while True:
            try:
                return self._attempted(attempt)
            except errors.UniqueViolation:
                # Another node has made the partition, or an attempt of this update that was lost.
                self._sent.pop()
                attempt.sent = False
                attempt.connection.rollback()

    def _attempted(self, attempt: Attempt) -> CommitResult[T]:
        """Lock the partition, decide by its news, and store the commit. Return the result without
        storing if nothing changes, or if an earlier attempt turns out to have been committed.
        Raises psycopg.Error."""
        known_version = self._known_version()
        partition = self._locked(attempt, known_version)
        # An answer was lost. The token of the attempt tells whether its commit arrived, so that nothing is committed
        # twice.
        if attempt.again and partition.version is not None:
            if partition.settled is not None:
                return CommitResult(self._sent[-1].result, partition.settled, settled=True)
            attempt.again = False
            self._sent.clear()

        decided = None
        if known_version is not None:
            news = None if partition.version is None else News(partition.version, partition.lines)
            decided = self._decide(news, False)

        # The caller's state is too old for these news: read all of it under the same lock.
        if decided is None:
            decided = self._decide(self._partitions.whole(attempt.connection, self._name), True)

        assert decided is not None
        if decided.line is None:
            return CommitResult(decided.result)

        self._sent.append(decided)
        attempt.sent = True
        due = self._store(attempt, decided, decided.line, is_new=partition.version is None)
        return CommitResult(decided.result, decided.line.version, due)

    def _locked(self, attempt: Attempt, known_version: int | None) -> _LockedPartition:
        """Begin a transaction and lock the partition, in one round trip. Return its version, its
        commits after `known_version`, and whether an earlier attempt was committed. Raises
        psycopg.Error."""
        connection = attempt.connection
        timeouts = [
            f"{max(1, round(seconds * 1000))}ms" for seconds in (attempt.left, IDLE_SECONDS)
        ]
        later_lines = None
        settled = None
        # Statements of a pipeline are sent together; their answers come in one round trip.
        with connection.pipeline():
            connection.execute("begin")
            connection.execute(
                "select set_config('lock_timeout', %s, true), "
                "set_config('idle_in_transaction_session_timeout', %s, true)",
                timeouts,
            )
            head = connection.execute(
                "select version from memory_server.partitions where place = %s for update",
                [self._place],
            )
            if known_version is not None:
                later_lines = connection.execute(
                    _SINCE, {"place": self._place, "known": known_version}
                )

            if attempt.again:
                settled = connection.execute(
                    "select version from memory_server.commits where place = %s and token = %s",
                    [self._place, attempt.token],
                )

        lines: list[Line] = []
        if later_lines is not None:
            lines = list(map(Line._make, later_lines))

        return _LockedPartition(_first_number(head), lines, _first_number(settled))

    def _store(self, attempt: Attempt, decided: CommitPlan[T], line: Line, *, is_new: bool) -> bool:
        """Store and commit what was decided, in one round trip. Return whether a new snapshot is
        due, because the commits after the last one have grown large. Raises psycopg.Error:
        UniqueViolation if another node has made the partition."""
        connection = attempt.connection
        partitions = self._partitions
        size = len(line.changes.encode())
        with connection.pipeline():
            if is_new:
                head = connection.execute(
                    "insert into memory_server.partitions (place, tenant, kind, name, version, pending_bytes, records) "
                    "values (%s, %s, %s, %s, %s, %s, %s) returning pending_bytes, 0",
                    [
                        self._place,
                        partitions.tenant,
                        KIND,
                        self._name,
                        line.version,
                        size,
                        decided.records,
                    ],
                )
            else:
                head = connection.execute(
                    "update memory_server.partitions set version = %s, pending_bytes = pending_bytes + %s, "
                    "records = %s, changed_at = now() where place = %s "
                    "returning pending_bytes, coalesce(octet_length(snapshot), 0)",
                    [line.version, size, decided.records, self._place],
                )

            values = [
                self._place,
                line.version,
                attempt.token,
                line.at_ms,
                line.by,
                decided.archival,
                line.changes,
            ]
            connection.execute(_INSERT, values)
            connection.execute("commit")

        [(pending_bytes, snapshot_bytes)] = head.fetchall()
        return bool(
            pending_bytes > LEAST_PENDING_BYTES and pending_bytes > PENDING_SHARE * snapshot_bytes
        )


def _first_number(cursor: psycopg.Cursor[Any] | None) -> int | None:
    """Return the number in the first row of an answer, or None without a row or an answer."""
    row = None if cursor is None else cursor.fetchone()
    if row is None:
        return None
    number: int = row[0]
    return number


_INSERT = (
    "insert into memory_server.commits (place, version, token, at_ms, by, archival, changes) "
    "values (%s, %s, %s, %s, %s, %s, %s::json)"
)


# --- about whole tenants: `%(tenant)s` names one ---------------------------------------------------------------

TENANTS = (
    "select tenant from memory_server.partitions where tenant <> '' "
    "union select tenant from memory_server.all_stores where tenant <> '' order by tenant"
)
COUNT = (
    "select coalesce(sum(pending_bytes + coalesce(octet_length(snapshot), 0)), 0) from memory_server.partitions "
    "where tenant = %(tenant)s"
)
"""The bytes of the partitions; what is kept of their past comes on top."""
ERASE = (
    "delete from memory_server.commits where place in "  # noqa: ISC004
    "(select place from memory_server.partitions where tenant = %(tenant)s)",
    "delete from memory_server.partitions where tenant = %(tenant)s",
    "delete from memory_server.pauses where tenant = %(tenant)s",
    "delete from memory_server.upkeep where tenant = %(tenant)s",
)
PARTITIONS_WITHOUT_A_COMMIT = (
    "select name, kind from memory_server.partitions p where tenant = %(tenant)s and version - base <> "
    "(select count(*) from memory_server.commits c where c.place = p.place and c.version > p.base)"
)
"""The conversation and the kind of each partition that lacks a commit after its snapshot."""

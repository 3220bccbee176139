"""The tables, as numbered files of SQL in `migrations/`: each is applied once, in order, all of them in one
transaction. A file that was released is never changed; what is new is a file with the next number."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import psycopg

from languages import Sentence
from memory_server.kernel.errors import StorageUnwritable

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
    """Apply what is missing; the numbers of it."""
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

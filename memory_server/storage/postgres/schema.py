"""The tables, as numbered files of SQL in `migrations/`: each is applied once, in order, all of them in one
transaction. A file that was released is never changed; what is new is a file with the next number."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import psycopg

from memory_server.kernel.errors import StorageUnwritable
from sandbox.locale import _

_LOCK = 0x6D656D73
"""Of the advisory lock, held for the transaction, that lets one node migrate at a time."""


def migrations() -> dict[int, str]:
    """The SQL of each migration by its number, in order."""
    folder = files("memory_server.storage.postgres") / "migrations"
    found = {int(each.name[:4]): each for each in folder.iterdir() if each.name.endswith(".sql")}
    return {number: found[number].read_text("utf-8") for number in sorted(found)}


def missing(connection: psycopg.Connection[Any]) -> list[int]:
    """The numbers of the migrations that the database lacks. Raises StorageUnwritable: it has newer ones."""
    known, there = migrations(), 0
    # Not `to_regclass`, which may answer from before another node migrated.
    if connection.execute(
        "select from pg_catalog.pg_tables where schemaname = 'memory_server' and tablename = 'migrations'"
    ).fetchall():
        [[there]] = connection.execute("select coalesce(max(number), 0) from memory_server.migrations").fetchall()
    if there > max(known):
        raise StorageUnwritable(
            _(
                "The tables of the database are newer ({there}) than this memory-server knows ({known}); update this "
                "memory-server. Nothing was changed.",
                there,
                max(known),
            )
        )
    return [number for number in known if number > there]


def prepare(connection: psycopg.Connection[Any], migrate: bool) -> None:
    """Bring the tables up to date, or refuse to work where `migrate` is off and they are not. Raises StorageUnwritable:
    they are older, or newer."""
    if not missing(connection):
        return
    if not migrate:
        raise StorageUnwritable(
            _("The tables of the database are older than this memory-server; run `memory-server migrate`.")
        )
    apply(connection)


def apply(connection: psycopg.Connection[Any]) -> list[int]:
    """Apply what is missing; the numbers of it."""
    known = migrations()
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
        # Again under the lock: another node may have done it meanwhile.
        lacking = missing(connection)
        for number in lacking:
            connection.execute(known[number])
            connection.execute("insert into memory_server.migrations (number) values (%s)", [number])
    return lacking

"""PostgreSQL for tests: the server that `MEMORY_SERVER_TEST_POSTGRES` names or that runs on this machine, with a
database for this form of the tables; each test has a tenant of its own. Without a server tests skip."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from secrets import token_hex

import psycopg
import pytest
from psycopg import errors

from memory_server.storage.postgres.connection import Database, migrations
from memory_server.storage.postgres.entry_rows import ERASE_OWN
from memory_server.storage.postgres.log import ERASE

_NAMED = os.environ.pop("MEMORY_SERVER_TEST_POSTGRES", None)
"""Taken out of the environment: the commands of tests would report an unknown setting."""
PLACES = ("postgresql://127.0.0.1:5432/test", "postgresql:///test?host=/var/run/postgresql")


def postgres() -> str:
    """The URL of a database of these tests; skips where there is no server."""
    url, why = _database()
    if url is None:
        pytest.skip(why)
    return url


@cache
def _database() -> tuple[str | None, str]:
    urls = (_NAMED,) if _NAMED else PLACES
    form = hashlib.sha256("".join(migrations().values()).encode()).hexdigest()[:8]
    name = f"memory_server_tests_{form}"
    for url in urls:
        try:
            with (
                psycopg.connect(url, autocommit=True, connect_timeout=3) as connection,
                suppress(errors.DuplicateDatabase, errors.UniqueViolation),
            ):
                connection.execute(f"create database {name} template template0 encoding 'UTF8'")
        except psycopg.OperationalError:
            continue
        host, _, query = url.partition("?")
        return f"{host.rpartition('/')[0]}/{name}" + (f"?{query}" if query else ""), ""
    return None, f"no PostgreSQL at {' or '.join(filter(None, urls))}"


@contextmanager
def tenant_of_its_own() -> Iterator[tuple[Database, str]]:
    """A database and a tenant that nobody else has, whose rows are gone afterwards."""
    name = f"test-{token_hex(8)}"
    database = Database(postgres())
    try:
        yield database, name
    finally:
        with psycopg.connect(postgres(), autocommit=True) as connection:
            for statement in (*ERASE, *ERASE_OWN):
                connection.execute(statement, {"tenant": name})
        database.close()


@contextmanager
def database_of_its_own() -> Iterator[str]:
    """The URL of an empty database, which is dropped afterwards."""
    name = f"memory_server_{token_hex(8)}"
    with psycopg.connect(postgres(), autocommit=True) as connection:
        connection.execute(f"create database {name} template template0 encoding 'UTF8'")
    host, _, query = postgres().partition("?")
    try:
        yield f"{host.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
    finally:
        with psycopg.connect(postgres(), autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)")

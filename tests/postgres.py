"""PostgreSQL for tests: the server that `MEMORY_SERVER_TEST_POSTGRES` names or that runs on this machine, with a database
for this form of the tables; each test has a tenant of its own. Without a server tests skip."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from secrets import token_hex

import pytest
from sample_memories import NOW

from memory_server.storage.json_store.store import StoreParameters

PLACES = ("postgresql://127.0.0.1:5432/test", "postgresql:///test?host=/var/run/postgresql")


def postgres() -> str:
    """The URL of a database of these tests; skips where there is no server."""
    url, why = _database()
    if url is None:
        pytest.skip(why)
    return url


@cache
def _database() -> tuple[str | None, str]:
    named = os.environ.get("MEMORY_SERVER_TEST_POSTGRES")
    places = (named,) if named else PLACES
    try:
        import psycopg
        from psycopg import conninfo, errors
    except ImportError:
        return None, "psycopg is not installed"
    from memory_server.storage.postgres import schema

    form = hashlib.sha256("".join(schema.migrations().values()).encode()).hexdigest()[:8]
    name = f"memory_server_tests_{form}"
    for place in places:
        try:
            with psycopg.connect(place, autocommit=True, connect_timeout=3) as connection:
                try:
                    connection.execute(f"create database {name} template template0 encoding 'UTF8'")
                except (errors.DuplicateDatabase, errors.UniqueViolation):
                    pass
        except psycopg.OperationalError:
            continue
        host, _, query = place.partition("?")
        return f"{host.rpartition('/')[0]}/{name}" + (f"?{query}" if query else ""), ""
    return None, f"no PostgreSQL at {' or '.join(filter(None, places))}"


@contextmanager
def tenant_of_its_own(**parameters: object) -> Iterator[tuple[object, object]]:
    """A database and a tenant that nobody else has, whose rows are gone afterwards."""
    from memory_server.storage.postgres.connection import Database

    database = Database(postgres(), wait_seconds=10.0)
    tenant = f"test-{token_hex(8)}"
    try:
        yield database, tenant
    finally:
        database.close()


def store_of(database: object, tenant: str, **parameters: object) -> object:
    from memory_server.storage.postgres.conversations import PostgresStore

    return PostgresStore(database, tenant, lambda: NOW, StoreParameters(**parameters))  # type: ignore[arg-type]

"""The knowledge of a tenant that nobody else has, in PostgreSQL; skips where there is no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from secrets import token_hex
from typing import Any

from postgres import postgres

NOW = 1_750_000_000_000


@cache
def database() -> Any:
    """One for all tests of this process: its pool closes with it."""
    from memory_server.storage.postgres.connection import Database

    return Database(postgres(), wait_seconds=10.0)


@contextmanager
def url_of_its_own() -> Iterator[str]:
    """Of a tenant whose rows are gone afterwards."""
    tenant = f"test-{token_hex(8)}"
    yield f"{postgres()}#{tenant}"
    erase(tenant)


def erase(tenant: str) -> None:
    from memory_server.storage.postgres.entry_rows import ERASE_OWN
    from memory_server.storage.postgres.log import ERASE

    with database().connect() as connection:
        for statement in (*ERASE, *ERASE_OWN):
            connection.execute(statement, {"tenant": tenant})


@contextmanager
def entries_of_its_own(clock: Callable[[], int] = lambda: NOW, tenant: str = "", **more: Any) -> Iterator[Any]:
    from memory_server.storage.postgres.entries import PostgresEntries

    postgres()
    named = tenant or f"test-{token_hex(8)}"
    yield PostgresEntries(clock, database(), named, **more)
    if not tenant:
        erase(named)


def everywhere(text: str, url: str | None = None) -> list[str]:
    """The tables of the whole database, those of PostgreSQL too, whose rows hold a text, whoever's they are."""
    import psycopg

    with psycopg.connect(url or postgres(), autocommit=True) as connection:
        tables = connection.execute(
            "select name from pg_tables, format('%I.%I', schemaname, tablename) name "
            "where has_table_privilege(name, 'select')"
        ).fetchall()
        forms = [f"%{text}%", f"%{text.encode().hex()}%"]
        held = "select count(*) from {} t where t::text ilike %s or t::text ilike %s"
        found = [(name, connection.execute(held.format(name), forms).fetchone()) for (name,) in tables]
        return [name for name, count in found if count != (0,)]


def analyze() -> None:
    with database().connect() as connection:
        connection.execute("analyze")

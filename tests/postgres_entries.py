"""The knowledge of a tenant that nobody else has, in PostgreSQL; skips where there is no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    """The URL of a tenant whose rows are gone afterwards."""
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
def entries_of_its_own(
    clock: Callable[[], int] = lambda: NOW, tenant: str = "", **more: Any
) -> Iterator[Any]:
    from memory_server.storage.postgres.entries import PostgresEntries

    postgres()
    named = tenant or f"test-{token_hex(8)}"
    yield PostgresEntries(clock, database(), named, **more)
    if not tenant:
        erase(named)


_READABLE = "select name from pg_tables, format('%I.%I', schemaname, tablename) name where has_table_privilege(name, 'select')"
_OURS = f"{_READABLE} and schemaname not in ('pg_catalog', 'information_schema')"


def everywhere(text: str, url: str | None = None) -> list[str]:
    """The tables of the whole database, those of PostgreSQL too, whose rows hold a text, whoever's they are."""
    return _tables_with([text], url or postgres(), _READABLE)


def everywhere_one_of(texts: Sequence[str]) -> list[str]:
    """The same for several texts at once: it takes as long as for one."""
    return _tables_with(texts, postgres(), _READABLE)


def tables_of_ours_with(text: str) -> list[str]:
    """The tables of the program whose rows hold a text, whoever's they are."""
    return _tables_with([text], postgres(), _OURS)


def _tables_with(texts: Sequence[str], url: str, tables: str) -> list[str]:
    import psycopg

    forms = [f"%{text}%" for text in texts] + [f"%{text.encode().hex()}%" for text in texts]
    holding = []
    with psycopg.connect(url, autocommit=True) as connection:
        for (name,) in connection.execute(tables).fetchall():
            has_text = f"select exists (select from {name} t where t::text ilike any(%s))"
            if connection.execute(has_text, [forms]).fetchone() == (True,):
                holding.append(name)
    return holding


def analyze() -> None:
    with database().connect() as connection:
        connection.execute("analyze")

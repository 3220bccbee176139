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
def entries_of_its_own(clock: Callable[[], int] = lambda: NOW, tenant: str = "", **more: Any) -> Iterator[Any]:
    from memory_server.storage.postgres.entries import PostgresEntries

    postgres()
    yield PostgresEntries(clock, database(), tenant or f"test-{token_hex(8)}", **more)

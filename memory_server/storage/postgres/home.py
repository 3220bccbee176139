"""A home in PostgreSQL. What is about this machine stays in a folder: layers, which are Markdown files of the user,
what hooks gave to sessions, and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from memory_server.kernel.meter import Meter
from memory_server.storage.data_dir import Home, StoreParameters
from memory_server.storage.options import PostgresSettings
from memory_server.storage.postgres.connection import Database
from memory_server.storage.token_file import named


class PostgresHome(Home):
    """The memories of `tenant` ("": nobody's in particular) in `database`, which several homes share; the first one,
    made by `open_home`, closes it."""

    def __init__(
        self,
        place: Path,
        clock: Callable[[], int],
        parameters: StoreParameters | None,
        meter: Meter | None,
        database: Database,
        tenant: str = "",
        *,
        owns: bool = True,
    ) -> None:
        super().__init__(place, clock, parameters, meter)
        self.database, self.tenant_name, self._owns = database, tenant, owns

    @property
    def shown(self) -> str:
        return f"{self.database.shown}#{self.tenant_name}".removesuffix("#")

    def close(self) -> None:
        if self._owns:
            self.database.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)


def open_database(
    url: str,
    place: Path,
    clock: Callable[[], int],
    parameters: StoreParameters | None,
    meter: Meter | None,
    options: PostgresSettings | None,
    beside: Home | None,
) -> PostgresHome:
    """The home at `url`, which may end with `#TENANT`, with its files in `place`. It shares the database of `beside`,
    if that is the same. Connects to nothing."""
    url, _, tenant = url.partition("#")
    if tenant:
        named(tenant, "tenant")
    shared = beside.database if isinstance(beside, PostgresHome) and beside.database.url == url else None
    wait_seconds = (parameters or StoreParameters()).wait_seconds
    database = Database(url, wait_seconds, options) if shared is None else shared
    return PostgresHome(place, clock, parameters, meter, database, tenant, owns=shared is None)

"""What users may set of the files: defaults, bounds and meanings. `config/settings.py` makes a section of it."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt

from memory_server.conversations.archive import KEEP_MS
from memory_server.kernel.times import DAY_MS
from memory_server.kernel.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """The JSON files."""

    wait_seconds: Annotated[float, Gt(0)] = 10.0
    """Seconds that a call waits for another writer or for the database."""
    idle_seconds: Annotated[float, Gt(0)] = 3.0
    """Seconds without a change after which the JSON files of a conversation are updated."""
    open_conversations: Annotated[int, Ge(1)] = 64
    """Conversations that stay in memory; the one used longest ago leaves first."""
    open_minutes: Annotated[float, Gt(0)] = 30.0
    """Minutes without use after which a conversation leaves memory; over HTTP 5, for 4 conversations of a tenant."""
    archive_days: Annotated[float, Gt(0)] = KEEP_MS / DAY_MS
    """Days for which removed memories and changes can come back; then their text is deleted."""

    @property
    def keep_ms(self) -> int:
        """`archive_days` in milliseconds."""
        return round(self.archive_days * DAY_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParameters(StorageSettings):
    """Numbers of the store, each with its unit; docs/reference/data-folder.md."""

    small_bytes: int = 1_000_000
    """Snapshots up to this size are compacted when idle, larger ones when the journal is larger than they are."""
    read_only: bool = False
    """Whether the disk is never changed."""
    exit_seconds: float = 0.3
    """Time for compaction when the store is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """Memories in PostgreSQL, if `store` names a database."""

    connections: Annotated[int, Ge(1)] = 10
    """Connections of a process to the database at most, besides two for small questions."""
    prepare: bool = True
    """Whether statements are prepared; false for a pooler such as PgBouncer before 1.21."""
    migrate: bool = True
    """Whether a process updates the tables by itself; otherwise run `memory-server migrate`."""

"""What the statements about entries need of a database: SQLite and PostgreSQL have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from memory_server.kernel.scopes import Scope
    from memory_server.storage.entries.rows import ScopeRows


class Database(Protocol):
    """A connection to a database of entries, in a transaction. Statements have `?` or `:name` for their values."""

    def execute(self, statement: str, values: Any = (), /) -> Any:
        """Return the rows of a statement, as a cursor of the DB-API."""

    def executemany(self, statement: str, values: Any, /) -> Any: ...
    def insert(self, table: Literal["entries", "operations"], values: Mapping[str, Any]) -> int:
        """Store a row, and give it the next number of its table."""

    def view(self, scope: Scope, embeds: str = "", *, make: bool = False) -> ScopeRows: ...
    def json_of(self, text: str | bytes, damaged: Any) -> Any:
        """Parse a value that was stored as JSON. Return `damaged` if it cannot be read, and such values are shown."""

    def field(self, column: str, name: str) -> str:
        """Return the SQL of a text in a column of JSON."""

    def empty_index(self) -> None:
        """Nothing of deleted entries is left in it; it is of the normal form of this process."""

    def merge_index(self) -> None:
        """Merge the pieces of the index."""

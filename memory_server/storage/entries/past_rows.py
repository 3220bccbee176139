"""The past of the entries of a scope, as rows: what operations changed, and what was there before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from memory_server.kernel.scopes import Scope
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import (
    Entry,
    Former,
    change_id,
    changed_by_json,
    seq_of,
    usable_fields,
)

INDEXED_FIELDS = {"title", "tags", "body", "examples", "archived_ms"}
"""The fields that the index depends on."""


class FormerRow(NamedTuple):
    """The row that tells what a change did to an entry. `before`: its fields as JSON; None: it was new."""

    entry_id: int
    before: str | None
    after_version: int


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """An entry as it is stored, and what it was before; None where nothing is different."""

    entry: Entry | None = None
    former: FormerRow | None = None


class PastRows:
    """What a scope knows of the past; a scope that does not exist knows nothing, and gets a number with `make`."""

    AMONG: ClassVar[str]
    """SQL after a column: it has one of the values that `listed` makes one value of."""

    def __init__(self, connection: Any, scope: Scope, *, make: bool) -> None:
        self._connection = connection
        self._scope = scope
        values = (scope.space, scope.owner)
        if make:
            connection.execute(
                "INSERT INTO scopes(space, owner) VALUES(?, ?) ON CONFLICT DO NOTHING", values
            )
        row = connection.execute(
            "SELECT id FROM scopes WHERE space = ? AND owner = ?", values
        ).fetchone()
        self._number: int | None = None if row is None else row[0]

    @abstractmethod
    def listed(self, values: Sequence[Any]) -> Any:
        """A list as `AMONG` takes it."""

    @abstractmethod
    def rows(self, condition: str, values: Sequence[Any]) -> Iterator[Entry]:
        """The entries that meet a condition."""

    def object_of(self, text: str | bytes) -> dict[str, Any]:
        """The object of JSON that a text is; an empty one, if it is another value."""
        value = self._connection.json_of(text, {})
        return value if isinstance(value, dict) else {}

    def changed_after(self, entry_id: int, seq: int) -> int | None:
        """As `ScopeView.changed_after`. Only two changes that are both later than `seq` leave the entry as it was."""
        rows = self._connection.execute(
            "SELECT DISTINCT o.seq, o.op, o.detail FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE c.entry = ? AND o.seq > ? ORDER BY o.seq DESC",
            (entry_id, seq),
        )
        taken_back: set[str] = set()
        for later_seq, op, detail in rows:
            undone = ""
            if op == "undo":
                undone = str(self.object_of(detail).get("change", ""))
            if change_id(later_seq) in taken_back:
                continue
            if not undone or undone in taken_back or seq_of(undone) <= seq:
                return int(later_seq)
            taken_back.add(undone)
        return None

    def changed_since(self, seq: int) -> tuple[list[Entry], list[str]]:
        """As `ScopeView.changed_since`."""
        since = "SELECT entry FROM changes WHERE operation > ?"
        removed = self._connection.execute(
            "SELECT c.before FROM changes c JOIN operations o ON o.seq = c.operation "
            f"WHERE o.scope = ? AND o.seq > ? AND c.after_version = 0 AND c.entry IN ({since} AND after_version > 0)",
            (self._number, seq, seq),
        )
        refs = [usable_fields(self.object_of(row[0])).get("ref") for row in removed.fetchall()]
        changed = list(self.rows(f"e.id IN ({since})", [seq]))
        return changed, [ref for ref in refs if ref is not None]

    def former(self, seq: int) -> list[Former]:
        """As `ScopeView.former`."""
        rows = self._connection.execute(
            "SELECT c.entry, c.before, c.after_version FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE o.seq = ? AND o.scope = ? ORDER BY c.rowid",
            (seq, self._number),
        )
        formers = []
        for entry_id, before, after_version in rows:
            fields = None if before is None else usable_fields(self.object_of(before))
            formers.append(Former(entry_id, fields, after_version))
        return formers

    def former_texts(self, ids: Sequence[int]) -> list[str]:
        """As `ScopeView.former_texts`."""
        rows = self._connection.execute(
            f"SELECT before FROM changes WHERE before NOTNULL AND entry {self.AMONG}",
            (self.listed(ids),),
        )
        texts = []
        for (before,) in rows:
            fields = usable_fields(self.object_of(before))
            texts += [fields[name] for name in ("body", "title", "source") if fields.get(name)]
        return texts

    def former_entries(self) -> list[Entry]:
        """As `ScopeView.former_entries`. A change keeps only what it replaced, so each entry is followed back from the
        one that is there now."""
        rows = self._connection.execute(
            "SELECT c.entry, c.before FROM changes c JOIN operations o ON o.seq = c.operation "
            "WHERE o.scope = ? AND c.before NOTNULL ORDER BY c.operation DESC, c.rowid DESC",
            (self._number,),
        ).fetchall()
        entries = {entry.id: entry for entry in self.rows("true", [])}
        former_entries: list[Entry] = []
        for entry_id, before in rows:
            fields = usable_fields(self.object_of(before))
            entries[entry_id] = changed_by_json(entries.get(entry_id, Entry("")), fields)
            if fields.keys() & INDEXED_FIELDS:
                former_entries.append(entries[entry_id])
        return former_entries

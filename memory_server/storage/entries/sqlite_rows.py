"""Entries as rows of SQLite: its index (FTS5), its connections, and rows of a damaged file, as far as they are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import Entry
from memory_server.storage.entries.rows import COLUMNS, INDEXED, ScopeRows
from nlp.index_terms import IndexTerm, signature, terms_of
from sandbox.locale import _

TERMS = """CREATE VIRTUAL TABLE terms USING fts5(title, tags, body, tokenize = "ascii tokenchars '+#_'")"""
"""Of each live entry, under its id, the terms of its texts (nlp/index_terms.py), each with the number of its scope:
`7_披萨`. A query of one scope cannot match the entries of another, and the rarity of a term is that in its scope."""
_FOUND = "SELECT rowid FROM terms WHERE terms MATCH ?"


class Connection(sqlite3.Connection):
    """A connection to a file of entries, or to memory; it is a `Database`."""

    @property
    def lenient(self) -> bool:
        """Whether damaged entries are shown as far as they can be read, and left out where they cannot."""
        return self.text_factory is _lenient

    def read_leniently(self) -> None:
        """From now on texts that are not UTF-8 are read with U+FFFD in place of what is not."""
        self.text_factory = _lenient

    def insert(self, table: str, values: Mapping[str, Any]) -> int:
        statement = f"INSERT INTO {table}({', '.join(values)}) VALUES({', '.join(f':{name}' for name in values)})"
        return self.execute(statement, values).lastrowid or 0

    def view(self, scope: Scope, embeds: str = "", *, make: bool = False) -> SqliteRows:
        return SqliteRows(self, scope, embeds, make=make)

    def json_of(self, text: str | bytes, damaged_value: Any) -> Any:
        """Raises sqlite3.DatabaseError: it cannot be read, and this connection is not lenient."""
        try:
            return orjson.loads(text)
        except ValueError as error:
            if self.lenient:
                return damaged_value
            raise damaged(_("a value is not JSON: {reason}", error)) from error

    def field(self, column: str, name: str) -> str:
        return f"json_extract({column}, '$.{name}')"

    def empty_index(self) -> None:
        """It is made again, so that a damaged one is mended, and nothing of deleted entries is left in it."""
        self.execute("DROP TABLE terms")
        self.execute(TERMS)
        self.execute("UPDATE meta SET value = ? WHERE name = 'terms'", (signature(),))

    def merge_index(self) -> None:
        self.execute("INSERT INTO terms(terms) VALUES('optimize')")


def _lenient(raw: bytes) -> str:
    return raw.decode(errors="replace")


def damaged(said: str) -> sqlite3.DatabaseError:
    """The error of a file that SQLite reads, and that is damaged all the same."""
    error = sqlite3.DatabaseError(said)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


class SqliteRows(ScopeRows):
    AMONG = "IN (SELECT value FROM json_each(?))"
    # A list of tags may be damaged.
    TAGGED = f"EXISTS(SELECT 1 FROM json_each(iif(json_valid(e.tags), e.tags, '[]')) tag WHERE fold(tag.value) {AMONG})"
    HOLDS = "instr(fold(e.title || char(10) || e.body || char(10) || e.examples), fold(?))"
    BYTES = "length(CAST({} AS BLOB))"

    def listed(self, values: Sequence[Any]) -> str:
        return orjson.dumps(values).decode()

    def index(self, entry: Entry) -> None:
        texts = (entry.title, "\n".join(entry.tags), "\n".join((entry.body, *entry.examples)))
        terms = (" ".join(f"{self._number}_{term}" for term in terms_of(text)) for text in texts)
        self._connection.execute("INSERT INTO terms(rowid, title, tags, body) VALUES(?, ?, ?, ?)", (entry.id, *terms))

    def unindex(self, id: int) -> None:
        self._connection.execute("DELETE FROM terms WHERE rowid = ?", (id,))

    def rows(self, condition: str, values: Sequence[Any]) -> Iterator[Entry]:
        if not self._connection.lenient:
            return super().rows(condition, values)
        ids = [row[0] for row in self._selected("e.id", condition, values).fetchall()]
        query = f"SELECT {COLUMNS} FROM entries e WHERE e.id {self.AMONG}"
        return (self.entry(row) for each in ids for row in self._readable(query, [each]))

    def _readable(self, query: str, ids: Sequence[int]) -> list[Any]:
        """The rows of these ids; where the file is damaged, only those that can be read."""
        try:
            return list(self._connection.execute(query, (self.listed(ids),)))
        except sqlite3.Error:
            if not self._connection.lenient:
                raise
            return [] if len(ids) == 1 else [row for each in ids for row in self._readable(query, [each])]

    def _match(self, sought: Sequence[IndexTerm]) -> str:
        return " OR ".join(f'"{self._number}_{each.term}"{" *" if each.prefix else ""}' for each in sought)

    def _scored(self, sought: Sequence[IndexTerm]) -> tuple[str, list[Any]]:
        score = f"bm25(terms, {', '.join(map(str, INDEXED.values()))})"
        return f"SELECT rowid id, {score} score FROM terms WHERE terms MATCH ?", [self._match(sought)]

    def _matched(self, ids: Sequence[int], sought: Sequence[IndexTerm]) -> Mapping[int, Mapping[str, tuple[str, ...]]]:
        fields = ", ".join(f"' ' || {name} || ' '" for name in INDEXED)
        terms = [(f" {self._number}_{each.term}{'' if each.prefix else ' '}", each.word) for each in sought]
        found = {}
        for number, *texts in self._readable(f"SELECT rowid, {fields} FROM terms WHERE rowid {self.AMONG}", ids):
            words = (tuple(word for term, word in terms if term in text) for text in texts)
            found[number] = {name: held for name, held in zip(INDEXED, words, strict=True) if held}
        return found

    def _holding(self, sought: Sequence[IndexTerm]) -> list[int]:
        match = " AND ".join(f'"{self._number}_{each.term}"' for each in sought)
        return [row[0] for row in self._connection.execute(_FOUND, (match,))]

    def _fields_with(self, sought: Sequence[IndexTerm]) -> Iterator[tuple[int, int, int]]:
        for number, each in enumerate(sought):
            for place, column in enumerate(INDEXED):
                for (entry_id,) in self._connection.execute(_FOUND, (f"{column} : {self._match([each])}",)):
                    yield entry_id, place, number

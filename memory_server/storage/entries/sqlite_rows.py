"""Entries as rows of SQLite: its index (FTS5), its connections, and rows of a damaged file, as far as they are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from languages import _
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import Entry
from memory_server.storage.entries.rows import COLUMNS, INDEXED, ScopeRows
from nlp.index_terms import IndexTerm, signature, terms_of

TERMS = """CREATE VIRTUAL TABLE terms USING fts5(title, tags, body, tokenize = "ascii tokenchars '+#_'")"""
"""The index: of each live entry, under its id, the terms of its texts (nlp/index_terms.py), each with the number of
its scope: `7_披萨`. A query of a scope cannot match the entries of another scope, and the rarity of a term is its
rarity in the scope."""
_MATCHING = "SELECT rowid FROM terms WHERE terms MATCH ?"


class Connection(sqlite3.Connection):
    """A connection to a file of entries, or to memory; it is a `Database`."""

    @property
    def lenient(self) -> bool:
        """Whether damaged entries are shown as far as they can be read, and left out where they cannot."""
        return self.text_factory is _lenient

    def read_leniently(self) -> None:
        """Read texts that are not UTF-8 from now on, with U+FFFD in place of what is not."""
        self.text_factory = _lenient

    def insert(self, table: str, values: Mapping[str, Any]) -> int:
        columns = ", ".join(values)
        parameters = ", ".join(f":{name}" for name in values)
        cursor = self.execute(f"INSERT INTO {table}({columns}) VALUES({parameters})", values)
        return cursor.lastrowid or 0

    def view(self, scope: Scope, embeds: str = "", *, make: bool = False) -> SqliteRows:
        return SqliteRows(self, scope, embeds, make=make)

    def json_of(self, text: str | bytes, damaged_value: Any) -> Any:
        """Parse a value that was stored as JSON. Raises sqlite3.DatabaseError: it cannot be read, and this connection
        is not lenient."""
        try:
            return orjson.loads(text)
        except ValueError as error:
            if self.lenient:
                return damaged_value
            raise damaged(_("a value is not JSON: {reason}", error)) from error

    def field(self, column: str, name: str) -> str:
        return f"json_extract({column}, '$.{name}')"

    def empty_index(self) -> None:
        """Make the index again, so that a damaged index is mended, and nothing of deleted entries is left in it."""
        self.execute("DROP TABLE terms")
        self.execute(TERMS)
        self.execute("UPDATE meta SET value = ? WHERE name = 'terms'", (signature(),))

    def merge_index(self) -> None:
        self.execute("INSERT INTO terms(terms) VALUES('optimize')")


def _lenient(raw: bytes) -> str:
    return raw.decode(errors="replace")


def damaged(sentence: str) -> sqlite3.DatabaseError:
    """Return the error of a file that SQLite reads, and that is damaged all the same."""
    error = sqlite3.DatabaseError(sentence)
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
        title_terms = self._indexed_terms(entry.title)
        tag_terms = self._indexed_terms("\n".join(entry.tags))
        body_terms = self._indexed_terms("\n".join((entry.body, *entry.examples)))
        self._connection.execute(
            "INSERT INTO terms(rowid, title, tags, body) VALUES(?, ?, ?, ?)",
            (entry.id, title_terms, tag_terms, body_terms),
        )

    def _indexed_terms(self, text: str) -> str:
        return " ".join(f"{self._number}_{term}" for term in terms_of(text))

    def unindex(self, id: int) -> None:
        self._connection.execute("DELETE FROM terms WHERE rowid = ?", (id,))

    def rows(self, condition: str, values: Sequence[Any]) -> Iterator[Entry]:
        if self._connection.lenient:
            return self._readable_entries(condition, values)
        return super().rows(condition, values)

    def _readable_entries(self, condition: str, values: Sequence[Any]) -> Iterator[Entry]:
        ids = [row[0] for row in self._selected("e.id", condition, values).fetchall()]
        query = f"SELECT {COLUMNS} FROM entries e WHERE e.id {self.AMONG}"
        for entry_id in ids:
            yield from self.entries_of(self._readable(query, [entry_id]))

    def _readable(self, query: str, ids: Sequence[int]) -> list[Any]:
        """Read the rows of these ids; where the file is damaged, only the rows that can be read."""
        try:
            return list(self._connection.execute(query, (self.listed(ids),)))
        except sqlite3.Error:
            if not self._connection.lenient:
                raise
        if len(ids) == 1:
            return []
        rows = []
        for entry_id in ids:
            rows += self._readable(query, [entry_id])
        return rows

    def _match(self, terms: Sequence[IndexTerm]) -> str:
        """Write what FTS5 looks for: any of these terms."""
        return " OR ".join(self._quoted(term) + (" *" if term.prefix else "") for term in terms)

    def _quoted(self, term: IndexTerm) -> str:
        return f'"{self._number}_{term.term}"'

    def _scored(self, terms: Sequence[IndexTerm]) -> tuple[str, list[Any]]:
        weights = ", ".join(map(str, INDEXED.values()))
        return f"SELECT rowid id, bm25(terms, {weights}) score FROM terms WHERE terms MATCH ?", [
            self._match(terms)
        ]

    def _matched(
        self, ids: Sequence[int], terms: Sequence[IndexTerm]
    ) -> Mapping[int, Mapping[str, tuple[str, ...]]]:
        fields = ", ".join(f"' ' || {name} || ' '" for name in INDEXED)
        rows = self._readable(f"SELECT rowid, {fields} FROM terms WHERE rowid {self.AMONG}", ids)
        words_by_form = [(self._form_in_index(term), term.word) for term in terms]
        matched: dict[int, dict[str, tuple[str, ...]]] = {}
        for entry_id, *texts in rows:
            words_by_field: dict[str, tuple[str, ...]] = {}
            for name, text in zip(INDEXED, texts, strict=True):
                words = tuple(word for form, word in words_by_form if form in text)
                if words:
                    words_by_field[name] = words
            matched[entry_id] = words_by_field
        return matched

    def _form_in_index(self, term: IndexTerm) -> str:
        """Return a term as a field of the index has it, between spaces."""
        form = f" {self._number}_{term.term}"
        return form if term.prefix else f"{form} "

    def _holding(self, terms: Sequence[IndexTerm]) -> list[int]:
        match = " AND ".join(map(self._quoted, terms))
        return [row[0] for row in self._connection.execute(_MATCHING, (match,))]

    def _fields_with(self, terms: Sequence[IndexTerm]) -> Iterator[tuple[int, int, int]]:
        for term_number, term in enumerate(terms):
            for field_number, column in enumerate(INDEXED):
                match = f"{column} : {self._match([term])}"
                for (entry_id,) in self._connection.execute(_MATCHING, (match,)):
                    yield entry_id, field_number, term_number

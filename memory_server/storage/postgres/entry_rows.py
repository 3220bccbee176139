"""Entries as rows of PostgreSQL, in a transaction of a tenant: its index (`tsvector`), and numbers of what is new.

The statements of storage/entries name no tenant: they see views of the tables, which are called `all_entries` etc."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import orjson
from psycopg import sql

from memory_server.kernel.items import Scope
from memory_server.knowledge.entry import Entry
from memory_server.storage.entries.rows import INDEXED, ScopeRows
from memory_server.storage.postgres.connection import Attempt
from nlp.index_terms import IndexTerm, index_form, signature, terms_of

IDLE_SECONDS = 5
"""The time for which the transaction of a node that stopped in the middle keeps others out."""
LONG_SECONDS = 600.0
"""The timeout for the answer to a statement about all that is kept."""
_TABLES = "terms changes entries operations scopes vectors model_calls uses copies recalls erasures erased stores settled"
ERASE_OWN = tuple(
    f"delete from memory_server.all_{table} where tenant = %(tenant)s" for table in _TABLES.split()
)
_COUNTS = ("entries", "operations", "documents", "tokens")
_PLACEHOLDER = re.compile(r"\?|(?<!:):([a-z]\w*)")
_MOST_COUNT = 4095
"""The most often that a term counts, because a position ends at 16,383."""
_MOST_BYTES = 700_000
"""The most bytes of lexemes of a vector, which has at most 1 MB with their positions."""
_LABELS = dict(zip(INDEXED, "ABC", strict=True))
_COUNTED = " + ".join(
    f"coalesce((places[{n}] >> 2) * (array{list(INDEXED.values())})[(places[{n}] & 3) + 1], 0)"
    for n in (1, 2, 3)
)
_SCORED = f"""
  WITH hits AS MATERIALIZED (
    SELECT t.entry, t.size, array_position(?::text[], u.lexeme) number, ({_COUNTED})::float8 frequency
    FROM searched t CROSS JOIN LATERAL
      unnest(ts_filter(setweight(t.vector, 'D', ?::text[]), '{{d}}')) u(lexeme, places, labels)
    WHERE t.vector @@ ?::tsquery),
  store AS (SELECT documents::float8 documents, tokens::float8 / greatest(documents, 1) average FROM stores),
  weights AS (
    SELECT number, CASE WHEN idf > 0 THEN idf ELSE 1e-6 END idf FROM (
      SELECT number, ln((max(documents) - count(*) + 0.5) / (count(*) + 0.5)) idf FROM hits, store GROUP BY number) i)
  SELECT entry id, -sum(
    idf * (frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * size / average))) ORDER BY number) score
  FROM hits JOIN weights USING (number), store GROUP BY entry"""
"""BM25 as FTS5 has it (https://www.sqlite.org/fts5.html, "The bm25() function"), so that both databases rank alike."""
_NUL = "\0"
_ESCAPED = "\ufdd00"
"""PostgreSQL keeps no NUL: this replaces it. It begins with a code point that is not a character."""
_ESCAPE = "\ufdd0"
"""That code point, which is doubled where a text contains it."""


def without_nul(value: Any) -> Any:
    """Return a value as PostgreSQL can keep it."""
    if isinstance(value, str) and (_NUL in value or _ESCAPE in value):
        return value.replace(_ESCAPE, "\ufdd01").replace(_NUL, _ESCAPED)
    return value


def with_nul(value: Any) -> Any:
    """Return a value as it was before `without_nul`."""
    if isinstance(value, str) and _ESCAPE in value:
        return value.replace(_ESCAPED, _NUL).replace("\ufdd01", _ESCAPE)
    return value


def folded(tags: Sequence[str]) -> list[str]:
    """Return tags as they are compared."""
    return [without_nul(index_form(tag)) for tag in tags]


@lru_cache(512)
def _translated(statement: str) -> str:
    """Write a statement with the placeholders of psycopg."""
    return _PLACEHOLDER.sub(_placeholder, statement.replace("%", "%%"))


def _placeholder(match: re.Match[str]) -> str:
    name = match[1]
    if name:
        return f"%({name})s"
    return "%s"


class OwnRows:
    """A transaction of a tenant; it is a `Database` of storage/entries."""

    def __init__(self, attempt: Attempt, tenant: str, *, writes: bool) -> None:
        """Begin a transaction that sees the rows of `tenant` only. A reader (`writes` False) sees
        one moment. Raises psycopg.Error."""
        self._connection = attempt.connection
        self._token = attempt.token
        self.changed = False
        self._patience = attempt.left + 1.0
        self.numbers = Counter[str]()
        settings = {
            "search_path": "memory_server,pg_catalog",
            "memory_server.tenant": f"/{tenant}",
            "lock_timeout": str(max(1, round(attempt.left * 1000))),
            "idle_in_transaction_session_timeout": str(IDLE_SECONDS * 1000),
        }
        assignments = [
            sql.SQL("set_config({}, {}, true)").format(name, value)
            for name, value in settings.items()
        ]
        # A writer sees what others committed before each statement; a reader sees one moment.
        mode = "read committed" if writes else "repeatable read read only"
        begin = sql.SQL(f"begin isolation level {mode}; select ") + sql.SQL(", ").join(assignments)
        self._connection.execute(begin, prepare=False)  # one journey

    def take_time(self) -> None:
        """Lengthen the timeouts: what follows takes long, here or in the database."""
        self._patience = LONG_SECONDS
        self._connection.deadline = time.monotonic() + LONG_SECONDS
        self._connection.execute("set local idle_in_transaction_session_timeout to 0")

    def lock(self) -> None:
        """Lock the tenant's knowledge for writing until the transaction ends, and read its counts into `numbers`."""
        counts = f"SELECT {', '.join(_COUNTS)} FROM stores FOR UPDATE"
        row = self.execute(counts).fetchone()
        if row is None:
            self.execute(
                "INSERT INTO stores(terms) VALUES(?) ON CONFLICT DO NOTHING", (signature(),)
            )
            row = self.execute(counts).fetchone()
        self.numbers = Counter(dict(zip(_COUNTS, row, strict=True)))
        self.changed = False

    def was_committed(self) -> bool:
        """Tell whether an earlier attempt was committed."""
        return (
            self.execute("SELECT 1 FROM settled WHERE token = ?", (self._token,)).fetchone()
            is not None
        )

    def last_numbers(self) -> tuple[int, int]:
        """Return the numbers of the last entry and the last operation, also if they were deleted."""
        return self.execute("SELECT entries, operations FROM stores").fetchone() or (0, 0)

    def finish(self) -> None:
        """Store what the numbers are now, and the token; what is left is COMMIT."""
        assignments = ", ".join(f"{name} = :{name}" for name in _COUNTS)
        statement = f"WITH counted AS (UPDATE stores SET {assignments}) INSERT INTO settled(token) VALUES(:token)"
        values: dict[str, Any] = {name: self.numbers[name] for name in _COUNTS}
        values["token"] = self._token
        self.execute(statement, values)

    def execute(self, statement: str, values: Any = (), /) -> Any:
        """Run a statement that is written for SQLite, restart the timeout, and note in `changed` whether it may
        write."""
        self.changed = self.changed or not statement.lstrip().startswith(("SELECT", "WITH"))
        self._restart_timeout()
        if isinstance(values, Mapping):
            named = {name: without_nul(value) for name, value in values.items()}
            return self._connection.execute(_translated(statement), named)
        return self._connection.execute(_translated(statement), list(map(without_nul, values)))

    def executemany(self, statement: str, values: Any, /) -> None:
        """Run a statement that writes, as `execute` does, once for each row of values."""
        self.changed = self.changed or bool(values)
        self._restart_timeout()
        rows = [list(map(without_nul, row)) for row in values]
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(statement), rows)

    def _restart_timeout(self) -> None:
        """Restart the timeout, which counts from each statement, since the statement before it was answered."""
        self._connection.deadline = max(
            self._connection.deadline, time.monotonic() + self._patience
        )

    def insert(self, table: Literal["entries", "operations"], values: Mapping[str, Any]) -> int:
        """Insert a row under the next number of its table, and return that."""
        column = "id" if table == "entries" else "seq"
        self.numbers[table] += 1
        row = {column: self.numbers[table], **values}
        columns = ", ".join(row)
        parameters = ", ".join(f":{name}" for name in row)
        self.execute(f"INSERT INTO {table}({columns}) VALUES({parameters})", row)
        return self.numbers[table]

    def view(self, scope: Scope, embeds: str = "", *, make: bool = False) -> PostgresRows:
        return PostgresRows(self, scope, embeds, make=make)

    def json_of(self, text: str | bytes, damaged: Any) -> Any:
        try:
            return orjson.loads(with_nul(text))
        except ValueError:
            return None  # so that its row counts for nothing

    def field(self, column: str, name: str) -> str:
        return f"({column}::json ->> '{name}')"

    def empty_index(self) -> None:
        """Remove all terms and their counts, and note the version of the terms that come next."""
        self.take_time()
        self.execute("DELETE FROM terms")
        self.execute("UPDATE stores SET terms = ?", (signature(),))
        self.numbers["documents"] = 0
        self.numbers["tokens"] = 0

    def merge_index(self) -> None:
        """Delete settled tokens that are older than a day, which no attempt asks for any more. PostgreSQL merges its
        index by itself."""
        self.execute("DELETE FROM settled WHERE at < now() - interval '1 day'")


class PostgresRows(ScopeRows):
    FOUND = "MATERIALIZED "
    AMONG = "= ANY(?)"
    TAGGED = "e.folded && ?"
    HOLDS = (
        """position(lower(normalize(?::text, NFKC) COLLATE "C") IN """
        """lower(normalize(e.title || chr(10) || e.body || chr(10) || e.examples, NFKC) COLLATE "C")) > 0"""
    )
    BYTES = "octet_length({})"
    _connection: OwnRows

    def listed(self, values: Sequence[Any]) -> list[Any]:
        return [*map(without_nul, values)]

    @property
    def number(self) -> int | None:
        """The number of the scope."""
        return self._number

    def more_of(self, entry: Entry) -> dict[str, Any]:
        return {"folded": folded(entry.tags)}

    def entries_of(self, rows: Iterable[Sequence[Any]]) -> Iterator[Entry]:
        return super().entries_of([*map(with_nul, row)] for row in rows)

    def index(self, entry: Entry) -> None:
        """Put the terms of an entry, and their beginnings, into the index: each position tells the
        field and how often the term is in it. The counts of documents and terms grow."""
        texts = (entry.title, "\n".join(entry.tags), "\n".join((entry.body, *entry.examples)))
        positions: dict[str, list[str]] = {}
        size = 0
        for number, (label, text) in enumerate(zip(_LABELS.values(), texts, strict=True)):
            terms = Counter(terms_of(text))
            size += terms.total()
            for term, count in (terms + _beginnings(terms)).items():
                positions.setdefault(term, []).append(
                    f"{4 * min(count, _MOST_COUNT) + number}{label}"
                )
        rows = [
            (entry.id, part, size, vector) for part, vector in enumerate(self._vectors(positions))
        ]
        self._connection.executemany(
            "INSERT INTO terms(entry, part, size, vector) VALUES(?, ?, ?, ?::tsvector)", rows
        )
        self._connection.numbers.update(documents=1, tokens=size)

    def _vectors(self, positions: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the texts of vectors with these terms: several, where a single vector would be too long."""
        parts: list[list[str]] = [[]]
        room = _MOST_BYTES
        for term, term_positions in positions.items():
            lexeme = f"{self._lexeme(term)}:{','.join(term_positions)}"
            room -= len(lexeme.encode()) + 8
            if room < 0:
                parts.append([])
                room = _MOST_BYTES
            parts[-1].append(lexeme)
        return [" ".join(lexemes) for lexemes in parts]

    def unindex(self, id: int) -> None:
        """Remove the terms of an entry, and take it from the counts; an entry without terms changes nothing."""
        row = self._connection.execute(
            "DELETE FROM terms WHERE entry = ? RETURNING size", (id,)
        ).fetchone()
        if row is not None:
            (size,) = row
            self._connection.numbers.update(documents=-1, tokens=-size)

    def _named(self, term: str) -> str:
        return f"{self._number}_{term}"

    def _lexeme(self, term: str) -> str:
        """Write a lexeme for the text of a vector or query."""
        escaped = self._named(term).replace("\\", "\\\\").replace("'", "''")
        return f"'{escaped}'"

    def _names(self, terms: Sequence[IndexTerm]) -> list[str]:
        return [f"{term.term}*" if term.prefix else term.term for term in terms]

    def _scored(self, terms: Sequence[IndexTerm]) -> tuple[str, list[Any]]:
        """Return the statement that scores the entries with these terms, and its values."""
        names = self._names(terms)
        lexemes = list(map(self._named, names))
        return _SCORED, [lexemes, lexemes, " | ".join(map(self._lexeme, names))]

    def _matched(
        self, ids: Sequence[int], terms: Sequence[IndexTerm]
    ) -> Mapping[int, Mapping[str, tuple[str, ...]]]:
        """Return, by id, the words of these terms that each field of the index holds; fields
        without any are left out."""
        lexemes = list(map(self._named, self._names(terms)))
        rows = self._connection.execute(
            "SELECT t.entry, u.lexeme, u.positions FROM terms t CROSS JOIN LATERAL "
            f"unnest(ts_filter(setweight(t.vector, 'D', ?::text[]), '{{d}}')) u WHERE t.entry {self.AMONG}",
            (lexemes, self.listed(ids)),
        )
        fields: dict[tuple[int, str], set[int]] = {}
        for entry_id, lexeme, positions in rows:
            # The two lowest bits of a position say the field.
            fields[entry_id, lexeme] = {position & 3 for position in positions}

        matched: dict[int, dict[str, tuple[str, ...]]] = {}
        for entry_id in ids:
            words_by_field: dict[str, tuple[str, ...]] = {}
            for number, name in enumerate(INDEXED):
                words = [
                    term.word
                    for term, lexeme in zip(terms, lexemes, strict=True)
                    if number in fields.get((entry_id, lexeme), ())
                ]
                if words:
                    words_by_field[name] = tuple(words)
            matched[entry_id] = words_by_field

        return matched

    def _holding(self, terms: Sequence[IndexTerm]) -> list[int]:
        """Do as the base says. An entry with several vectors matches if a single vector holds all terms."""
        query = " & ".join(self._lexeme(term.term) for term in terms)
        rows = self._connection.execute(
            "SELECT DISTINCT entry FROM searched WHERE vector @@ ?::tsquery ORDER BY entry",
            (query,),
        )
        return [row[0] for row in rows]

    def _fields_with(self, terms: Sequence[IndexTerm]) -> Iterator[tuple[int, int, int]]:
        """Yield each id, number of a field and number of a term that the field holds, or that
        begins a term there if it is a prefix."""
        queries = []
        for term in terms:
            prefix = "*" if term.prefix else ""
            queries += [f"{self._lexeme(term.term)}:{prefix}{label}" for label in _LABELS.values()]
        rows = self._connection.execute(
            # Each query looks into the index.
            "SELECT t.entry, q.number - 1 FROM unnest(?::tsquery[]) WITH ORDINALITY q(query, number) "
            "CROSS JOIN LATERAL (SELECT entry FROM searched WHERE vector @@ q.query OFFSET 0) t",
            (queries,),
        )
        for entry_id, query_number in rows:
            term_number, field_number = divmod(query_number, len(_LABELS))
            yield entry_id, field_number, term_number


def _beginnings(terms: Counter[str]) -> Counter[str]:
    """Count the first characters of terms that are not ASCII, each as often as the terms that begin so."""
    beginnings = Counter[str]()
    for term, count in terms.items():
        if not term[0].isascii():
            beginnings[f"{term[0]}*"] += count
    return beginnings

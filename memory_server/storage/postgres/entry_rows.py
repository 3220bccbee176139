"""Entries as rows of PostgreSQL, in a transaction of one tenant: its index (`tsvector`), and numbers of what is new.

The statements of storage/entries name no tenant: they see views of the tables, which are called `all_entries` etc.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import orjson
from psycopg import sql

from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import Entry
from memory_server.storage.entries.rows import INDEXED, ScopeRows
from memory_server.storage.postgres.connection import Attempt
from nlp.index_terms import IndexTerm, index_form, signature, terms_of

IDLE_SECONDS, LONG_SECONDS = 5, 600.0
"""How long the transaction of a node that stopped in the middle keeps others out; and how long one waits for the answer
to a statement about all that is kept."""
_TABLES = (
    "terms changes entries operations scopes vectors model_calls uses copies recalls erasures erased stores settled"
)
ERASE_OWN = tuple(f"delete from memory_server.all_{table} where tenant = %(tenant)s" for table in _TABLES.split())
_COUNTS = ("entries", "operations", "documents", "tokens")
_PLACEHOLDER = re.compile(r"\?|(?<!:):([a-z]\w*)")
_MOST_COUNT, _MOST_BYTES = 4095, 700_000
"""How often a term counts at most, because a position ends at 16,383; and bytes of lexemes of one vector, which has at
most 1 MB with their positions."""
_LABELS = dict(zip(INDEXED, "ABC", strict=True))
_COUNTED = " + ".join(
    f"coalesce((places[{n}] >> 2) * (array{list(INDEXED.values())})[(places[{n}] & 3) + 1], 0)" for n in (1, 2, 3)
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
_NUL, _ESCAPED, _ESCAPE = "\0", "\ufdd00", "\ufdd0"
"""PostgreSQL keeps no NUL: it stands as a code point that is not a character, and that one is doubled."""


def kept(value: Any) -> Any:
    if isinstance(value, str) and (_NUL in value or _ESCAPE in value):
        return value.replace(_ESCAPE, "\ufdd01").replace(_NUL, _ESCAPED)
    return value


def as_given(value: Any) -> Any:
    """What was `kept`."""
    if isinstance(value, str) and _ESCAPE in value:
        return value.replace(_ESCAPED, _NUL).replace("\ufdd01", _ESCAPE)
    return value


def folded(tags: Sequence[str]) -> list[str]:
    """Tags as they are compared."""
    return [kept(index_form(tag)) for tag in tags]


@lru_cache(512)
def _translated(statement: str) -> str:
    return _PLACEHOLDER.sub(lambda found: f"%({found[1]})s" if found[1] else "%s", statement.replace("%", "%%"))


class OwnRows:
    """A transaction of a tenant; it is a `Database` of storage/entries."""

    def __init__(self, attempt: Attempt, tenant: str, *, writes: bool) -> None:
        self._connection, self._token, self.changed = attempt.connection, attempt.token, False
        self._patience = attempt.left + 1.0
        self.numbers = Counter[str]()
        settings = {
            "search_path": "memory_server,pg_catalog",
            "memory_server.tenant": f"/{tenant}",
            "lock_timeout": str(max(1, round(attempt.left * 1000))),
            "idle_in_transaction_session_timeout": str(IDLE_SECONDS * 1000),
        }
        each = (sql.SQL("set_config({}, {}, true)").format(name, value) for name, value in settings.items())
        mode = "read committed" if writes else "repeatable read read only"
        begin = sql.SQL(f"begin isolation level {mode}; select ") + sql.SQL(", ").join(each)
        self._connection.execute(begin, prepare=False)  # one journey

    def take_time(self) -> None:
        """What is done takes long, here or in the database."""
        self._patience = LONG_SECONDS
        self._connection.deadline = time.monotonic() + LONG_SECONDS
        self._connection.execute("set local idle_in_transaction_session_timeout to 0")

    def lock(self) -> None:
        """Let nobody else write to the knowledge of this tenant until the transaction ends."""
        counts = f"SELECT {', '.join(_COUNTS)} FROM stores FOR UPDATE"
        if (row := self.execute(counts).fetchone()) is None:
            self.execute("INSERT INTO stores(terms) VALUES(?) ON CONFLICT DO NOTHING", (signature(),))
            row = self.execute(counts).fetchone()
        self.numbers, self.changed = Counter(dict(zip(_COUNTS, row, strict=True))), False

    def was_committed(self) -> bool:
        """Whether an attempt before this one was."""
        return self.execute("SELECT 1 FROM settled WHERE token = ?", (self._token,)).fetchone() is not None

    def last_numbers(self) -> tuple[int, int]:
        """Of the last entry and the last operation, also of those that are gone."""
        return self.execute("SELECT entries, operations FROM stores").fetchone() or (0, 0)

    def finish(self) -> None:
        """Store what the numbers are now, and the token; what is left is COMMIT."""
        into = ", ".join(f"{name} = :{name}" for name in _COUNTS)
        noted = f"WITH counted AS (UPDATE stores SET {into}) INSERT INTO settled(token) VALUES(:token)"
        self.execute(noted, {name: self.numbers[name] for name in _COUNTS} | {"token": self._token})

    def execute(self, statement: str, values: Any = (), /) -> Any:
        self.changed = self.changed or not statement.lstrip().startswith(("SELECT", "WITH"))
        self._go_on()
        given = (
            {name: kept(each) for name, each in values.items()} if isinstance(values, Mapping) else [*map(kept, values)]
        )
        return self._connection.execute(_translated(statement), given)

    def executemany(self, statement: str, values: Any, /) -> None:
        self.changed = self.changed or bool(values)
        self._go_on()
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(statement), [[*map(kept, each)] for each in values])

    def _go_on(self) -> None:
        """Patience is with each statement, since what goes before it was answered."""
        self._connection.deadline = max(self._connection.deadline, time.monotonic() + self._patience)

    def insert(self, table: Literal["entries", "operations"], values: Mapping[str, Any]) -> int:
        column = {"entries": "id", "operations": "seq"}[table]
        self.numbers[table] += 1
        row = {column: self.numbers[table], **values}
        names = ", ".join(f":{name}" for name in row)
        self.execute(f"INSERT INTO {table}({', '.join(row)}) VALUES({names})", row)
        return self.numbers[table]

    def view(self, scope: Scope, embeds: str = "", *, make: bool = False) -> PostgresRows:
        return PostgresRows(self, scope, embeds, make=make)

    def json_of(self, text: str | bytes, damaged: Any) -> Any:
        return orjson.loads(as_given(text))

    def field(self, column: str, name: str) -> str:
        return f"({column}::json ->> '{name}')"

    def empty_index(self) -> None:
        self.take_time()
        self.execute("DELETE FROM terms")
        self.execute("UPDATE stores SET terms = ?", (signature(),))
        self.numbers.update({name: -self.numbers[name] for name in ("documents", "tokens")})

    def merge_index(self) -> None:
        """PostgreSQL does that itself. Of the same time: nobody asks any more for what was settled long ago."""
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
        return [*map(kept, values)]

    @property
    def number(self) -> int | None:
        """Of the scope."""
        return self._number

    def more_of(self, entry: Entry) -> dict[str, Any]:
        return {"folded": folded(entry.tags)}

    def entry(self, row: Sequence[Any]) -> Entry:
        return super().entry([*map(as_given, row)])

    def index(self, entry: Entry) -> None:
        texts = (entry.title, "\n".join(entry.tags), "\n".join((entry.body, *entry.examples)))
        counts, size = dict[str, list[str]](), 0
        for place, (label, text) in enumerate(zip(_LABELS.values(), texts, strict=True)):
            terms = Counter(terms_of(text))
            size += terms.total()
            begun = Counter[str]()
            for term, count in terms.items():
                begun[f"{term[0]}*"] += count if not term[0].isascii() else 0
            for term, count in (terms + begun).items():
                counts.setdefault(term, []).append(f"{4 * min(count, _MOST_COUNT) + place}{label}")
        parts, room = [list[str]()], _MOST_BYTES
        for term, positions in counts.items():
            lexeme = f"{self._lexeme(term)}:{','.join(positions)}"
            room -= len(lexeme.encode()) + 8
            if room < 0:
                parts.append([])
                room = _MOST_BYTES
            parts[-1].append(lexeme)
        rows = [(entry.id, part, size, " ".join(lexemes)) for part, lexemes in enumerate(parts)]
        self._connection.executemany("INSERT INTO terms(entry, part, size, vector) VALUES(?, ?, ?, ?::tsvector)", rows)
        self._connection.numbers.update(documents=1, tokens=size)

    def unindex(self, id: int) -> None:
        gone = self._connection.execute("DELETE FROM terms WHERE entry = ? RETURNING size", (id,)).fetchone()
        if gone is not None:
            self._connection.numbers.update(documents=-1, tokens=-gone[0])

    def _named(self, term: str) -> str:
        return f"{self._number}_{term}"

    def _lexeme(self, term: str) -> str:
        """A lexeme as it is written in the text of a vector or query."""
        escaped = self._named(term).replace("\\", "\\\\").replace("'", "''")
        return f"'{escaped}'"

    def _names(self, sought: Sequence[IndexTerm]) -> list[str]:
        return [f"{each.term}*" if each.prefix else each.term for each in sought]

    def _scored(self, sought: Sequence[IndexTerm]) -> tuple[str, list[Any]]:
        names = self._names(sought)
        lexemes = list(map(self._named, names))
        return _SCORED, [lexemes, lexemes, " | ".join(map(self._lexeme, names))]

    def _matched(self, ids: Sequence[int], sought: Sequence[IndexTerm]) -> Mapping[int, Mapping[str, tuple[str, ...]]]:
        lexemes = list(map(self._named, self._names(sought)))
        found = self._connection.execute(
            "SELECT t.entry, u.lexeme, u.positions FROM terms t CROSS JOIN LATERAL "
            f"unnest(ts_filter(setweight(t.vector, 'D', ?::text[]), '{{d}}')) u WHERE t.entry {self.AMONG}",
            (lexemes, self.listed(ids)),
        )
        fields = {(entry, lexeme): {place & 3 for place in places} for entry, lexeme, places in found}

        def words(number: int, place: int) -> tuple[str, ...]:
            named = zip(sought, lexemes, strict=True)
            return tuple(each.word for each, lexeme in named if place in fields.get((number, lexeme), ()))

        held = {number: {name: words(number, place) for place, name in enumerate(INDEXED)} for number in ids}
        return {number: {name: found for name, found in each.items() if found} for number, each in held.items()}

    def _holding(self, sought: Sequence[IndexTerm]) -> list[int]:
        """As the base says; of an entry with several vectors, those of which one vector holds all."""
        query = " & ".join(self._lexeme(each.term) for each in sought)
        found = self._connection.execute(
            "SELECT DISTINCT entry FROM searched WHERE vector @@ ?::tsquery ORDER BY entry", (query,)
        )
        return [row[0] for row in found]

    def _fields_with(self, sought: Sequence[IndexTerm]) -> Iterator[tuple[int, int, int]]:
        queries = [
            f"{self._lexeme(each.term)}:{'*' if each.prefix else ''}{label}"
            for each in sought
            for label in _LABELS.values()
        ]
        found = self._connection.execute(
            # Each query looks into the index.
            "SELECT t.entry, q.number - 1 FROM unnest(?::tsquery[]) WITH ORDINALITY q(query, number) "
            "CROSS JOIN LATERAL (SELECT entry FROM searched WHERE vector @@ q.query OFFSET 0) t",
            (queries,),
        )
        for entry, number in found:
            yield entry, number % len(_LABELS), number // len(_LABELS)

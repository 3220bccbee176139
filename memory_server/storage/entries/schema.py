"""The tables of `knowledge.sqlite3`, how a connection to it is opened, and entries as its rows
(docs/reference/knowledge-store.md).

SQLite from 3.34 on, with FTS5 and JSON: so no RETURNING, STRICT, or contentless deletes.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from languages import Sentence, _
from memory_server.kernel import files as folders
from memory_server.kernel.errors import LockTimeout, StorageError, StorageUnwritable
from memory_server.kernel.items import Scope
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import Entry
from memory_server.storage.entries.rows import COLUMNS, INDEXED, ScopeRows
from nlp.index_terms import IndexTerm, index_form, signature, terms_of

# --- rows and connections ----------------------------------------------------------------------------------------

# Entries as rows of SQLite: its index (FTS5), its connections, and rows of a damaged file, as far as they are read.

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
        """Parse a value that was stored as JSON. If it cannot be read, return `damaged_value` if this connection is
        lenient, otherwise raise sqlite3.DatabaseError."""
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
        """Write the terms of an entry into the index, which must not have it yet."""
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
        """Yield the entries one by one, so that a damaged entry costs only itself."""
        ids = self.ids_of(condition, values)
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
        """Return the statement that scores the entries with these terms, and its values."""
        weights = ", ".join(map(str, INDEXED.values()))
        return f"SELECT rowid id, bm25(terms, {weights}) score FROM terms WHERE terms MATCH ?", [
            self._match(terms)
        ]

    def _matched(
        self, ids: Sequence[int], terms: Sequence[IndexTerm]
    ) -> Mapping[int, Mapping[str, tuple[str, ...]]]:
        """Return, by id, the words of these terms that each field of the index holds; fields
        without any are left out. Rows that cannot be read are missing from a file that is known to
        be damaged."""
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
        """Yield for each term where it is: the id of an entry, the number of the field, and the number of the term."""
        for term_number, term in enumerate(terms):
            for field_number, column in enumerate(INDEXED):
                match = f"{column} : {self._match([term])}"
                for (entry_id,) in self._connection.execute(_MATCHING, (match,)):
                    yield entry_id, field_number, term_number


# --- tables ------------------------------------------------------------------------------------------------------

VERSION = 1
APPLICATION = 0x6D737276
"""`msrv`, which tells this file from other databases."""
LEAST_SQLITE = (3, 34)
_SECOND_LOOK_SECONDS = 0.05
"""The time between two looks at a file: another process may shorten it meanwhile, when it puts the database in
order."""

# In `entries` the short columns come first: SQLite reads past a long text to what follows it, page by page.
TABLES = f"""
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE scopes(id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL DEFAULT '',
  space TEXT NOT NULL CHECK(space IN ('notes', 'sessions', 'refs', 'layers')), UNIQUE(space, owner));
CREATE TABLE entries(id INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL REFERENCES scopes(id),
  created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, expires_ms INTEGER, archived_ms INTEGER, reason TEXT,
  accessed_ms INTEGER, uses INTEGER NOT NULL, version INTEGER NOT NULL, origin TEXT NOT NULL,
  confidence REAL NOT NULL CHECK(confidence BETWEEN 0 AND 1), importance REAL CHECK(importance BETWEEN 0 AND 1),
  ref TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, project TEXT NOT NULL, agent_id TEXT, run_id TEXT, key TEXT,
  vector_key BLOB, source TEXT, tags TEXT NOT NULL, metadata TEXT NOT NULL, title TEXT NOT NULL,
  examples TEXT NOT NULL, body TEXT NOT NULL);
CREATE UNIQUE INDEX entry_key ON entries(scope, kind, project, key) WHERE key IS NOT NULL AND archived_ms IS NULL;
CREATE INDEX entry_age ON entries(scope, archived_ms, created_ms);
CREATE INDEX entry_end ON entries(expires_ms) WHERE expires_ms IS NOT NULL AND archived_ms IS NULL;
{TERMS};
CREATE TABLE operations(seq INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL,
  scope INTEGER NOT NULL REFERENCES scopes(id), op TEXT NOT NULL, by TEXT NOT NULL, caller TEXT NOT NULL,
  entries TEXT NOT NULL, error TEXT, took_ms REAL, detail TEXT NOT NULL);
CREATE INDEX operation_scope ON operations(scope, seq);
CREATE TABLE changes(operation INTEGER NOT NULL REFERENCES operations(seq), entry INTEGER NOT NULL, before TEXT,
  after_version INTEGER NOT NULL);
CREATE INDEX change_operation ON changes(operation);
CREATE INDEX change_entry ON changes(entry);
CREATE TABLE vectors(key BLOB PRIMARY KEY, vector BLOB NOT NULL, used_ms INTEGER NOT NULL);
CREATE TABLE model_calls(at_ms INTEGER NOT NULL, provider TEXT, model TEXT, purpose TEXT, input_tokens INTEGER,
  output_tokens INTEGER, took_ms REAL, outcome TEXT);
CREATE INDEX model_call_time ON model_calls(at_ms);
CREATE TABLE uses(place TEXT, key TEXT, accessed_ms INTEGER NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY(place, key)) WITHOUT ROWID;
"""

KEPT = {
    "scopes": "id",
    "entries": "id",
    "operations": "seq",
    "changes": "rowid",
    "vectors": "key",
    "model_calls": "at_ms",
    "uses": "key",
}
"""The tables that a copy has, in the order in which they can be filled, and what orders their rows."""
NUMBERED = ("entries", "operations")


def connect(path: Path | None, mode: str, wait_seconds: float) -> Connection:
    """Return a connection to the file at `path`, or to memory for None. `mode`: `rw`, `ro`, or
    `immutable`, which works in a folder that cannot be written. Raises StorageError if SQLite is
    too old, FileRefused if a file to write is a link, sqlite3.Error if it cannot be opened."""
    if sqlite3.sqlite_version_info < LEAST_SQLITE:
        raise StorageError(
            Sentence(
                "Knowledge needs SQLite 3.34 or newer, and this Python has {sqlite_version}; use a newer Python.",
                sqlite3.sqlite_version,
            )
        )

    # A link could make this program write into a file of another user's choice.
    if path is not None and mode == "rw" and path.is_symlink():
        raise folders.FileRefused(path, _("is a link and not a file"))

    connection = sqlite3.connect(
        _uri_of(path, mode),
        timeout=wait_seconds,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
        factory=Connection,
    )
    connection.row_factory = sqlite3.Row
    connection.create_function("fold", 1, _folded, deterministic=True)
    return connection


def _folded(value: object) -> str | None:
    """Return the form in which texts are compared, or None for a value that is not a text."""
    return index_form(value) if isinstance(value, str) else None


def _uri_of(path: Path | None, mode: str) -> str:
    if path is None:
        return ":memory:"
    encoded_path = quote(path.as_posix())
    if mode == "immutable":
        return f"file:{encoded_path}?mode=ro&immutable=1"
    return f"file:{encoded_path}?mode={mode}"


def prepare(
    connection: sqlite3.Connection, path: Path | None, *, durability: str, cache_mb: int
) -> None:
    """Make a writing connection ready: set its durability and its cache, and in a new database make the tables, in one
    transaction, and the journal (WAL).

    Raises:
        StorageError: the file is another program's, or a newer version's.
    """
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(f"PRAGMA cache_size = {-cache_mb * 1024}")
    connection.execute(f"PRAGMA synchronous = {durability}")
    if version_of(connection, path) == VERSION:
        return

    if path is not None:
        # Two processes may switch at once; SQLite then refuses either of them without waiting.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")

    connection.execute("BEGIN IMMEDIATE")
    # Asked again under the lock: another process may have made the tables meanwhile.
    try:
        if version_of(connection, path) == 0:
            for statement in TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES('terms', ?)", (signature(),))
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise

    if path is not None:
        connection.execute("PRAGMA journal_mode = WAL")


def in_memory() -> Connection:
    """Make a new database in memory."""
    connection = connect(None, "rw", 0)
    prepare(connection, None, durability="off", cache_mb=16)
    return connection


def version_of(connection: sqlite3.Connection, path: Path | None) -> int:
    """Return the version of the tables, 0 for a new file. Raises StorageError if the file is
    another program's, StorageUnwritable if a newer version wrote it."""
    # The tables first: another process may make all of them, and the numbers, between two of these reads.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and application != APPLICATION:
        raise StorageError(
            Sentence(
                "{place} is a database of another program; move it away, and try again.", path
            ),
            path,
        )

    if version > VERSION:
        raise StorageUnwritable(
            Sentence(
                "{place} was written by a newer memory-server; update this one, and nothing there was changed.",
                path,
            ),
            path,
        )

    return int(version)


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StorageError unless the file at `path` is a whole database of knowledge that is not
    empty."""
    outcome = version_of(connection, path)
    if outcome:
        (outcome,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if outcome != "ok":
        raise StorageError(
            Sentence(
                "{place} is not a usable copy of knowledge ({found}); nothing was changed.",
                path,
                outcome,
            ),
            path,
        )


def last_operation(connection: sqlite3.Connection) -> int:
    """Return the number of the last operation, also of a forgotten operation; 0 before the first."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'operations'").fetchone()
    if row is None:
        return 0
    return int(row[0])


def number_after(connection: sqlite3.Connection, last: int) -> None:
    """Give operations numbers after `last` from here on: no change gets the id of another change."""
    if last > last_operation(connection):
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'operations'")
        connection.execute("INSERT INTO sqlite_sequence VALUES('operations', ?)", (last,))


def refuse_cut(path: Path) -> None:
    """Refuse a file that is shorter than its database: SQLite takes what is missing for empty pages if there is a log,
    and makes such pages when it closes.

    Raises:
        sqlite3.DatabaseError: pages are in neither the file nor its log.
    """
    # Another process may have been writing at the first look.
    if _is_cut(path):
        time.sleep(_SECOND_LOOK_SECONDS)
        if _is_cut(path):
            raise damaged(_("pages are missing at its end"))


def _is_cut(path: Path) -> bool:
    """Tell whether pages are missing (https://www.sqlite.org/fileformat2.html, "WAL File Format").

    SQLite opens and closes the file itself: a descriptor of ours would, when it is closed, take away the locks that
    other connections of this process have (https://www.sqlite.org/howtocorrupt.html, section 2.2). The log has none."""
    log = _read_log(Path(f"{path}-wal"))  # before the file: what leaves the log is in the file then
    if log.pages:
        pages_in_file = path.stat().st_size // log.page_size
        return any(page not in log.logged_pages for page in range(pages_in_file + 1, log.pages + 1))
    try:
        with contextlib.closing(
            connect(path, "immutable", 0)
        ) as connection:  # reads neither log nor locks
            connection.execute("PRAGMA page_count").fetchone()
    except sqlite3.Error as error:
        return (error.sqlite_errorcode & 0xFF) == sqlite3.SQLITE_CORRUPT
    return False


@frozen
class _WriteAheadLog:
    """The facts of a write-ahead log: the bytes of a page, how many pages the database has after the last commit (0
    without a commit), and which of them the log has."""

    page_size: int = 0
    pages: int = 0
    logged_pages: frozenset[int] = frozenset()


def _read_log(path: Path) -> _WriteAheadLog:
    """Return the size of a page, the number of pages and the pages in a write-ahead log; all are
    empty without a log."""
    pages = 0
    logged_pages: set[int] = set()
    try:
        with path.open("rb") as file:
            header = file.read(32)
            page_size = int.from_bytes(header[8:12], "big")
            frame = file.read(24)
            while len(frame) == 24 and frame[8:16] == header[16:24]:
                logged_pages.add(int.from_bytes(frame[:4], "big"))
                pages = int.from_bytes(frame[4:8], "big") or pages
                file.seek(page_size, 1)
                frame = file.read(24)
    except FileNotFoundError:
        return _WriteAheadLog()
    return _WriteAheadLog(page_size, pages, frozenset(logged_pages))


def _code_of(error: sqlite3.Error) -> int:
    """Return the extended code of an error, or 0."""
    return getattr(error, "sqlite_errorcode", None) or 0


def is_damage(error: sqlite3.Error) -> bool:
    """Tell whether the file is damaged, or is not a database."""
    primary_code = _code_of(error) & 0xFF
    is_no_text = str(error).startswith("Could not decode to UTF-8")
    return is_no_text or primary_code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def trouble(error: sqlite3.Error, path: Path | None) -> StorageError:
    """Return an error of SQLite as a StorageError with a sentence that says what to do: LockTimeout
    if another process holds the file, StorageUnwritable if the disk is full or the file may not be
    written."""
    code = _code_of(error)
    if code == sqlite3.SQLITE_CORRUPT_VTAB:
        return StorageError(
            Sentence(
                "The index of {place} is damaged; run `memory-server knowledge reindex`, which makes it again.",
                path,
            ),
            path,
        )

    if is_damage(error):
        sentence = _(
            "{place} is damaged or is not a database ({reason}); `memory-server doctor` examines it, and ",
            path,
            error,
        )
        return StorageError(
            Sentence(
                "{what}`memory-server backup restore NAME --overwrite` brings a backup back. It was not touched.",
                sentence,
            ),
            path,
        )

    # The lower eight bits are the primary code (https://www.sqlite.org/rescode.html).
    match code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LockTimeout(
                Sentence(
                    "Another process holds {place} for too long; nothing was changed, try again.",
                    path,
                ),
                path,
            )
        case sqlite3.SQLITE_FULL:
            return StorageUnwritable(
                Sentence(
                    "{place} cannot grow, because the disk is full; make room and try again.", path
                ),
                path,
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            sentence = _(
                "{place} cannot be opened for writing; check its owner and permissions", path
            )
            return StorageUnwritable(
                Sentence("{what}, or choose another --data-dir.", sentence), path
            )
        case _:
            return StorageError(
                Sentence(
                    "{place} cannot be used: {reason}; `memory-server doctor` examines it.",
                    path,
                    error,
                ),
                path,
            )


def make_file(path: Path) -> None:
    """Make an empty file at `path`, only for its owner, unless something is there; SQLite gives the files beside it
    the same mode. A file that is there is not opened: closing it would take away the locks that this process has on
    it."""
    folders.make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        folders.open_file(path, "xb").close()

"""What `doctor` says about the database of knowledge; changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from memory_server.kernel.text import Finding, Grade
from nlp.index_terms import signature
from sandbox.locale import _, counted, n_

LARGE_BYTES = 1024**3
"""A database above this is worth a look: 10,000 notes take 50 MB."""
_LIVE = "SELECT id FROM entries WHERE archived_ms IS NULL"
_WRONG = (
    f"SELECT (SELECT count(*) FROM ({_LIVE} EXCEPT SELECT rowid FROM terms)) "
    f"+ (SELECT count(*) FROM (SELECT rowid FROM terms EXCEPT {_LIVE}))"
)
_NAMES, _LISTED = ("title", "body", "tags", "examples", "metadata"), 2
_TEXTS = f"SELECT id, {', '.join(f'CAST({name} AS BLOB)' for name in _NAMES)} FROM entries"
"""The texts of entries, as they lie in the file; those after the first `_LISTED` are JSON."""
_WITHOUT_VECTOR = (
    "SELECT count(*) FROM entries e JOIN scopes s ON s.id = e.scope LEFT JOIN vectors v ON v.key = e.vector_key "
    "WHERE s.space = 'sessions' AND e.archived_ms IS NULL AND v.key IS NULL"
)


def examine(place: Path, embeds: str, connection: sqlite3.Connection) -> list[Finding]:
    """The findings about the file at `place`; `embeds`: the model of the vectors, "" for none."""
    size, value = place.stat().st_size, partial(_value, connection)
    found = [Finding(grade, _("knowledge"), said) for grade, said in _said(place, embeds, connection, size)]
    count = value(f"SELECT count(*) FROM ({_LIVE})") if not found else 0
    assert isinstance(count, int)
    entries = n_("{count:,} entry in {size:.1f} MB", "{count:,} entries in {size:.1f} MB", count, size / 1024**2)
    return found or [Finding("ok", _("knowledge"), entries)]


def damage(connection: sqlite3.Connection) -> str:
    """What of the database is damaged; empty: nothing. A damaged index does not count, because it can be made again.
    10,000 notes take 0.15 s."""
    (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if check != "ok" and "fts5" not in check.lower():
        return " ".join(check.replace("*", "").split())
    for number, *texts in connection.execute(_TEXTS):
        try:
            for text in texts[:_LISTED]:
                text.decode()
            for text in texts[_LISTED:]:
                orjson.loads(text)
        except (ValueError, AttributeError):  # not UTF-8, not JSON, or not there
            return _("a text of entry {number} cannot be read", number)
    return ""


def _value(connection: sqlite3.Connection, query: str) -> Any:
    return connection.execute(query).fetchone()[0]


def _said(place: Path, embeds: str, connection: sqlite3.Connection, size: int) -> Iterator[tuple[Grade, str]]:
    value = partial(_value, connection)
    if wrong_there := damage(connection):
        said = _("{place} is damaged ({wrong_there}), and nothing is written to it", place, wrong_there)
        yield "error", _("{said}; `memory-server backup restore NAME --overwrite` replaces it.", said)
        return
    if wrong := value(_WRONG):
        yield "error", _("The index is wrong for {wrong} entries; run `memory-server knowledge reindex`.", wrong)
    if value("SELECT value FROM meta WHERE name = 'terms'") != signature():
        yield "warning", _("The index has other normal forms of words; run `memory-server knowledge reindex`.")
    if embeds and isinstance(missing := value(_WITHOUT_VECTOR), int) and missing:
        said = counted(missing, "memory")
        yield "note", _("{said} of users without a vector; `memory-server knowledge cleanup` makes them.", said)
    if value("PRAGMA journal_mode") != "wal":
        yield (
            "warning",
            _("{place} cannot have a write-ahead log; keep it on a disk of this machine, not on a network.", place),
        )
    if place.stat().st_mode & 0o077:
        yield "warning", _("{place} can be read by others; run `chmod 600` on it.", place)
    if size > LARGE_BYTES:
        yield "note", _("{place} has {size:.1f} GB.", place, size / 1024**3)

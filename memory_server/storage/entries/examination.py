"""What `doctor` says about the database of knowledge; changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from memory_server.core.phrases import Finding, Grade, counted
from nlp.index_terms import signature

LARGE_BYTES = 1024**3
"""A database above this is worth a look: 10,000 notes take 50 MB."""
_LIVE = "SELECT id FROM entries WHERE archived_ms IS NULL"
_WRONG = (
    f"SELECT (SELECT count(*) FROM ({_LIVE} EXCEPT SELECT rowid FROM terms)) "
    f"+ (SELECT count(*) FROM (SELECT rowid FROM terms EXCEPT {_LIVE}))"
)

_WITHOUT_VECTOR = (
    "SELECT count(*) FROM entries e JOIN scopes s ON s.id = e.scope LEFT JOIN vectors v ON v.key = e.vector_key "
    "WHERE s.space = 'sessions' AND e.archived_ms IS NULL AND v.key IS NULL"
)


def examine(place: Path, embeds: str, connection: sqlite3.Connection) -> list[Finding]:
    """The findings about the file at `place`; `embeds`: the model of the vectors, "" for none."""
    size, value = place.stat().st_size, partial(_value, connection)
    found = [Finding(grade, "knowledge", said) for grade, said in _said(place, embeds, value, size)]
    count = value(f"SELECT count(*) FROM ({_LIVE})") if not found else 0
    return found or [Finding("ok", "knowledge", f"{count:,} entries in {size / 1024**2:.1f} MB")]


def _value(connection: sqlite3.Connection, query: str) -> object:
    return connection.execute(query).fetchone()[0]


def _said(place: Path, embeds: str, value: Callable[[str], object], size: int) -> Iterator[tuple[Grade, str]]:
    if (check := value("PRAGMA quick_check(1)")) != "ok":
        yield "error", f"{place} is damaged ({check}); `memory-server backup restore NAME --overwrite` replaces it."
        return
    if wrong := value(_WRONG):
        yield "error", f"The index is wrong for {wrong} entries; run `memory-server knowledge reindex`."
    if value("SELECT value FROM meta WHERE name = 'terms'") != signature():
        yield "warning", "The index has other normal forms of words; run `memory-server knowledge reindex`."
    if embeds and isinstance(missing := value(_WITHOUT_VECTOR), int) and missing:
        said = counted(missing, "memory")
        yield "note", f"{said} of users without a vector; `memory-server knowledge cleanup` makes them."
    if value("PRAGMA journal_mode") != "wal":
        yield "warning", f"{place} cannot have a write-ahead log; keep it on a disk of this machine, not on a network."
    if place.stat().st_mode & 0o077:
        yield "warning", f"{place} can be read by others; run `chmod 600` on it."
    if size > LARGE_BYTES:
        yield "note", f"{place} has {size / 1024**3:.1f} GB."

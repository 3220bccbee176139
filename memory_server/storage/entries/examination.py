"""What `doctor` says about the database of knowledge; changes nothing."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from memory_server.core.findings import Finding
from nlp.index_terms import signature

LARGE_BYTES = 1024**3
"""A database above this is worth a look: 10,000 notes take 50 MB."""


def examine(place: Path, connection: sqlite3.Connection) -> list[Finding]:
    """The findings about the file at `place`."""
    found = list(_findings(place, connection))
    if not found:
        (count,) = connection.execute("SELECT count(*) FROM entries WHERE archived_ms IS NULL").fetchone()
        found = [Finding("ok", "knowledge", f"{count:,} entries in {place.stat().st_size / 1024**2:.1f} MB")]
    return found


def _findings(place: Path, connection: sqlite3.Connection) -> Iterator[Finding]:
    (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if check != "ok":
        yield Finding(
            "error", "knowledge", f"{place} is damaged ({check}); `memory-server restore NAME --overwrite` replaces it."
        )
        return
    live = "SELECT id FROM entries WHERE archived_ms IS NULL"
    wrong = sum(
        connection.execute(f"SELECT count(*) FROM ({query})").fetchone()[0]
        for query in (f"{live} EXCEPT SELECT rowid FROM terms", f"SELECT rowid FROM terms EXCEPT {live}")
    )
    if wrong:
        yield Finding(
            "error", "knowledge", f"The index misses {wrong:,} entries; run `memory-server knowledge reindex`."
        )
    (terms,) = connection.execute("SELECT value FROM meta WHERE name = 'terms'").fetchone()
    if terms != signature():
        said = "The index was made with other normal forms of words; run `memory-server knowledge reindex`."
        yield Finding("warning", "knowledge", said)
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        said = f"{place} cannot have a write-ahead log, as on a network drive; keep memories on a disk of this machine."
        yield Finding("warning", "knowledge", said)
    status = place.stat()
    if stat.S_IMODE(status.st_mode) & 0o077:
        yield Finding("warning", "knowledge", f"{place} can be read by others; run `chmod 600` on it.")
    if status.st_size > LARGE_BYTES:
        yield Finding("note", "knowledge", f"{place} has {status.st_size / 1024**3:.1f} GB.")

"""What `doctor` says about the database of knowledge; changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from languages import _, counted, joined, n_
from memory_server.kernel.text import Finding, Grade
from memory_server.knowledge.entry import wrong_field
from memory_server.storage.entries.rows import COLUMNS, values_of
from nlp.index_terms import signature

LARGE_BYTES = 1024**3
"""A database above this is worth a look: 10,000 notes take 50 MB."""
_LIVE = "SELECT id FROM entries WHERE archived_ms IS NULL"
_WRONGLY_INDEXED = (
    f"SELECT (SELECT count(*) FROM ({_LIVE} EXCEPT SELECT rowid FROM terms)) "
    f"+ (SELECT count(*) FROM (SELECT rowid FROM terms EXCEPT {_LIVE}))"
)
_TEXTS = (
    "SELECT id, CAST(title AS BLOB), CAST(body AS BLOB), CAST(tags AS BLOB), CAST(examples AS BLOB), "
    "CAST(metadata AS BLOB) FROM entries"
)
"""The texts of entries, as they lie in the file; those after the first `_PLAIN_TEXTS` are JSON."""
_PLAIN_TEXTS = 2
_MOST_NAMED = 5
"""The most entries that are named in one finding."""
_WRONG_PAST = (
    "SELECT (SELECT count(*) FROM changes WHERE before NOTNULL AND "
    "CASE WHEN json_valid(before) THEN json_type(before) <> 'object' ELSE 1 END) + (SELECT count(*) FROM operations "
    "WHERE CASE WHEN json_valid(detail) AND json_valid(caller) AND json_valid(entries) THEN json_type(detail) <> 'object' "
    "OR json_type(caller) <> 'object' OR json_type(entries) <> 'array' ELSE 1 END)"
)
_WITHOUT_VECTOR = (
    "SELECT count(*) FROM entries e JOIN scopes s ON s.id = e.scope LEFT JOIN vectors v ON v.key = e.vector_key "
    "WHERE s.space = 'sessions' AND e.archived_ms IS NULL AND v.key IS NULL"
)


def examine(path: Path, embeds: str, connection: sqlite3.Connection) -> list[Finding]:
    """Return the findings about the file at `path`, or a good one with its size. `embeds`: the model of the vectors, ""
    without a model."""
    size = path.stat().st_size
    troubles = list(_troubles(path, embeds, connection=connection, size=size))
    if troubles:
        return [Finding(grade, _("knowledge"), text) for grade, text in troubles]
    count = _value(connection, f"SELECT count(*) FROM ({_LIVE})")
    assert isinstance(count, int)
    entries = n_(
        "{count:,} entry in {size:.1f} MB",
        "{count:,} entries in {size:.1f} MB",
        count,
        size / 1024**2,
    )
    return [Finding("ok", _("knowledge"), entries)]


def damage(connection: sqlite3.Connection) -> str:
    """Describe the damage of the database; empty if it is whole. A damaged index does not count, because it can be
    made again. 10,000 notes take 0.15 s."""
    (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if check != "ok" and "fts5" not in check.lower():
        return " ".join(check.replace("*", "").split())
    for entry_id, *texts in connection.execute(_TEXTS):
        try:
            for text in texts[:_PLAIN_TEXTS]:
                text.decode()
            for text in texts[_PLAIN_TEXTS:]:
                orjson.loads(text)
        except (ValueError, AttributeError):  # not UTF-8, not JSON, or not there
            return _("a text of entry {number} cannot be read", entry_id)
    return ""


def unusable_entries(connection: Any, place: object) -> str | None:
    """Return a sentence on the entries with a value of a wrong type, with the reasons of the first
    `_MOST_NAMED`, or None if all can be used."""
    reasons: list[str] = []
    for row in connection.execute(f"SELECT {COLUMNS} FROM entries e"):
        values = values_of(connection, row)
        field_name = wrong_field(values)
        if field_name is not None:
            reasons.append(
                _("entry {id}: its `{field}` is of the wrong kind", values["id"], field_name)
            )

    if not reasons:
        return None

    return n_(
        "{count} entry of {place} cannot be used ({reasons}); the others are used, it stays as it is.",
        "{count} entries of {place} cannot be used ({reasons}); the others are used, these stay as they are.",
        len(reasons),
        place,
        joined(", ", reasons[:_MOST_NAMED]),
    )


def troubles_of_entries(
    connection: Any, place: object, stored_signature: object, embeds: str
) -> Iterator[tuple[Grade, str]]:
    """Yield a grade and a sentence for entries that cannot be used, an index of another version
    (`stored_signature`), and memories of users without a vector, if `embeds` names a model."""
    unusable = unusable_entries(connection, place)
    if unusable is not None:
        yield "warning", unusable

    # Another version of this program, or of its dictionaries, made the index.
    if stored_signature != signature():
        yield (
            "warning",
            _("The index has other normal forms of words; run `memory-server knowledge reindex`."),
        )

    missing = 0
    if embeds:
        missing = _value(connection, _WITHOUT_VECTOR)
    if missing:
        memories = counted(missing, "memory")
        yield (
            "note",
            _(
                "{said} of users without a vector; `memory-server knowledge cleanup` makes them.",
                memories,
            ),
        )


def _value(connection: Any, query: str) -> Any:
    return connection.execute(query).fetchone()[0]


def _troubles(
    path: Path, embeds: str, connection: sqlite3.Connection, size: int
) -> Iterator[tuple[Grade, str]]:
    """Yield a grade and a sentence for each trouble of the database at `path`, which has `size`
    bytes. If the file is damaged, yield only that. `embeds`: the model of the vectors, "" for
    none."""
    value = partial(_value, connection)
    # Nothing else can be said of a damaged file for sure.
    damaged_part = damage(connection)
    if damaged_part:
        sentence = _(
            "{place} is damaged ({wrong_there}), and nothing is written to it", path, damaged_part
        )
        yield (
            "error",
            _("{said}; `memory-server backup restore NAME --overwrite` replaces it.", sentence),
        )
        return

    past = value(_WRONG_PAST)
    if past:
        changes = counted(past, "change")
        yield (
            "warning",
            _("{changes} in the history of {place} cannot be used; the others are.", changes, path),
        )

    wrong = value(_WRONGLY_INDEXED)
    if wrong:
        yield (
            "error",
            _(
                "The index is wrong for {wrong} entries; run `memory-server knowledge reindex`.",
                wrong,
            ),
        )

    stored_signature = value("SELECT value FROM meta WHERE name = 'terms'")
    yield from troubles_of_entries(connection, path, stored_signature, embeds)

    if value("PRAGMA journal_mode") != "wal":
        sentence = _(
            "{place} cannot have a write-ahead log; keep it on a disk of this machine, not on a network.",
            path,
        )
        yield "warning", sentence

    if path.stat().st_mode & 0o077:
        yield "warning", _("{place} can be read by others; run `chmod 600` on it.", path)
    if size > LARGE_BYTES:
        yield "note", _("{place} has {size:.1f} GB.", path, size / 1024**3)

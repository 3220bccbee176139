"""The knowledge of a tenant as a database of SQLite, and back: for backups, for what is about to be replaced, and for
`memory-server copy`."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import StorageError
from memory_server.kernel.scopes import Scope
from memory_server.kernel.times import moment_of
from memory_server.storage.entries import operations, schema, sqlite_work
from memory_server.storage.entries.schema import KEPT, NUMBERED
from memory_server.storage.entries.sqlite_rows import Connection, damaged
from memory_server.storage.postgres.entry_rows import OwnRows, as_given, folded
from sandbox.locale import _

_NAME = re.compile("[a-z_]{1,40}")


def fill_copy(rows: OwnRows, copy: Connection) -> None:
    """Put all of it into an empty database of SQLite."""
    rows.take_time()
    copy.execute("BEGIN")
    with copy:
        for table in KEPT:
            names = _columns(copy, table)
            found = rows.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {KEPT[table]}")
            into = f"INSERT INTO {table} VALUES({', '.join('?' * len(names))})"
            copy.executemany(into, ([*map(as_given, row)] for row in found))
        for table, last in zip(NUMBERED, rows.last_numbers(), strict=True):
            copy.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            copy.execute("INSERT INTO sqlite_sequence VALUES(?, ?)", (table, last))
        operations.rebuild(copy)


def write_copy(rows: OwnRows, path: Path) -> None:
    schema.make_file(path)
    with closing(schema.connect(path, "rw", 0)) as copy:
        schema.prepare(copy, path, durability="full", cache_mb=16)
        fill_copy(rows, copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def take_copy(rows: OwnRows, copy: Connection) -> None:
    """Put what a database of SQLite holds in the place of all that is there."""
    for table in reversed(KEPT):
        rows.execute(f"DELETE FROM {table}")
    of_scope = {
        number: rows.view(Scope(space, owner), make=True).number
        for number, space, owner in copy.execute("SELECT id, space, owner FROM scopes ORDER BY id")
    }

    def row_of(names: list[str], row: Any) -> list[Any]:
        values = dict(zip(names, row, strict=True))
        values |= {"scope": of_scope[values["scope"]]} if "scope" in values else {}
        values |= {"before": bytes.decode(values["before"])} if isinstance(values.get("before"), bytes) else {}
        return [*values.values(), *([folded(values["tags"])] if "tags" in values else [])]

    for table in list(KEPT)[1:]:
        names = _columns(copy, table)
        more = ["folded"] if table == "entries" else []
        marks = ", ".join("?" * len(names + more))
        found = copy.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {KEPT[table]}")
        while part := found.fetchmany(1000):
            into = f"INSERT INTO {table}({', '.join(names + more)}) VALUES({marks})"
            rows.executemany(into, [row_of(names, row) for row in part])
    for table in NUMBERED:
        last = copy.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        rows.numbers[table] = 0 if last is None else last[0]
    operations.rebuild(rows)


def set_aside(rows: OwnRows, now_ms: int, keep_ms: int) -> Path:
    """Keep a copy in the database, named after the present moment or the first one after it that no other copy has."""
    rows.execute("DELETE FROM copies WHERE made_ms < ?", (now_ms - keep_ms,))
    there, made_ms = {row[0] for row in rows.execute("SELECT name FROM copies").fetchall()}, now_ms
    while (name := f"knowledge-{moment_of(made_ms):%Y%m%d-%H%M%S}-{made_ms % 1000:03d}.sqlite3") in there:
        made_ms += 1
    with closing(schema.in_memory()) as copy:
        fill_copy(rows, copy)
        rows.execute("INSERT INTO copies VALUES(?, ?, ?)", (name, now_ms, copy.serialize()))
    return Path(name)


def fill_stage(rows: OwnRows, stage: Connection, path: Path, wait_seconds: float) -> None:
    """Make an empty database equal to the copy at `path`, or to the one of that name that was set aside."""
    if path.parent != Path():
        return sqlite_work.fill(stage, path, wait_seconds)
    if (found := rows.execute("SELECT data FROM copies WHERE name = ?", (path.name,)).fetchone()) is None:
        raise StorageError(_("There is no copy {path} any more; nothing was changed.", path), path)
    stage.deserialize(found[0])
    return None


def erase_copies(rows: OwnRows, erasure: Erasure) -> None:
    """From all that were set aside."""
    for (name,) in rows.execute("SELECT name FROM copies").fetchall():
        with closing(schema.connect(None, "rw", 0)) as copy:
            fill_stage(rows, copy, Path(name), 0)
            operations.erase(copy, erasure, past=True)
            operations.rebuild(copy)
            copy.execute("VACUUM")
            rows.execute("UPDATE copies SET data = ? WHERE name = ?", (copy.serialize(), name))


def _columns(copy: Connection, table: str) -> list[str]:
    names = [str(row["name"]) for row in copy.execute(f"PRAGMA table_info({table})")]
    if not all(map(_NAME.fullmatch, names)):  # of a copy that somebody else made; they become a part of statements
        raise damaged(_("a column has a foreign name"))
    return names

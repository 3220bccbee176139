"""The knowledge of a tenant as a database of SQLite, and back: for backups, for what is about to be replaced, and for
`memory-server copy`."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from languages import Sentence, _
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import StorageError
from memory_server.kernel.scopes import Scope
from memory_server.kernel.times import moment_of
from memory_server.knowledge.entry import FIELDS, LISTS, wrong_field
from memory_server.storage.entries import operations, schema, sqlite_work
from memory_server.storage.entries.rows import values_of
from memory_server.storage.entries.schema import KEPT, NUMBERED
from memory_server.storage.entries.sqlite_rows import Connection, damaged
from memory_server.storage.postgres.entry_rows import OwnRows, folded, with_nul

log = logging.getLogger(__name__)
_NAME = re.compile("[a-z_]{1,40}")
_ROWS_AT_ONCE = 1000


def fill_copy(rows: OwnRows, copy: Connection) -> None:
    """Put all of it into an empty database of SQLite."""
    rows.take_time()
    copy.execute("BEGIN")
    with copy:
        for table, order in KEPT.items():
            names = _columns(copy, table)
            selected = rows.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {order}")
            parameters = ", ".join("?" * len(names))
            copy.executemany(
                f"INSERT INTO {table} VALUES({parameters})",
                ([*map(with_nul, row)] for row in selected),
            )
        for table, last_number in zip(NUMBERED, rows.last_numbers(), strict=True):
            copy.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            copy.execute("INSERT INTO sqlite_sequence VALUES(?, ?)", (table, last_number))
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
    scope_numbers: dict[int, int | None] = {}
    for number, space, owner in copy.execute("SELECT id, space, owner FROM scopes ORDER BY id"):
        scope_numbers[number] = rows.view(Scope(space, owner), make=True).number
    for table in KEPT:
        if table != "scopes":
            _take_table(rows, copy, table=table, scope_numbers=scope_numbers)
    for table in NUMBERED:
        last = copy.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        rows.numbers[table] = 0 if last is None else last[0]
    operations.rebuild(rows)


def _take_table(
    rows: OwnRows, copy: Connection, table: str, scope_numbers: Mapping[int, int | None]
) -> None:
    names = _columns(copy, table)
    columns = list(names)
    if table == "entries":
        columns.append("folded")
    parameters = ", ".join("?" * len(columns))
    insert = f"INSERT INTO {table}({', '.join(columns)}) VALUES({parameters})"
    selected = copy.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {KEPT[table]}")
    part = selected.fetchmany(_ROWS_AT_ONCE)
    while part:
        taken = [row for row in part if table != "entries" or _can_be_taken(copy, row)]
        rows.executemany(insert, [_row_of(names, row, scope_numbers) for row in taken])
        part = selected.fetchmany(_ROWS_AT_ONCE)


def _can_be_taken(copy: Connection, row: Any) -> bool:
    """Tell whether the columns of PostgreSQL, which have types, take a row of an entry: its JSON may be of any kind."""
    wrong = wrong_field(values_of(copy, [row[name] for name in FIELDS]))
    if wrong is None or wrong in (*LISTS, "metadata"):
        return True
    log.warning("entry %s is not copied: its %s is of the wrong kind", row["id"], wrong)
    return False


def _row_of(names: list[str], row: Any, scope_numbers: Mapping[int, int | None]) -> list[Any]:
    """Return the values of a row of a copy as PostgreSQL takes them."""
    values = dict(zip(names, row, strict=True))
    if "scope" in values:
        values["scope"] = scope_numbers[values["scope"]]
    if isinstance(values.get("before"), bytes):
        values["before"] = values["before"].decode()
    if "tags" in values:
        tags = orjson.loads(values["tags"])
        values["folded"] = folded(tags) if wrong_field({"tags": tags}) is None else []
    return list(values.values())


def set_aside(rows: OwnRows, now_ms: int, keep_ms: int) -> Path:
    """Keep a copy in the database, named after the present moment or the first one after it that no other copy has."""
    rows.execute("DELETE FROM copies WHERE made_ms < ?", (now_ms - keep_ms,))
    names = {row[0] for row in rows.execute("SELECT name FROM copies").fetchall()}
    made_ms = now_ms
    while _copy_name(made_ms) in names:
        made_ms += 1
    name = _copy_name(made_ms)
    with closing(schema.in_memory()) as copy:
        fill_copy(rows, copy)
        rows.execute("INSERT INTO copies VALUES(?, ?, ?)", (name, now_ms, copy.serialize()))
    return Path(name)


def _copy_name(made_ms: int) -> str:
    return f"knowledge-{moment_of(made_ms):%Y%m%d-%H%M%S}-{made_ms % 1000:03d}.sqlite3"


def fill_stage(rows: OwnRows, stage: Connection, path: Path, wait_seconds: float) -> None:
    """Make an empty database equal to the copy at `path`, or to the copy of that name that was set aside."""
    if path.parent != Path():
        sqlite_work.fill(stage, path, wait_seconds)
        return
    row = rows.execute("SELECT data FROM copies WHERE name = ?", (path.name,)).fetchone()
    if row is None:
        raise StorageError(
            Sentence("There is no copy {path} any more; nothing was changed.", path), path
        )
    stage.deserialize(row[0])


def erase_copies(rows: OwnRows, erasure: Erasure) -> None:
    """Take what is erased out of all copies that were set aside."""
    for (name,) in rows.execute("SELECT name FROM copies").fetchall():
        with closing(schema.connect(None, "rw", 0)) as copy:
            fill_stage(rows, copy, path=Path(name), wait_seconds=0)
            operations.erase(copy, erasure, past=True)
            operations.rebuild(copy)
            copy.execute("VACUUM")
            rows.execute("UPDATE copies SET data = ? WHERE name = ?", (copy.serialize(), name))


def _columns(copy: Connection, table: str) -> list[str]:
    names = [str(row["name"]) for row in copy.execute(f"PRAGMA table_info({table})")]
    if not all(
        map(_NAME.fullmatch, names)
    ):  # the copy may come from a stranger, and names become a part of statements
        raise damaged(_("a column has a foreign name"))
    return names

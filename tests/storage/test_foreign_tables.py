"""A database of another program is read, and its folder stays as it was."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memory_server.kernel.errors import InvalidInput
from memory_server.storage.entries import foreign_tables

_COLUMNS = {"observations": ("title",)}


def _with_log(folder: Path) -> None:
    """A database whose newest row stands in its write-ahead log."""
    source = folder.with_name("source")
    source.mkdir()
    with closing(sqlite3.connect(source / "a.db")) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE observations(title TEXT)")
        connection.execute("INSERT INTO observations VALUES('a horse')")
        connection.commit()
        for name in ("a.db", "a.db-wal"):
            shutil.copy(source / name, folder / name)


def _with_journal(folder: Path) -> None:
    """A database in the middle of a change that was never finished, beside its journal."""
    source = folder.with_name("source")
    source.mkdir()
    with closing(sqlite3.connect(source / "a.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("CREATE TABLE observations(title TEXT)")
        connection.execute("INSERT INTO observations VALUES('a horse')")
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO observations VALUES(?)", [("x" * 900,) for _row in range(500)]
        )
        for name in ("a.db", "a.db-journal"):
            shutil.copy(source / name, folder / name)
        connection.execute("ROLLBACK")


def _plain(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "a.db")) as connection:
        connection.execute("CREATE TABLE observations(title TEXT)")
        connection.execute("INSERT INTO observations VALUES('a horse')")
        connection.commit()


def _state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.mark.parametrize("written", [_with_log, _with_journal, _plain])
def test_the_folder_of_another_program_stays_as_it_was(
    tmp_path: Path, written: Callable[[Path], None]
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    written(folder)
    before = _state(folder)
    rows = foreign_tables.rows_of(folder / "a.db", _COLUMNS)
    assert [row["title"] for row in rows["observations"]] == ["a horse"]
    assert foreign_tables.tables_of(folder / "a.db")["observations"].rows == 1
    assert _state(folder) == before


def test_a_database_gives_no_more_than_its_file_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plain(tmp_path)
    monkeypatch.setattr(foreign_tables, "_bytes_of", lambda _path: 1)
    with pytest.raises(InvalidInput, match="or is damaged"):
        foreign_tables.rows_of(tmp_path / "a.db", _COLUMNS)

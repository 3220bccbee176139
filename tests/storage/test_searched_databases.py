"""A file in which words cannot be looked for is never taken for one that was searched."""

from __future__ import annotations

import json
import sqlite3
import zipfile
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from memory_server.kernel.erasure import Erasure
from memory_server.storage.erased_files import holding

WALRUS = Erasure((), (), (), ("walrus",))


def database(path: Path, table: str, text: str) -> Path:
    packed = zlib.compress(json.dumps({"body": text}).encode())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {table}(seq INTEGER PRIMARY KEY, before BLOB)")
        connection.executemany(f"INSERT INTO {table}(before) VALUES(?)", [(packed,)] * 400)
        connection.commit()
    return path


@pytest.mark.parametrize("table", ["operations", "something_else"])
def test_the_rows_of_every_database_are_looked_at(table: str, tmp_path: Path) -> None:
    path = database(tmp_path / "k.sqlite3", table, "purple walrus")
    assert holding(tmp_path, WALRUS).texts == (path,)


def test_a_damaged_database_counts_as_unread(tmp_path: Path) -> None:
    path = database(tmp_path / "k.sqlite3", "operations", "green tea")
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    traces = holding(tmp_path, WALRUS)
    assert traces.texts == ()
    assert traces.unread == (path,)


def test_a_whole_database_without_the_words_is_searched(tmp_path: Path) -> None:
    database(tmp_path / "k.sqlite3", "operations", "green tea")
    traces = holding(tmp_path, WALRUS)
    assert traces.texts == ()
    assert traces.unread == ()


def test_a_zip_with_a_password_counts_as_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.txt", "purple walrus " * 99)
    data = bytearray(path.read_bytes())
    for mark, position in (
        (b"PK\x03\x04", 6),
        (b"PK\x01\x02", 8),
    ):  # the flag "encrypted" of both headers
        data[data.index(mark) + position] |= 1
    path.write_bytes(data)
    assert holding(tmp_path, WALRUS).unread == (path,)

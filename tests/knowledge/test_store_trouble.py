"""A database that cannot be used as it is: one sentence that says what to do, nothing changed, nothing lost."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from entries_held import figures, page
from knowledge_past import restored

from memory_server.config import Settings
from memory_server.kernel.errors import LockTimeout, StorageError, StorageUnwritable
from memory_server.knowledge.entry import Filter, Operation
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.notes.notes import NOTES, Notes
from memory_server.knowledge.policies import Options
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.service import Knowledge
from memory_server.runtime.app import App
from memory_server.storage.entries import schema
from memory_server.storage.entries.sqlite_store import SqliteStore

pytestmark = pytest.mark.anyio


def opened(folder: Path, **options: object) -> SqliteStore:
    return SqliteStore(folder / "k.sqlite3", lambda: 1_000, **options)  # type: ignore[arg-type]


async def filled(folder: Path) -> Path:
    store = opened(folder)
    await Notes(store, lambda: 1).remember("tech", "pizza", "披萨 pizza")
    await store.aclose()
    return folder / "k.sqlite3"


async def refused(folder: Path, error: type[StorageError], message: str, **options: object) -> None:
    store = opened(folder, **options)
    with pytest.raises(error, match=message):
        await Notes(store, lambda: 2).remember("tech", "pizza", "other")
    await store.aclose()


async def test_a_file_that_is_not_a_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "k.sqlite3"
    path.write_bytes(b"these are my notes, not a database\n" * 100)
    before = path.read_bytes()
    await refused(tmp_path, StorageError, "doctor.*restore.*not touched")
    store = opened(tmp_path)
    with pytest.raises(StorageError, match="not a database"):
        await page(store, NOTES, Filter())
    (finding,) = await store.examine()
    assert finding.grade == "error"
    assert "doctor" in finding.what
    await store.aclose()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage", [lambda data: b"these are my notes\n" * 1_000, lambda data: data[: len(data) // 2]]
)
async def test_a_restore_that_overwrites_mends_what_is_not_a_database_and_keeps_it(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = await filled(tmp_path)
    store = opened(tmp_path)
    copy = tmp_path / "copy.sqlite3"
    await store.copy_to(copy)
    await store.aclose()
    broken = damage(path.read_bytes())
    path.write_bytes(broken)
    knowledge = Knowledge(opened(tmp_path), lambda: 3)
    with pytest.raises(StorageError, match="backup restore NAME --overwrite"):
        await restored(knowledge, copy)
    assert path.read_bytes() == broken
    assert await restored(knowledge, copy, overwrite=True) == 1
    assert [hit.entry.body for hit in (await knowledge.notes.recall("pizza")).hits] == [
        "披萨 pizza"
    ]
    assert (await knowledge.notes.remember("tech", "later", "text")).result.action == "created"
    looks = await KnowledgeLifecycle(knowledge).examinations()
    assert [finding.grade for look in looks for finding in await look()] == ["ok"]
    await knowledge.aclose()
    (kept_file,) = (tmp_path / "archive").glob("*.sqlite3")
    assert kept_file.read_bytes() == broken


async def notes_in_a_file(folder: Path) -> Path:
    """Nine notes; all of the file is outside of the log. One is long, so that it has pages of its own."""
    store = opened(folder)
    for number in range(9):
        text = f"the pool has {number} connections" + " and more" * (3_000 if number == 5 else 1)
        await Notes(store, lambda: 1).remember(
            "domain", f"topic {number}", text, tags=[f"tag{number}"]
        )
    await store.tidy(texts_before_ms=0, operations_before_ms=0)
    await store.aclose()
    return folder / "k.sqlite3"


def with_byte(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :]


def without_a_pointer(data: bytes) -> bytes:
    """A page that goes on a long text gets a successor that does not exist."""
    at = next(
        at for at in range(0, len(data), 4096) if b" and more" * 100 in data[at + 4 : at + 1_000]
    )
    return data[:at] + b"\x00\xff\xff\xff" + data[at + 4 :]


@pytest.mark.parametrize(
    ("damage", "found_count", "listed_count"),
    [
        (lambda data: with_byte(data, data.rfind(b"the pool has 3")), 9, 9),
        (lambda data: with_byte(data, data.rfind(b'["tag3"]')), 9, 9),
        (lambda data: data.replace(b'["tag3"]', b'["tag3"['), 9, 9),
        (without_a_pointer, 8, 8),
    ],
)
async def test_what_can_be_read_is_shown_and_nothing_is_written_where_a_byte_is_damaged(
    tmp_path: Path,
    damage: Callable[[bytes], bytes],
    found_count: int,
    listed_count: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = await notes_in_a_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert path.read_bytes() != whole
    store = opened(tmp_path)
    notes = Notes(store, lambda: 2, Options(least_share=0.0))
    with pytest.raises(StorageError, match=r"damaged.*not touched"):
        await notes.remember("domain", "later", "text")
    hits = await notes.recall("pool connections", limit=20)
    assert len(hits.hits) == found_count
    if found_count < 9:
        assert hits.left_off == {"damaged": 9 - found_count}
    else:
        assert hits.left_off == {}
    assert len((await notes.recall(limit=20)).hits) == listed_count
    assert [hit.entry.title for hit in (await notes.recall("", tags=["tag7"])).hits] == ["topic 7"]
    assert "only a part can be read" in caplog.text
    (finding,) = await store.examine()
    assert finding.grade == "error"
    assert "is damaged" in finding.what
    with pytest.raises(StorageError, match="damaged"):
        await notes.reindex()
    await store.aclose()
    assert path.read_bytes() == damage(whole)


async def test_damage_that_a_search_meets_ends_writing_until_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_server.storage.entries.sqlite_store.CHECKED_BYTES", 0)
    path = await notes_in_a_file(tmp_path)
    whole = path.read_bytes()
    store = opened(tmp_path)
    await store.copy_to(tmp_path / "copy.sqlite3")
    await store.aclose()
    path.write_bytes(with_byte(whole, whole.rfind(b"the pool has 3")))
    store = opened(tmp_path)
    notes = Notes(store, lambda: 2)
    assert (await notes.remember("domain", "later", "text")).result.action == "created"
    assert len((await notes.recall("pool connections")).hits) == 8
    with pytest.raises(StorageError, match="damaged"):
        await notes.remember("domain", "later", "new")
    await store.replace_by(tmp_path / "copy.sqlite3", NOTES, Operation("overwrite", "test"))
    assert (await notes.remember("domain", "topic 3", "new")).result.action == "updated"
    assert all(finding.grade != "error" for finding in await store.examine())
    await store.aclose()


async def test_a_file_that_was_cut_is_refused_although_its_log_is_there(tmp_path: Path) -> None:
    path = await notes_in_a_file(tmp_path)
    log_file = tmp_path / "k.sqlite3-wal"
    store = opened(tmp_path)
    reader = sqlite3.connect(path)
    reader.execute("SELECT count(*) FROM entries").fetchone()
    await Notes(store, lambda: 2).remember("domain", "later", "text")
    log = log_file.read_bytes()
    reader.close()
    await store.aclose()
    assert len(log) > 4096
    log_file.write_bytes(log)
    for size in (20_000, 4_096):
        os.truncate(path, size)
        for _ in range(2):
            cut_store = opened(tmp_path)
            with pytest.raises(StorageError, match="pages are missing at its end"):
                await Notes(cut_store, lambda: 2).recall("pool")
            with pytest.raises(StorageError, match="pages are missing at its end"):
                await Notes(cut_store, lambda: 2).remember("domain", "t", "x")
            (finding,) = await cut_store.examine()
            assert finding.grade == "error"
            assert "pages are missing" in finding.what
            await cut_store.aclose()
        assert path.stat().st_size == size
        assert log_file.read_bytes() == log


async def test_a_look_at_the_file_leaves_the_locks_of_this_process(tmp_path: Path) -> None:
    """POSIX drops all locks of a process on a file with the first descriptor of it that the process closes. Another
    process would then take itself for the last one, and delete the log that this one writes to."""
    await filled(tmp_path)
    store = opened(tmp_path)
    other_store = opened(tmp_path)
    await Notes(store, lambda: 2).remember("domain", "later", "text")
    assert len((await Notes(other_store, lambda: 2).recall("text")).hits) == 1
    query = "SELECT count(*) FROM entries"
    code = f"import sqlite3; c = sqlite3.connect({str(store.place)!r}); print(*c.execute({query!r}).fetchone()); c.close()"
    assert (await anyio.run_process([sys.executable, "-c", code])).stdout == b"2\n"
    assert (tmp_path / "k.sqlite3-wal").exists()
    await store.aclose()
    await other_store.aclose()


async def test_a_file_that_is_there_is_not_opened_to_be_made(tmp_path: Path) -> None:
    """As above: two writers of a process may both find that there is no file."""
    path = await filled(tmp_path)
    store = opened(tmp_path)
    await Notes(store, lambda: 2).remember("domain", "later", "text")
    schema.make_file(path)
    code = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute('SELECT 1 FROM entries').fetchone()"
    await anyio.run_process([sys.executable, "-c", code])
    assert (tmp_path / "k.sqlite3-wal").exists()
    await store.aclose()


async def test_copies_that_are_set_aside_in_one_moment_are_all_kept(tmp_path: Path) -> None:
    store = opened(tmp_path)
    copies = []
    for number in range(3):
        await Notes(store, lambda: 2).remember("domain", f"topic {number}", "text")
        copies.append(await store.set_aside())
    assert len({*copies}) == 3
    for number, copy_path in enumerate(copies):
        assert copy_path is not None
        with sqlite3.connect(copy_path) as copy:
            assert copy.execute("SELECT count(*) FROM entries").fetchone() == (number + 1,)
        copy.close()
    (tmp_path / "archive" / "knowledge-of-another.sqlite3-journal").symlink_to(
        "gone"
    )  # as removed meanwhile
    assert await store.set_aside() is not None
    await store.aclose()


async def test_a_file_whose_newest_pages_are_only_in_its_log_is_whole(tmp_path: Path) -> None:
    path = await filled(tmp_path)
    store = opened(tmp_path)
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM entries").fetchone()
    await Notes(store, lambda: 2).remember("domain", "long", "many words " * 5_000)
    assert path.stat().st_size < 100_000 + 4096 * 4
    other_store = opened(tmp_path)
    assert len((await Notes(other_store, lambda: 2).recall("words")).hits) == 1
    reader.close()
    await store.aclose()
    await other_store.aclose()


async def test_a_database_of_another_program_is_not_touched(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "k.sqlite3")
    connection.execute("CREATE TABLE mine(a)")
    connection.commit()
    connection.close()
    before = (tmp_path / "k.sqlite3").read_bytes()
    await refused(tmp_path, StorageError, "of another program")
    assert (tmp_path / "k.sqlite3").read_bytes()[:18] == before[:18]


async def test_a_database_of_a_newer_version_says_so(tmp_path: Path) -> None:
    path = await filled(tmp_path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    await refused(tmp_path, StorageUnwritable, "newer memory-server; update this one")


async def test_a_writer_that_holds_it_is_waited_for_and_then_told_of(tmp_path: Path) -> None:
    path = await filled(tmp_path)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    await refused(tmp_path, LockTimeout, "try again", wait_seconds=0.3)
    store = opened(tmp_path, wait_seconds=60)
    threading.Timer(0.3, lambda: holder.execute("COMMIT")).start()
    notes = Notes(store, lambda: 2)
    assert [hit.entry.title for hit in (await notes.recall("pizza", reinforce=False)).hits] == [
        "pizza"
    ]
    assert (await notes.remember("tech", "pizza", "other")).result.action == "updated"
    await store.aclose()
    holder.close()


async def test_a_search_does_not_wait_for_a_writer_to_count_its_use(tmp_path: Path) -> None:
    path = await filled(tmp_path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    store = opened(tmp_path, wait_seconds=60)
    began = time.monotonic()
    assert len((await Notes(store, lambda: 2).recall("pizza")).hits) == 1
    assert time.monotonic() - began < 30
    holder.execute("ROLLBACK")
    holder.close()
    await store.aclose()


async def test_a_full_disk_refuses_and_all_is_well_once_there_is_room(tmp_path: Path) -> None:
    await filled(tmp_path)
    store = opened(tmp_path)
    notes = Notes(store, lambda: 2)
    await notes.remember("tech", "first", "text")
    # SQLite gives the error of a full disk also where a database may have no more pages.
    await store._write(lambda connection: None)
    await store._run(
        store._writer,
        lambda: store._connection("write").execute("PRAGMA max_page_count = 1").fetchall(),
    )
    with pytest.raises(StorageUnwritable, match="disk is full; make room"):
        await notes.remember("tech", "large", "word " * 20_000)
    assert (await figures(store, NOTES)).count == 2
    await store._run(
        store._writer,
        lambda: store._connection("write").execute("PRAGMA max_page_count = 1000000").fetchall(),
    )
    assert (await notes.remember("tech", "large", "word " * 20_000)).result.action == "created"
    await store.aclose()


async def test_a_folder_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path)
    connect = schema.connect

    def only_reading(path: Path | None, mode: str, wait_seconds: float) -> sqlite3.Connection:
        # As in a folder that may not be written: the log beside the file cannot be made.
        if path is not None and mode != "immutable":
            raise sqlite3.OperationalError("unable to open database file")
        return connect(path, mode, wait_seconds)

    monkeypatch.setattr(schema, "connect", only_reading)
    store = opened(tmp_path)
    assert len((await Notes(store, lambda: 1).recall("pizza")).hits) == 1
    with pytest.raises(StorageError):
        await Notes(store, lambda: 2).remember("tech", "pizza", "other")
    await store.aclose()


async def test_a_file_that_was_replaced_or_deleted_is_opened_anew(tmp_path: Path) -> None:
    path = await filled(tmp_path)
    store = opened(tmp_path)
    notes = Notes(store, lambda: 2)
    assert len((await notes.recall("pizza")).hits) == 1
    for name in os.listdir(tmp_path):
        (tmp_path / name).unlink()
    assert (await notes.recall("pizza")).hits == ()
    await notes.remember("tech", "new", "after the loss")
    assert path.exists()
    other_store = opened(tmp_path)
    assert [hit.entry.title for hit in (await Notes(other_store, lambda: 2).recall()).hits] == [
        "new"
    ]
    await other_store.aclose()
    await store.aclose()


async def test_a_damaged_index_is_told_and_made_anew(tmp_path: Path) -> None:
    path = await filled(tmp_path)
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM terms")
    connection.commit()
    connection.close()
    store = opened(tmp_path)
    assert "knowledge reindex" in (await store.examine())[0].what
    await store.rebuild()
    assert [finding.grade for finding in await store.examine()] == ["ok"]
    assert len((await Notes(store, lambda: 1).recall("pizza")).hits) == 1
    await store.aclose()


async def test_another_normal_form_of_words_is_told_and_not_changed_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path)
    monkeypatch.setattr("memory_server.storage.entries.examination.signature", lambda: "other")
    store = opened(tmp_path)
    assert "knowledge reindex" in (await store.examine())[0].what
    await store.aclose()


async def test_the_settings_reach_sqlite(tmp_path: Path) -> None:
    settings = {"data_dir": tmp_path / "elsewhere", "storage": {"wait_seconds": 3}}
    knowledge = {"durability": "normal", "cache_mb": 5}
    async with App(Settings.model_validate(settings | {"knowledge": knowledge})) as app:
        await app.knowledge.notes.remember("tech", "pizza", "披萨")
        store = app.knowledge.store
        assert isinstance(store, SqliteStore)
        expected = {
            "journal_mode": "wal",
            "synchronous": 1,  # NORMAL
            "cache_size": -5 * 1024,
            "secure_delete": 1,
            "foreign_keys": 1,
            "busy_timeout": 3_000,
        }
        pragmas = {
            name: await store._write(
                lambda connection, name=name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            )
            for name in expected
        }
        assert pragmas == expected
    assert (tmp_path / "elsewhere" / ".memory-server" / "knowledge.sqlite3").is_file()


async def test_the_files_are_their_owners_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = opened(tmp_path / "data")
        await Notes(store, lambda: 1).remember("tech", "t", "c")
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").iterdir()}
        assert set(modes.values()) == {0o600}
        assert {"k.sqlite3", "k.sqlite3-wal"} <= set(modes)
    finally:
        os.umask(old)
    await store.aclose()


async def test_a_read_only_store_changes_nothing(tmp_path: Path) -> None:
    await filled(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    store = opened(tmp_path, read_only=True)
    notes = Notes(store, lambda: 2)
    assert [hit.entry.uses for hit in (await notes.recall("pizza")).hits] == [0]
    with pytest.raises(StorageUnwritable, match="read_only"):
        await notes.remember("tech", "pizza", "other")
    await store.aclose()
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


async def test_an_index_that_another_process_is_making_is_read_a_moment_later(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "k.sqlite3", lambda: 1)
    tries: list[int] = []

    def read(view: ScopeView) -> int:
        tries.append(1)
        if len(tries) == 1:
            raise sqlite3.OperationalError("vtable constructor failed: terms")
        return view.count(Filter())

    assert await store.read(NOTES, read) == 0
    assert len(tries) == 2
    await store.aclose()


@pytest.mark.parametrize("read", [2, 3])
async def test_a_file_that_another_process_makes_between_two_looks_is_ours(
    tmp_path: Path, read: int
) -> None:
    path = tmp_path / "k.sqlite3"
    schema.make_file(path)
    connection = schema.connect(path, "rw", 1)

    class Slow:
        """The tables are made before one of its reads."""

        reads = 0

        def execute(self, statement: str) -> sqlite3.Cursor:
            self.reads += 1
            if self.reads == read:
                other_connection = schema.connect(path, "rw", 1)
                schema.prepare(other_connection, path, durability="full", cache_mb=1)
                other_connection.close()
            return connection.execute(statement)

    slow = Slow()
    assert schema.version_of(slow, path) in (0, schema.VERSION)  # type: ignore[arg-type]
    assert slow.reads == 3
    connection.close()

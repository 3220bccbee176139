"""A data folder of an older version, which kept the archive in a second file: it opens with all of its past."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sample_memories import DAY, NOW, memory
from store_on_disk import commit, open_store, private

from memory_server.conversations.changes import Restored
from memory_server.conversations.history import name_of
from memory_server.kernel.folder_names import folder_name
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.store import JsonFileStore

pytestmark = pytest.mark.anyio
CHAT = "小明"
LEFT = Path(__file__).with_name("folder_of_an_older_version")
"""Written by the last version with an archive of its own: six commits in the history and one in the journal."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The data folder; `private` is `.memory-server` there."""
    folder = tmp_path / folder_name(CHAT)
    shutil.copytree(LEFT, folder)
    (folder / "private").rename(folder / ".memory-server")
    for path in (tmp_path, folder, folder / ".memory-server"):
        path.chmod(0o700)
    return tmp_path


async def archived(store: JsonFileStore) -> list[tuple[str, str, int]]:
    return [(name_of(entry), entry.reason, entry.version) for entry in await store.archive(CHAT)]


def file(data_dir: Path, name: str) -> Path:
    return private(data_dir, name, chat=folder_name(CHAT))


WHOLE = [
    ("t", "undone", 2),
    ("a", "deleted", 2),
    ("c", "hand", 3),
    ("u", "deleted", 4),
    ("d", "too_old", 6),
]
"""Names, reasons and versions; `b` was removed and came back."""


async def test_archive_and_history_are_complete(older: Path) -> None:
    store = open_store(older)
    assert await archived(store) == WHOLE
    assert [past_commit.version for past_commit in await store.history(CHAT)] == [6, 5, 4, 3, 2, 1]
    restorable = next(entry.memory for entry in await store.archive(CHAT) if name_of(entry) == "a")
    assert restorable == memory("a", score=3.5, pinned=True)
    assert [name_of(entry) for entry in await store.archive(CHAT, newest=2)] == ["u", "d"]
    assert [
        finding.grade
        for finding in examine(older, store.folder(CHAT), NOW + DAY)
        if finding.grade != "ok"
    ] == []


async def test_what_comes_back_from_it_stays_back(older: Path) -> None:
    store = open_store(older)
    await commit(store, Restored(memory("a", score=3.5, pinned=True), "deleted"), chat=CHAT)
    remaining = [entry for entry in WHOLE if entry[0] != "a"]
    assert await archived(store) == remaining
    await store.compact(CHAT)
    assert await archived(open_store(older)) == remaining
    assert (await open_store(older).read(CHAT)).short_term["a"].pinned


async def test_the_old_file_is_let_go_of_with_the_history(older: Path) -> None:
    store = open_store(older)
    await store.compact(CHAT, now_ms=NOW + 90 * DAY + 1)
    assert await archived(store) == WHOLE[2:]
    assert b"undone" not in file(older, "archive.jsonl").read_bytes()
    await store.compact(CHAT, now_ms=NOW + 92 * DAY)
    assert await archived(store) == []
    assert file(older, "archive.jsonl").read_bytes() == b""
    assert file(older, "history.jsonl").read_bytes() == b""

"""What the disk refuses, and what other programs left on it."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from sample_memories import memory
from store_on_disk import commit, open_store, private, reopened, tree

from memory_server.conversations.changes import Added, Change, Reinforced
from memory_server.kernel.errors import StorageUnwritable
from memory_server.storage.json_store.conversation_files import ConversationFiles
from memory_server.storage.json_store.history_files import Past
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM
from memory_server.storage.partition import journal

pytestmark = pytest.mark.anyio


# --- what cannot be done -----------------------------------------------------------------------------------


def failing(number: int) -> Callable[..., Any]:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EROFS, "cannot be written"),
        (errno.EIO, "Input/output error"),
    ],
)
@pytest.mark.parametrize(
    "where",
    [
        "storage.partition.journal.sync_file",
        "kernel.files.sync_file",
        "storage.json_store.store.try_lock",
        "kernel.files.make_folder",
    ],
)
async def test_a_write_that_fails_says_why_changes_nothing_and_reading_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str, where: str
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    chat = "new" if where.startswith("kernel.files.") else "chat"
    with monkeypatch.context() as patch:
        patch.setattr(f"memory_server.{where}", failing(number))
        with pytest.raises(StorageUnwritable, match=advice):
            await commit(store, Added(memory("b")), chat=chat)
        assert [*(await store.read("chat")).short_term] == ["a"]
        assert (await store.read("new")).short_term == {}
    assert [*(await reopened(tmp_path)).short_term] == ["a"]
    assert (await reopened(tmp_path, "new")).short_term == {}
    await commit(store, Added(memory("c")), chat=chat)
    assert [*(await reopened(tmp_path, chat)).short_term][-1:] == ["c"]


@pytest.mark.parametrize(
    "where",
    ["storage.partition.journal.append", "kernel.files.write_aside", "kernel.files.append_durably"],
)
async def test_a_compaction_that_fails_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    with monkeypatch.context() as patch:
        patch.setattr(f"memory_server.{where}", failing(errno.ENOSPC))
        with pytest.raises(StorageUnwritable, match="disk is full"):
            await store.compact("chat")
        assert [*(await store.read("chat")).short_term] == ["a"]
    await commit(store, Added(memory("b")))
    await store.compact("chat")
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b"]


@pytest.mark.parametrize("blocked", ["data", "data/chat"])
async def test_a_file_in_place_of_a_folder_is_reported(tmp_path: Path, blocked: str) -> None:
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).touch()
    store = open_store(tmp_path / "data")
    with pytest.raises(StorageUnwritable, match="Nothing was changed"):
        await commit(store, Added(memory("a")))
    assert await store.conversations() == []


async def test_a_newer_format_opens_read_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    path = private(tmp_path, "journal.jsonl")
    header, rest = path.read_bytes().split(b"\n", 1)
    fields = journal.parse_line(header)
    assert isinstance(fields, dict)
    path.write_bytes(journal.frame(fields | {"format": 2, "novelty": True}) + rest)
    before = tree(tmp_path)
    later = open_store(tmp_path)
    assert [*(await later.read("chat")).short_term] == ["a"]
    with pytest.raises(StorageUnwritable, match="newer memory-server"):
        await commit(later, Added(memory("b")))
    await later.compact("chat")
    await later.aclose()
    assert tree(tmp_path) == before


async def test_one_unreadable_folder_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    for chat in ("a", "lost+found", "z"):
        (tmp_path / chat).mkdir()
        (tmp_path / chat / SHORT_TERM).write_bytes(b"[]")
    really_exists = Path.exists

    def exists(self: Path, **options: Any) -> bool:
        if self.parent.name == "lost+found" or self.parent.parent.name == "lost+found":
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return really_exists(self, **options)

    monkeypatch.setattr(Path, "exists", exists)
    assert await store.conversations() == ["a", "z"]


# --- the Node original's folder ----------------------------------------------------------------------------


async def test_a_folder_of_the_node_original_opens_as_it_is_and_keeps_unknown_fields(
    tmp_path: Path,
) -> None:
    folder_of_node = tmp_path / "Work"
    folder_of_node.mkdir()
    record = {
        "timestamp": "2026-06-20T04:00:00.000Z",
        "text": "user: hi",
        "keywords": [],
        "score": 1,
        "mood": {"a": [1]},
    }
    (folder_of_node / SHORT_TERM).write_bytes(
        orjson.dumps([record, record], option=orjson.OPT_INDENT_2)
    )
    (folder_of_node / LONG_TERM).write_bytes(
        orjson.dumps(
            [
                {
                    "name": "t",
                    "prompt": "p",
                    "trigger": "true",
                    "createdAt": record["timestamp"],
                    "tags": ["x"],
                }
            ]
        )
    )
    before = tree(tmp_path)
    store = open_store(tmp_path)
    assert await store.conversations() == ["Work"]
    state = await store.read("Work")
    assert len(state.short_term) == 2
    assert tree(tmp_path) == before
    first, second = state.short_term
    await commit(store, Reinforced(second, 1, 6), chat="Work")
    await store.compact("Work")
    records = orjson.loads((folder_of_node / SHORT_TERM).read_bytes())
    assert [(row["id"], row["score"], row["mood"]) for row in records] == [
        (first, 1, {"a": [1]}),
        (second, 6, {"a": [1]}),
    ]
    assert orjson.loads((folder_of_node / LONG_TERM).read_bytes())[0]["tags"] == ["x"]
    assert await reopened(tmp_path, "Work") == await store.read("Work")


async def test_copies_of_a_folder_are_not_listed_as_the_conversation_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")), chat="小明")
    folder = store.folder("小明")
    shutil.copytree(folder, tmp_path / "backup of 小明")
    assert await store.conversations() == ["小明"]


async def test_an_id_is_noted_beside_its_files(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for chat in ("a/b", "a:b", "CON", "小明"):
        await commit(store, Added(memory("m")), chat=chat)
        assert (
            orjson.loads(
                (store.folder(chat) / ".memory-server" / "conversation.json").read_bytes()
            )["id"]
            == chat
        )
    assert await open_store(tmp_path).conversations() == sorted(["a/b", "a:b", "CON", "小明"])


async def test_a_folder_that_may_not_be_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(self: Path, **options: Any) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "exists", forbidden)
    store = open_store(tmp_path)
    for attempt in (store.read("chat"), commit(store, Added(memory("a"))), store.compact("chat")):
        with pytest.raises(StorageUnwritable, match="check its owner and permissions"):
            await attempt


async def test_a_state_that_could_not_follow_its_journal_is_read_anew(tmp_path: Path) -> None:
    class Stumbles:
        def follow(self, change: Change) -> None:
            raise BufferError

    store = open_store(tmp_path)
    other_store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    (await store.read("chat")).follower = Stumbles()
    with pytest.raises(BufferError):
        await commit(store, Added(memory("b")), Added(memory("c")))
    assert [*(await store.read("chat")).short_term] == ["a", "b", "c"]
    (await store.read("chat")).follower = Stumbles()
    await commit(other_store, Added(memory("d")), Added(memory("e")))
    with pytest.raises(BufferError):
        await store.read("chat")
    await commit(store, Added(memory("f")))
    state = await store.read("chat")
    assert [*state.short_term] == ["a", "b", "c", "d", "e", "f"]
    assert state.version == 4
    assert await reopened(tmp_path) == state


async def test_a_write_that_the_disk_had_no_room_for_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    with monkeypatch.context() as patch:
        patch.setattr("memory_server.kernel.files.sync_file", failing(errno.ENOSPC))
        await store.aclose()
    assert not [name for name in tree(tmp_path) if name.endswith(".next")]
    # Nobody may take this for a lost write.
    assert "Every acknowledged write is safe in the journal" in caplog.text


# --- a disk whose locks keep nobody out ---------------------------------------------------------------------


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_server.kernel.files.try_lock_file", lambda _: True)


async def test_without_locks_a_write_in_between_is_refused_and_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_locks: None
) -> None:
    ours = open_store(tmp_path)
    other_store = open_store(tmp_path)
    await commit(ours, Added(memory("a")))
    append = ConversationFiles.append

    def late(self: ConversationFiles, *arguments: Any) -> Any:
        monkeypatch.setattr(ConversationFiles, "append", append)
        asyncio.run(commit(open_store(tmp_path), Added(memory("between"))))
        return append(self, *arguments)

    monkeypatch.setattr(ConversationFiles, "append", late)
    with pytest.raises(StorageUnwritable, match="locks do not work on this disk"):
        await commit(ours, Added(memory("late")))
    assert [*(await reopened(tmp_path)).short_term] == ["a", "between"]
    await commit(ours, Added(memory("b")))
    assert [*(await other_store.read("chat")).short_term] == ["a", "between", "b"]


async def test_without_locks_a_write_during_a_compaction_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_locks: None
) -> None:
    ours = open_store(tmp_path)
    await commit(ours, Added(memory("a")))
    fold = Past.fold

    def late(self: Past, *arguments: Any) -> None:
        monkeypatch.setattr(Past, "fold", fold)
        fold(self, *arguments)
        asyncio.run(commit(open_store(tmp_path), Added(memory("between"))))

    monkeypatch.setattr(Past, "fold", late)
    await ours.compact("chat")
    assert [*(await reopened(tmp_path)).short_term] == ["a", "between"]
    await commit(ours, Added(memory("b")))
    await ours.compact("chat")
    assert [*(await reopened(tmp_path)).short_term] == ["a", "between", "b"]
    assert [past_commit.version for past_commit in await ours.history("chat")] == [3, 2, 1]

"""Power loss at any moment: what was acknowledged is there, and nothing is there by half."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from crash.losing_disk import LosingDisk, Names, unsynced
from sample_memories import contents, copy_of, memory, random_changes
from store_on_disk import commit, open_store, reopened

from memory_server.conversations.changes import Added, Forgotten, apply
from memory_server.conversations.model import ConversationState
from memory_server.kernel.errors import SnapshotBroken
from memory_server.storage.json_store.conversation_files import ConversationFiles

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not Path("/proc/self/fd").is_dir(), reason="needs /proc to look into open files"
    ),
]
NAMES: tuple[Names, ...] = get_args(Names)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LosingDisk]:
    (tmp_path / "data").mkdir()
    losing_disk = LosingDisk(tmp_path / "data", monkeypatch)
    yield losing_disk
    losing_disk.on_step = lambda: None
    losing_disk.close()


async def write(data: Path, disk: LosingDisk, images: Path, rounds: int) -> None:
    """Commits and compactions; after each the power fails, and everything acknowledged must be there."""
    store = open_store(data)
    rng = Random(4)
    expected = ConversationState("chat")
    for turn in range(rounds):
        changes = random_changes(copy_of(expected), rng, 3)
        apply(expected, changes)
        await commit(store, *changes)
        if turn % 3 == 2:
            await store.compact("chat")
        for names in NAMES:
            state = await reopened(disk.after_power_loss(images / f"{turn}-{names}", names))
            assert state.version == turn + 1
            assert state.short_term == expected.short_term
            assert state.long_term == expected.long_term
            assert state.last_cleanup_ms == expected.last_cleanup_ms


async def test_what_was_acknowledged_survives_a_power_loss(
    tmp_path: Path, disk: LosingDisk
) -> None:
    await write(tmp_path / "data", disk, tmp_path / "lost", 9)


@pytest.mark.parametrize(
    "where",
    ["storage.partition.journal.sync_file", "kernel.files.sync_file", "kernel.files.sync_folder"],
)
async def test_a_forgotten_sync_is_found_by_this_test(
    tmp_path: Path, disk: LosingDisk, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(f"memory_server.{where}", unsynced)
    with pytest.raises((AssertionError, SnapshotBroken)):
        await write(tmp_path / "data", disk, tmp_path / "lost", 9)


@pytest.mark.parametrize("step", ["commit", "compaction", "first commit"])
async def test_a_power_loss_at_every_step_leaves_before_or_after(
    tmp_path: Path, disk: LosingDisk, step: str
) -> None:
    data = tmp_path / "data"
    store = open_store(data)
    if step != "first commit":
        await commit(store, Added(memory("a")), Added(memory("gone")))
        await store.compact("chat")
        await commit(store, Forgotten(memory("gone"), "deleted"))
    images: list[Path] = []

    def lose() -> None:
        for names in NAMES:
            images.append(disk.after_power_loss(tmp_path / "lost" / str(len(images)), names))

    before = contents(copy_of(await store.read("chat")))
    disk.on_step = lose
    if step == "compaction":
        await store.compact("chat")
    else:
        await commit(store, Added(memory("b")), Added(memory("c")))
    disk.on_step = lambda: None
    after = contents(await store.read("chat"))
    assert len(images) >= (4 if step == "commit" else 20)
    for image in images:
        state = await reopened(image)
        assert contents(state) in (before, after)
        later = open_store(image)
        await commit(later, Added(memory("later")))
        await later.compact("chat")
        assert "later" in (await reopened(image)).short_term
        if step != "first commit":
            archived = ConversationFiles(image / "chat", "chat").past.archived()
            assert [getattr(entry.memory, "id", "") for entry in archived] == ["gone"]

"""Conversations leave memory when they are idle or too many, and nothing is lost by that."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest
from sample_memories import memory
from store_on_disk import commit, open_store, reopened

from memory_server.conversations.changes import Added
from memory_server.storage.json_store.store import JsonFileStore, OpenConversation

pytestmark = pytest.mark.anyio


async def test_the_ones_used_longest_ago_leave_and_come_back_as_they_were(tmp_path: Path) -> None:
    store = open_store(tmp_path, open_conversations=3)
    rng = Random(5)
    counts = dict.fromkeys(map(str, range(12)), 0)
    for number in range(120):
        chat = rng.choice([*counts])
        await commit(store, Added(memory(f"m{number}")), chat=chat)
        counts[chat] += 1
        await store.compact(chat)
        for conversation in store._open.values():
            conversation.cancel_idle()
        assert len((await store.read(chat)).short_term) == counts[chat]
        assert len(store._open) <= 4
    for chat, count in counts.items():
        assert len((await reopened(tmp_path, chat)).short_term) == count


async def test_one_that_is_idle_for_long_leaves_by_itself(tmp_path: Path) -> None:
    store = open_store(tmp_path, open_minutes=0.01 / 60)
    await commit(store, Added(memory("a")))
    assert [*store._open] == ["chat"]
    # It waits for its compaction, which would be forgotten with it.
    await asyncio.sleep(0.05)
    assert [*store._open] == ["chat"]
    store._open["chat"].cancel_idle()
    async with asyncio.timeout(20):
        while store._open:  # noqa: ASYNC110 (nothing tells of a leaving)
            await asyncio.sleep(0.005)
    assert [*(await store.read("chat")).short_term] == ["a"]
    await store.aclose()


async def test_one_that_is_being_written_stays(tmp_path: Path) -> None:
    store = open_store(tmp_path, open_conversations=1)
    await commit(store, Added(memory("a")))
    conversation = store._open["chat"]
    conversation.cancel_idle()
    async with conversation._writers:
        await store.read("other")
        assert "chat" in store._open
    await store.read("another")
    assert [*store._open] == ["another"]


async def test_writers_on_both_sides_of_a_leaving_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path, open_conversations=1)
    monkeypatch.setattr(OpenConversation, "busy", False)

    async def write(name: str) -> None:
        for number in range(10):
            await commit(store, Added(memory(f"{name}{number}")))
            await store.read(f"elsewhere{name}")

    async with asyncio.timeout(60):
        await asyncio.gather(*map(write, "abc"))
    assert len((await reopened(tmp_path)).short_term) == 30


async def test_ten_thousand_folders_are_not_looked_into_by_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        (tmp_path / f"chat{number}" / ".memory-server").mkdir(parents=True)
    await commit(open_store(tmp_path), Added(memory("before")))
    looked_into: list[object] = []
    for module, name in ((Path, "iterdir"), (os, "scandir"), (os, "listdir")):
        listing = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda path, listing=listing: looked_into.append(path) or listing(path)
        )
    store: JsonFileStore = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    assert [*(await store.read("chat")).short_term] == ["before", "a"]
    assert looked_into == []
    # A new id is compared with the names that are there, once.
    await commit(store, Added(memory("a")), chat="new")
    await commit(store, Added(memory("b")), chat="new")
    assert [path for path in looked_into if Path(str(path)).parent != tmp_path / "new"] == [
        tmp_path
    ]

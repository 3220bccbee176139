"""Searching one conversation, a group of them or all; and a look without a trace."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from memory_store import MemoryStore
from sample_memories import DAY, MINUTE, NOW, memory
from trigger_table import TableRunner

from memory_server.conversations.changes import Added
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.model import ConversationState
from memory_server.conversations.recall.index import Index
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.search import Found, conversations_of
from memory_server.conversations.services import Services
from memory_server.kernel.errors import InvalidInput, LockTimeout, SnapshotBroken
from memory_server.kernel.messages import Message

pytestmark = pytest.mark.anyio

ASK = [Message("user", "晚上吃披萨吗？")]
FAMILY = {"family": ("小明", "小红*"), "nobody": ("没有",)}


class Store(MemoryStore):
    """One that counts its writes, and can refuse to read or to lock."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.locked: set[str] = set()
        self.broken: set[str] = set()

    async def read(self, conversation_id: str) -> ConversationState:
        if conversation_id in self.broken:
            raise SnapshotBroken(f"{conversation_id} is broken.")
        return await super().read(conversation_id)

    async def update(
        self, conversation_id: str, decide: Any, *, by: str, wait_seconds: float | None = None
    ) -> Any:
        if conversation_id in self.locked:
            raise LockTimeout(f"{conversation_id} is locked.")
        self.writes += 1
        return await super().update(conversation_id, decide, by=by, wait_seconds=wait_seconds)


class House:
    def __init__(self, **around: Any) -> None:
        self.store = Store()
        options = {"groups": FAMILY, **around}
        self.services = Services(
            self.store, TableRunner(), Parameters(), lambda: NOW, Random(5), **options
        )
        self.conversations = Conversations(self.services)

    async def keep(self, chat: str, weight: float, *, age: int = DAY, memory_id: str = "") -> None:
        stored = memory(memory_id or f"of {chat}", age=age, words={"披萨": weight}, chat=chat)
        await self.store.update(chat, lambda state: ([Added(stored)], None), by="test")

    async def ask(self, chat: str, **options: Any) -> Found:
        return await self.conversations.get(chat).short_term.search(RecallRequest(ASK, **options))

    async def scores(self) -> Mapping[str, float]:
        scores: dict[str, float] = {}
        for name in await self.store.conversations():
            state = await self.store.read(name)
            scores.update((stored.id, stored.score) for stored in state.short_term.values())
        return scores


@pytest.fixture
async def house() -> House:
    return await filled()


async def filled(**around: Any) -> House:
    house = House(**around)
    for number, chat in enumerate(("小明", "小红", "小红-2", "工作")):
        await house.keep(chat, 60.0 - number, age=(number + 1) * DAY)
    house.store.writes = 0
    return house


def memories_and_places(results: Found) -> list[tuple[str, str | None]]:
    return [(item.memory.id, item.kept_in) for item in (*results.recall.top, *results.recall.next)]


@pytest.mark.parametrize(
    ("chat", "scope", "searched"),
    [
        ("小明", None, {"小明"}),
        ("小明", "conversation", {"小明"}),
        ("小明", "family", {"小明", "小红", "小红-2"}),
        ("工作", "family", {"小明", "小红", "小红-2"}),
        ("工作", "nobody", set()),
        ("小明", "all", {"小明", "小红", "小红-2", "工作"}),
        ("新的", "all", {"新的", "小明", "小红", "小红-2", "工作"}),
    ],
)
async def test_a_scope_names_conversations(
    house: House, chat: str, scope: str | None, searched: set[str]
) -> None:
    names = await conversations_of(house.services, chat, scope)
    assert {*names} == searched
    if chat in searched:
        assert names[0] == chat
    results = await house.ask(chat, scope=scope)
    assert results.recall.searched == len(searched - {"新的"})


@pytest.mark.parametrize(
    ("chat", "searched"), [("小明", 3), ("小红-2", 3), ("工作", 1), ("新的", 0)]
)
async def test_a_group_of_the_settings_widens_what_its_members_recall(
    chat: str, searched: int
) -> None:
    house = await filled(scope="family")
    assert (await house.ask(chat)).recall.searched == searched
    assert (await house.ask(chat, scope="conversation")).recall.searched == min(searched, 1)


async def test_an_unknown_scope_is_refused_with_those_there_are(house: House) -> None:
    with pytest.raises(
        InvalidInput, match=r"no scope `famly`; use `conversation` or `all`, `family`, `nobody`, or"
    ):
        await house.ask("小明", scope="famly")
    assert house.store.writes == 0


async def test_what_came_is_reinforced_where_it_is_kept_and_each_change_can_be_undone(
    house: House,
) -> None:
    results = await house.ask("工作", scope="family")
    assert memories_and_places(results) == [
        ("of 小明", "小明"),
        ("of 小红", "小红"),
        ("of 小红-2", "小红-2"),
    ]
    assert await house.scores() == {"of 小明": 5, "of 小红": 5, "of 小红-2": 2, "of 工作": 0}
    assert {*results.changes} == {"小明", "小红", "小红-2"}
    assert results.change_id is None
    for name, change_id in results.changes.items():
        await house.conversations.get(name).archive.undo(change_id)
    assert {*(await house.scores()).values()} == {0}


async def test_where_the_lock_does_not_come_nothing_is_reinforced_and_that_is_said(
    house: House,
) -> None:
    house.store.locked = {"小红"}
    results = await house.ask("小明", scope="all")
    assert len(memories_and_places(results)) == 3
    assert results.unreinforced == ("小红",)
    assert results.reinforced is False
    assert await house.scores() == {"of 小明": 5, "of 小红": 0, "of 小红-2": 2, "of 工作": 0}


async def test_one_conversation_that_cannot_be_read_does_not_hide_the_others(house: House) -> None:
    house.store.broken = {"小红"}
    results = await house.ask("小明", scope="all")
    assert results.recall.searched == 3
    assert results.unread == {"小红": None}
    with pytest.raises(SnapshotBroken):
        await house.ask("小红", reinforce=False)


@pytest.mark.parametrize("scope", [None, "all", "nobody"])
async def test_a_look_leaves_no_trace(house: House, scope: str | None) -> None:
    before = await house.scores()
    results = await house.ask("小明", scope=scope, reinforce=False)
    assert results.changes == {}
    assert results.reinforced
    assert house.store.writes == 0
    assert await house.scores() == before


async def test_the_twenty_minute_rule_holds_for_this_conversation_alone(house: House) -> None:
    await house.keep("小明", 90.0, age=MINUTE, memory_id="new of 小明")
    await house.keep("小红", 90.0, age=12 * MINUTE, memory_id="new of 小红")
    results = await house.ask("小明", scope="all")
    assert memories_and_places(results)[0] == ("new of 小红", "小红")
    assert results.recall.held_back.recent == 1


async def test_a_memory_whose_score_is_full_makes_no_change(house: House) -> None:
    full = memory("full", words={"披萨": 70.0}, score=100.0, chat="满")
    await house.store.update("满", lambda state: ([Added(full)], None), by="test")
    results = await house.ask("小明", scope="all")
    assert memories_and_places(results)[0] == ("full", "满")
    assert "满" not in results.changes


async def test_a_read_only_folder_can_be_looked_at(tmp_path: Path) -> None:
    from memory_server import open_memory

    async with open_memory(tmp_path / "none") as memory_:
        results = await memory_.conversation("a").short_term.search(
            RecallRequest(ASK, reinforce=False)
        )
        assert results.recall.searched == 0
    assert not (tmp_path / "none").exists()


def test_the_first_search_of_a_process_that_was_not_warmed_imports_numpy_beside_the_event_loop() -> (
    None
):
    program = """
import asyncio, sys, tempfile, threading

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Watch())
from memory_server.runtime.app import open_memory
from memory_server.conversations.model import Message

async def main():
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(folder) as memory:
            await memory.conversation().short_term.add([Message("user", "周三看牙医")])
            await memory.conversation().short_term.search([Message("user", "牙医")])

asyncio.run(main())
"""
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert process.stdout == "False\n"


async def test_a_search_of_several_conversations_indexes_none_of_them_in_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_loop: list[bool] = []
    make_index = Index.__init__

    def noting(self: Index, *arguments: Any) -> None:
        in_loop.append(threading.current_thread() is threading.main_thread())
        make_index(self, *arguments)

    house = await filled()
    monkeypatch.setattr(Index, "__init__", noting)
    await house.ask("小明", scope="all", reinforce=False)
    assert in_loop == [False] * 4

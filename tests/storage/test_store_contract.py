"""What every `ConversationStore` promises (ports.py): one suite, all stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from memory_store import MemoryStore
from postgres import tenant_of_its_own
from sample_memories import NOW, contents, copy_of, memory, random_changes, trigger

from memory_server.conversations.changes import (
    Added,
    Change,
    ChatMoved,
    CleanedUp,
    Edited,
    Forgotten,
    Reinforced,
    apply,
    change_id,
)
from memory_server.conversations.model import ConversationState
from memory_server.conversations.ports import ConversationStore, Decide
from memory_server.kernel.errors import LockTimeout
from memory_server.kernel.messages import Message
from memory_server.lore.chat_state import ChatState, Effect, Firing
from memory_server.lore.memory import TriggerRemoved, TriggerSet
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.options import StoreParameters
from memory_server.storage.postgres.conversations import PostgresStore
from nlp import kept as kept_word

pytestmark = pytest.mark.anyio

IDS = [
    "chat",
    "小明",
    "a/b",
    "a:b",
    "CON",
    "..",
    "Work",
    "work",
    " padded ",
    "x" * 256,
    "🎂",
    "~",
    ".",
]


@pytest.fixture(params=["memory", "json_files", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ConversationStore]:
    opened: ConversationStore
    if request.param == "postgres":
        with tenant_of_its_own() as (database, tenant):
            opened = PostgresStore(database, tenant, lambda: NOW)
            yield opened
            await opened.aclose()
        return
    if request.param == "memory":
        opened = MemoryStore()
    else:
        opened = JsonFileStore(tmp_path / "data", lambda: NOW, StoreParameters(idle_seconds=3600))
    yield opened
    await opened.aclose()


def committing(*changes: Change) -> Decide[str]:
    return lambda state: (changes, "done")


async def commit(store: ConversationStore, *changes: Change, chat: str = "chat") -> None:
    result, change = await store.update(chat, committing(*changes), by="test")
    assert result == "done"
    assert change == change_id(chat, (await store.read(chat)).version)


async def test_an_unknown_conversation_is_empty_and_stays_unknown(store: ConversationStore) -> None:
    assert await store.read("chat") == ConversationState("chat")
    assert await store.update("chat", lambda state: ((), len(state.short_term)), by="test") == (
        0,
        None,
    )
    await store.compact("chat")
    assert await store.conversations() == []


async def test_every_kind_of_change_is_seen_by_the_next_reader(store: ConversationStore) -> None:
    pizza = memory(
        "a", words={"披萨": 1.5}, messages=(Message("user", "hi"),), extra={"mood": ["好"]}
    )
    await commit(store, Added(pizza), Added(memory("b")))
    await commit(
        store, Reinforced("a", 0, 5), TriggerSet(trigger("t"), None), TriggerSet(trigger("u"), None)
    )
    await commit(
        store, Forgotten(memory("b"), "deleted"), TriggerRemoved(trigger("u")), CleanedUp(NOW, None)
    )
    state = await store.read("chat")
    reinforced = memory(
        "a", words={"披萨": 1.5}, messages=(Message("user", "hi"),), extra={"mood": ["好"]}, score=5
    )
    assert contents(state) == ((reinforced,), (trigger("t"),), NOW, {})
    assert state.version == 3


async def test_when_memories_came_in_a_chat_is_seen_by_the_next_reader(
    store: ConversationStore,
) -> None:
    cooling = Firing(3, NOW, before=(1, NOW - 5), cooldown=Effect(3, 7, is_protected=True))
    first = ChatState(3, NOW, {"k": cooling, "l": Firing(3, NOW, sticky=Effect(3, 5))})
    second = ChatState(4, NOW + 1, {"k": cooling})
    moved = ChatMoved("s", None, first)
    await commit(store, moved, ChatMoved("", None, ChatState(1, NOW)))
    assert (await store.read("chat")).chats == {"s": first, "": ChatState(1, NOW)}
    await store.compact("chat")
    assert (await store.read("chat")).chats == {"s": first, "": ChatState(1, NOW)}
    await commit(store, ChatMoved("s", first, second), ChatMoved("", ChatState(1, NOW), None))
    assert (await store.read("chat")).chats == {"s": second}
    assert [entry.changes[0] for entry in await store.history("chat")][1] == moved


async def test_the_other_words_of_a_memory_come_back_from_each_store(
    store: ConversationStore,
) -> None:
    words = {"披萨": 1.5, kept_word("晚饭"): 0.5}
    plain = memory("a", words={"披萨": 1.5}, messages=(Message("user", "披萨"),))
    edited = replace(
        memory("a", words=words, messages=plain.messages), other_words=("晚饭", "聚餐")
    )
    await commit(store, Added(plain))
    await commit(store, Edited(edited, plain))
    await store.compact("chat")
    assert (await store.read("chat")).short_term == {"a": edited}
    assert next(past_commit.changes for past_commit in await store.history("chat")) == (
        Edited(edited, plain),
    )


async def test_a_decision_sees_what_was_committed_before_it(store: ConversationStore) -> None:
    def add_next(state: ConversationState) -> tuple[Sequence[Change], int]:
        return [Added(memory(f"m{len(state.short_term)}"))], len(state.short_term)

    results = [await store.update("chat", add_next, by="test") for _ in range(5)]
    assert results == [(number, change_id("chat", number + 1)) for number in range(5)]


async def test_updates_at_once_lose_nothing(store: ConversationStore) -> None:
    def add_next(state: ConversationState) -> tuple[Sequence[Change], int]:
        return [Added(memory(f"m{len(state.short_term)}"))], len(state.short_term)

    results = await asyncio.gather(*(store.update("chat", add_next, by="test") for _ in range(25)))
    assert sorted(results) == [(number, change_id("chat", number + 1)) for number in range(25)]
    assert len((await store.read("chat")).short_term) == 25


async def test_a_decision_without_changes_commits_nothing(store: ConversationStore) -> None:
    await commit(store, Added(memory("a")))
    assert await store.update("chat", lambda state: ([], state.version), by="test") == (1, None)
    assert (await store.read("chat")).version == 1


async def test_a_decision_that_raises_changes_nothing_and_holds_up_nobody(
    store: ConversationStore,
) -> None:
    await commit(store, Added(memory("a")))

    def refuse(state: ConversationState) -> tuple[Sequence[Change], None]:
        raise KeyError("no")

    with pytest.raises(KeyError):
        await store.update("chat", refuse, by="test")
    await commit(store, Added(memory("b")))
    assert list((await store.read("chat")).short_term) == ["a", "b"]


async def test_conversations_do_not_see_each_other(store: ConversationStore) -> None:
    for number, name in enumerate(IDS):
        await commit(store, Added(memory("same", score=float(number))), chat=name)
    assert await store.conversations() == sorted(IDS)
    for number, name in enumerate(IDS):
        state = await store.read(name)
        assert state.conversation_id == name
        assert [stored.score for stored in state.short_term.values()] == [number]


async def test_conversations_lists_what_was_written_to_even_when_it_is_empty_now(
    store: ConversationStore,
) -> None:
    await commit(store, Added(memory("a")))
    await commit(store, Forgotten(memory("a"), "deleted"))
    assert await store.conversations() == ["chat"]


async def test_compacting_changes_nothing_that_is_read(store: ConversationStore) -> None:
    rng = Random(7)
    expected = ConversationState("chat")
    for _ in range(6):
        changes = random_changes(copy_of(expected), rng, 5)
        apply(expected, changes)
        await commit(store, *changes)
        await store.compact("chat")
        state = await store.read("chat")
        assert contents(state) == contents(expected)
    assert state.version == 6
    await store.compact("chat")
    assert contents(await store.read("chat")) == contents(expected)


async def test_a_writer_that_cannot_get_in_says_so_and_the_first_one_goes_on(
    store: ConversationStore,
) -> None:
    entered = asyncio.Event()
    go_on = asyncio.Event()
    # The stores decide without awaiting, so a busy conversation is one whose writers' lock another task holds.
    if isinstance(store, MemoryStore):
        lock = store._locks["chat"]
    elif isinstance(store, PostgresStore):
        lock = store._open.use("chat").writers
    else:
        lock = store._open.use("chat")._writers  # type: ignore[attr-defined]

    async def hold() -> None:
        async with lock:
            entered.set()
            await go_on.wait()

    holder = asyncio.create_task(hold())
    await entered.wait()
    with pytest.raises(LockTimeout):
        await store.update("chat", committing(Added(memory("late"))), by="test", wait_seconds=0.01)
    assert (await store.read("chat")).short_term == {}
    waiting = asyncio.create_task(commit(store, Added(memory("patient"))))
    go_on.set()
    await asyncio.gather(holder, waiting)
    assert list((await store.read("chat")).short_term) == ["patient"]


async def test_a_cancelled_update_happens_wholly_or_not_at_all(store: ConversationStore) -> None:
    for steps in range(12):
        before = (await store.read("chat")).version
        pair = Added(memory(f"{steps}-a")), Added(memory(f"{steps}-b"))
        task = asyncio.create_task(store.update("chat", committing(*pair), by="test"))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        # The next writer waits for whatever the cancelled one began.
        await commit(store, Added(memory(f"{steps}-next")))
        state = await store.read("chat")
        stored_of_pair = [name for name in (f"{steps}-a", f"{steps}-b") if name in state.short_term]
        assert len(stored_of_pair) in (0, 2)
        assert state.version == before + 1 + bool(stored_of_pair)


async def test_closing_twice_is_closing_once(store: ConversationStore) -> None:
    await commit(store, Added(memory("a")))
    await store.aclose()
    await store.aclose()

"""Long-term memories of a conversation and of the one that all share."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from memory_store import MemoryStore
from sample_memories import NOW
from trigger_table import TableRunner

from memory_server.conversations.conversation import Conversations
from memory_server.conversations.long_term import LongTermManager
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.services import Services
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, TriggerRejected
from memory_server.kernel.messages import Message
from memory_server.lore.memory import LongTermMemory

pytestmark = pytest.mark.anyio

HELLO = Message("user", "hi", NOW - 5, "小明")


class Shelf:
    """Conversations with a shelf, over a store in memory; `now_ms` is the clock."""

    def __init__(self, shared_conversation: str | None = "default") -> None:
        self.store = MemoryStore()
        self.runner = TableRunner()
        self.now_ms = NOW
        services = Services(self.store, self.runner, Parameters(), lambda: self.now_ms, Random(1))
        self.conversations = Conversations(services, shared_conversation=shared_conversation)

    def of(self, chat: str | None = "chat") -> LongTermManager:
        return self.conversations.get(chat).long_term

    async def all(self, chat: str = "chat") -> dict[str, LongTermMemory]:
        return (await self.store.read(chat)).long_term


@pytest.fixture
def house() -> Shelf:
    return Shelf()


async def test_a_memory_is_stored_with_its_origin(house: Shelf) -> None:
    receipt = await house.of().add(
        "birthday", "in July", "true", recent=[HELLO, Message("assistant", "noted")]
    )
    expected = LongTermMemory("birthday", "in July", "true", NOW, "小明: hi\nassistant: noted")
    assert receipt.memory == expected
    assert receipt.replaced is False
    assert receipt.warnings == ()
    assert receipt.total == 1
    assert await house.all() == {"birthday": expected}
    assert await house.of().get("birthday") == expected
    # The trigger was tried on the messages it arose from.
    [context] = house.runner.contexts
    assert context == {
        "messages": [
            {"role": "user", "content": "hi", "timestamp": NOW - 5, "name": "小明"},
            {"role": "assistant", "content": "noted"},
        ],
        "conversation_id": "chat",
        "participants": {},
    }
    with_context = await house.of().add(
        "other", "p", "true", created_context="by hand", recent=[HELLO]
    )
    assert with_context.memory.created_context == "by hand"


async def test_adding_over_a_name_replaces_and_keeps_the_date_of_creation(house: Shelf) -> None:
    await house.of().add("t", "old", "false", created_context="then")
    house.now_ms += 1000
    receipt = await house.of().add("t", "new", "true", created_context="now")
    assert receipt.replaced
    assert receipt.total == 1
    assert receipt.memory == LongTermMemory("t", "new", "true", NOW, "now", updated_ms=NOW + 1000)


@pytest.mark.parametrize(
    ("name", "prompt", "source", "reason"),
    [
        ("", "p", "true", "needs a name and a prompt"),
        (" ", "p", "true", "needs a name and a prompt"),
        ("n", "\n", "true", "needs a name and a prompt"),
        ("n" * 201, "p", "true", "is too long: 201 characters, and at most 200 are allowed"),
        ("n", "p", " ", "trigger is empty"),
        ("n", "p", "syntax", "Unexpected token .* at line 2, column 7"),
        ("n", "p", "nowhere", "it ran longer than 1 s. Correct it"),
    ],
)
async def test_what_cannot_work_is_refused_and_nothing_is_stored(
    house: Shelf, name: str, prompt: str, source: str, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        await house.of().add(name, prompt, source)
    assert await house.conversations.ids() == []


async def test_a_refusal_carries_the_problems_and_shows_the_place(house: Shelf) -> None:
    with pytest.raises(TriggerRejected) as failure:
        await house.of().add("n", "p", "syntax")
    [problem] = failure.value.problems
    assert problem.line == 2
    assert problem.column == 7
    assert str(failure.value).endswith("\n  f())\n      ^")


async def test_a_warning_does_not_hinder(house: Shelf) -> None:
    receipt = await house.of().add("n", "p", "risky")
    assert [warning.message for warning in receipt.warnings] == ["user is undefined"]
    assert "n" in await house.all()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"trigger": "false"}, {"trigger": "false"}),
        ({"prompt": "new"}, {"prompt": "new"}),
        ({"updated_context": "why"}, {"updated_context": "why"}),
        ({"prompt": "new", "recent": [HELLO]}, {"prompt": "new", "updated_context": "小明: hi"}),
        (
            {"prompt": "new", "recent": [HELLO], "updated_context": "w"},
            {"prompt": "new", "updated_context": "w"},
        ),
    ],
)
async def test_an_update_changes_what_it_names(
    house: Shelf, change: dict[str, Any], expected: dict[str, Any]
) -> None:
    await house.of().add("t", "old", "true", created_context="then")
    house.now_ms += 7
    receipt = await house.of().update("t", **change)
    facts = {"prompt": "old", "trigger": "true", "created_context": "then"} | expected
    assert receipt.memory == LongTermMemory(name="t", created_ms=NOW, updated_ms=NOW + 7, **facts)
    assert await house.all() == {"t": receipt.memory}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "nothing to change"),
        ({"prompt": " "}, "prompt is empty"),
        ({"trigger": ""}, "trigger is empty"),
        ({"trigger": "syntax"}, "cannot work"),
    ],
)
async def test_an_update_that_cannot_be_changes_nothing(
    house: Shelf, change: dict[str, Any], reason: str
) -> None:
    await house.of().add("t", "old", "true")
    before = await house.all()
    with pytest.raises(InvalidInput, match=reason):
        await house.of().update("t", **change)
    assert await house.all() == before


async def test_delete_says_how_many_remain(house: Shelf) -> None:
    for name in ("a", "b"):
        await house.of().add(name, "p", "true")
    assert (await house.of().delete("a")).remaining == 1
    assert (await house.of().delete("b")).remaining == 0
    assert await house.all() == {}


async def test_a_missing_memory_is_named_with_what_there_is(house: Shelf) -> None:
    async def missing(name: str) -> str:
        messages = set()
        for call in (
            house.of().get(name),
            house.of().delete(name),
            house.of().update(name, prompt="x"),
        ):
            with pytest.raises(MemoryNotFound) as failure:
                await call
            messages.add(str(failure.value))
        [message] = messages
        return message

    assert "has no long-term memories; store one with add_long_term_memory" in await missing("t")
    await house.of(None).add("t", "p", "true")
    assert "kept in `default`: give that as conversation_id" in await missing("t")
    for number in range(12):
        await house.of().add(f"n{number}", "p", "true")
    assert "use one of its names: `n0`, `n1`" in await missing("no")


async def test_memories_are_listed_oldest_first(house: Shelf) -> None:
    for name in ("b", "a", "c"):
        await house.of().add(name, "p", "true")
        house.now_ms -= 1
    assert [memory.name for memory in await house.of().memories()] == ["c", "a", "b"]


# --- searching ---------------------------------------------------------------------------------------------


async def test_a_search_sees_the_conversation_and_the_shelf(house: Shelf) -> None:
    await house.of(None).add("birthday", "p", "true")
    await house.of().add("mood", "p", "true")
    await house.of().add("quiet", "p", "false")
    await house.of().add("broken", "p", "throw")
    await house.of("other").add("elsewhere", "p", "true")
    results = await house.of().search(
        RecallRequest([HELLO], participants={"user": {"name": "小明"}})
    )
    assert [(item.conversation_id, item.memory.name) for item in results.activated] == [
        ("chat", "mood"),
        ("default", "birthday"),
    ]
    assert [(item.memory.name, failed.kind) for item, failed in results.failed] == [
        ("broken", "thrown")
    ]
    assert {item.memory.name for item in results.random} == {"quiet", "broken"}
    assert results.searched == 4
    context = house.runner.contexts[-1]
    assert context is not None
    assert context["conversation_id"] == "chat"
    assert context["participants"] == {"user": {"name": "小明"}}


async def test_on_the_shelf_nothing_is_seen_twice(house: Shelf) -> None:
    await house.of(None).add("birthday", "p", "true")
    assert (await house.of(None).search([HELLO])).searched == 1


async def test_without_a_shelf_only_the_conversation_is_seen() -> None:
    house = Shelf(shared_conversation=None)
    await house.of(None).add("birthday", "p", "true")
    assert (await house.of().search([HELLO])).searched == 0


async def test_a_search_without_messages_asks_the_triggers_too(house: Shelf) -> None:
    await house.of().add("reads the last message", "p", "throw")
    results = await house.of().search([])
    assert house.runner.seeds, "a date can make a trigger fire as a chat opens"
    assert not results.failed, "there is no last message, and nothing is wrong with the trigger"


async def test_each_search_draws_a_new_seed(house: Shelf) -> None:
    await house.of().add("birthday", "p", "true")
    house.runner.seeds.clear()
    for _ in range(3):
        await house.of().search([HELLO])
    assert len(set(house.runner.seeds)) == 3

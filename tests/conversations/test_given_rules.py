"""Rules that a caller gives for a memory of its own: only those that are given change; a bad one gets a sentence."""

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
from memory_server.conversations.services import Services
from memory_server.kernel.errors import InvalidInput
from memory_server.lore.forms import NO_RULES, GivenRules
from memory_server.lore.memory import (
    PLAIN,
    BookEntry,
    FiringRules,
    GroupRules,
    LongTermMemory,
    TriggerSet,
)

pytestmark = pytest.mark.anyio

RULES = FiringRules(order=50, cooldown=3, is_off=True, group=GroupRules(("day",), weight=7))
BOOK = BookEntry("9f", "Tale", "tale.json", uid="1")


@pytest.fixture
async def manager() -> LongTermManager:
    """A conversation with one memory that has rules and a book."""
    store = MemoryStore()
    memory = LongTermMemory("tea", "Offer tea.", "true", NOW, rules=RULES, book=BOOK)
    await store.update("chat", lambda _state: ([TriggerSet(memory, None)], None), by="test")
    return (
        Conversations(Services(store, TableRunner(), Parameters(), lambda: NOW, Random(1)))
        .get("chat")
        .long_term
    )


APPLIED: list[tuple[GivenRules, FiringRules, FiringRules]] = [
    (NO_RULES, PLAIN, PLAIN),
    (NO_RULES, RULES, RULES),
    (GivenRules(order=-3), PLAIN, FiringRules(order=-3)),
    (GivenRules(order=0, cooldown=0), RULES, FiringRules(order=0, is_off=True, group=RULES.group)),
    (GivenRules(group="a, b"), PLAIN, FiringRules(group=GroupRules(("a", "b")))),
    (
        GivenRules(group=["x"]),
        RULES,
        FiringRules(50, group=GroupRules(("x",), weight=7), cooldown=3, is_off=True),
    ),
    (GivenRules(group=""), FiringRules(group=GroupRules(("a",))), PLAIN),
    (
        GivenRules(once=True, sticky=2, probability=12.5),
        PLAIN,
        FiringRules(once=True, sticky=2, probability=12.5),
    ),
    (GivenRules(once=False), FiringRules(once=True), PLAIN),
]


@pytest.mark.parametrize(("changes", "before", "after"), APPLIED)
def test_only_the_given_rules_change(
    changes: GivenRules, before: FiringRules, after: FiringRules
) -> None:
    assert changes.applied_to(before) == after


BAD: list[tuple[dict[str, Any], str]] = [
    ({"order": float("nan")}, "`order` takes a number"),
    ({"order": 1e12}, "`order` takes a number"),
    ({"probability": 101}, "`probability` takes a number from 0 to 100"),
    ({"sticky": -1}, "`sticky` takes a whole number of messages"),
    ({"cooldown": 1.5}, "`cooldown` takes a whole number of messages"),
    ({"once": "yes"}, "`once` takes true or false"),
    ({"group": ["g"] * 5 + [str(number) for number in range(20)]}, "`group` takes a name"),
]


@pytest.mark.parametrize(("fields", "sentence"), BAD)
async def test_a_bad_value_gets_a_sentence_and_changes_nothing(
    manager: LongTermManager, fields: dict[str, Any], sentence: str
) -> None:
    before = await manager.memories()
    for act in (
        manager.add("new", "Say it.", "true", rules=GivenRules(**fields)),
        manager.update("tea", rules=GivenRules(**fields)),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            await act
    assert await manager.memories() == before


async def test_an_update_of_one_rule_leaves_all_else(manager: LongTermManager) -> None:
    receipt = await manager.update("tea", rules=GivenRules(cooldown=9))
    assert receipt.memory.prompt == "Offer tea."
    assert receipt.memory.trigger == "true"
    assert receipt.memory.book == BOOK
    assert receipt.memory.rules == FiringRules(50, group=RULES.group, cooldown=9, is_off=True)
    with pytest.raises(InvalidInput, match="nothing to change"):
        await manager.update("tea", rules=GivenRules())


async def test_a_replaced_memory_keeps_its_rules_and_its_book(manager: LongTermManager) -> None:
    replaced = await manager.add("tea", "Offer green tea.", "false")
    assert replaced.memory.rules == RULES
    assert replaced.memory.book == BOOK
    replaced = await manager.add("tea", "Offer black tea.", "false", rules=GivenRules(order=60))
    assert replaced.memory.rules == FiringRules(60, group=RULES.group, cooldown=3, is_off=True)
    replaced = await manager.add("tea", "Offer tea.", "false", rules=FiringRules(once=True))
    assert replaced.memory.rules == FiringRules(once=True), "whole rules replace all"


async def test_a_new_memory_has_the_given_rules_and_else_the_usual_ones(
    manager: LongTermManager,
) -> None:
    assert (await manager.add("plain", "Say it.", "true")).memory.rules == PLAIN
    stored = await manager.add("ruled", "Say it.", "true", rules=GivenRules(once=True))
    assert stored.memory.rules == FiringRules(once=True)

"""A value of a caller is not multiplied by what is stored: a long name, many conversations at once, many rolls. What a
search makes of them has a bound, and it is made in a thread, so others are served meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore
from sample_memories import NOW
from trigger_table import TableRunner

from memory_server.conversations import trigger_search
from memory_server.conversations.changes import Change
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.model import ConversationState
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.services import Services
from memory_server.conversations.trigger_search import Activation
from memory_server.kernel.messages import Message
from memory_server.lore.macros import MOST_FILLED_CHARS, MacroContext, filled
from memory_server.lore.memory import (
    BookEntry,
    FiringRules,
    LongTermMemory,
    RecursionRules,
    TriggerSet,
)
from memory_server.lore.rounds import message_seed
from memory_server.lore.shelf import most_triggers, shelf_of
from sandbox.conditions import speaker_names
from sandbox.limits import MOST_NAME_CHARS

pytestmark = pytest.mark.anyio

HELLO = Message("user", "hi", NOW - 5)
FRIDAY = datetime(2026, 6, 5, tzinfo=UTC)


def entry(number: int, prompt: str) -> LongTermMemory:
    """A constant entry of a book that searches its texts."""
    return LongTermMemory(
        f"e{number}",
        prompt,
        "true",
        created_ms=NOW,
        rules=FiringRules(recursion=RecursionRules(is_on=True)),
        book=BookEntry("book", "Book", uid=str(number)),
    )


async def activated(
    entries: list[LongTermMemory], user_name: str, flashbacks: int = 0
) -> Activation:
    """What a search with these entries brings for a user of this name."""
    store = MemoryStore()

    def decide(_state: ConversationState) -> tuple[list[Change], None]:
        return [TriggerSet(memory, None) for memory in entries], None

    await store.update("chat", decide, by="test")
    services = Services(store, TableRunner(), Parameters(), lambda: NOW, Random(1))
    conversation = Conversations(services, shared_conversation=None).get("chat")
    return await conversation.long_term.search(
        RecallRequest([HELLO], participants={"user": {"name": user_name}}, flashbacks=flashbacks)
    )


@pytest.mark.parametrize("name_chars", [10, 1_000, 90_000])
async def test_a_long_name_fills_a_text_with_its_beginning(name_chars: int) -> None:
    texts = ["{{user}} walks with {{user}}. " * 6] * 5
    answer = await activated(
        [entry(number, text) for number, text in enumerate(texts)], "N" * name_chars
    )
    counted_name = "N" * min(name_chars, MOST_NAME_CHARS)
    assert [shelved.text for shelved in answer.activated] == [
        f"{counted_name} walks with {counted_name}. " * 6
    ] * 5


@given(st.text(min_size=1, max_size=3_000), st.integers(1, 3_000))
def test_a_text_grows_by_no_more_than_a_memory_may_have(name: str, count: int) -> None:
    context = MacroContext(FRIDAY, {"user": name})
    text = filled("{{user}}" * count, context)
    assert len(text) <= len("{{user}}") * count + MOST_FILLED_CHARS + len(name)
    if len(name) * count <= MOST_FILLED_CHARS:
        assert text.startswith(name)


async def test_texts_that_have_no_room_are_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 1_000
    monkeypatch.setattr(trigger_search, "_MOST_FILLED_CHARS", most)
    text = "{{user}} walks."
    answer = await activated([entry(number, text) for number in range(500)], "Ann")
    filled_count = sum(shelved.text == "Ann walks." for shelved in answer.activated)
    assert filled_count == -(-most // len(text))
    assert len(answer.activated) == 500


@pytest.mark.parametrize(
    ("count", "text", "is_in_a_thread"),
    [
        (5, "{{user}} walks.", False),
        (300, "{{user}} walks.", True),  # many memories
        (5, "{{user}} " * 50, True),  # many macros
        (5, "<user> " * 50, True),
        (5, "{{user}} walks. " + "She " * 2_000, True),  # long texts
    ],
)
async def test_texts_are_filled_in_a_thread_where_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, count: int, text: str, is_in_a_thread: bool
) -> None:
    threads: set[int] = set()

    def noted(text: str, context: MacroContext) -> str:
        threads.add(threading.get_ident())
        return filled(text, context)

    monkeypatch.setattr(trigger_search, "filled", noted)
    answer = await activated([entry(number, text) for number in range(count)], "Ann")
    assert len(answer.activated) == count
    assert len(threads) == 1
    assert (threading.get_ident() not in threads) == is_in_a_thread


async def test_texts_that_come_by_chance_are_filled_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: set[int] = set()

    def noted(text: str, context: MacroContext) -> str:
        threads.add(threading.get_ident())
        return filled(text, context)

    monkeypatch.setattr(trigger_search, "filled", noted)
    memory = replace(entry(0, "{{user}} walks."), trigger="false")
    answer = await activated([memory], "Ann", flashbacks=1)
    assert [shelved.text for shelved in answer.random] == ["Ann walks."]
    assert threads
    assert threading.get_ident() not in threads


def test_a_long_name_stands_in_each_message_with_its_beginning() -> None:
    participants = {"user": {"name": "N" * 90_000}, "char": "C" * 90_000}
    names = speaker_names({"participants": participants})
    assert {len(name) for name in names.values()} == {MOST_NAME_CHARS}


def test_each_draw_hashes_a_short_seed_of_a_long_message() -> None:
    seeds = {message_seed("s", 3, NOW, letter * 100_000) for letter in "abc"}
    assert len(seeds) == 3
    assert max(map(len, seeds)) < 1_000
    assert message_seed("s", 3, NOW, "hello").endswith("hello")


def test_ones_own_triggers_run_where_a_book_has_more_than_a_search_runs() -> None:
    state = ConversationState("chat")
    for number in range(most_triggers() + 5):
        memory = entry(number, "text")
        state.long_term[memory.name] = memory
    own = LongTermMemory("own", "p", "true", created_ms=NOW)
    state.long_term[own.name] = own
    assert shelf_of(state).memories[0].memory == own


def test_the_order_of_the_file_stays_where_a_search_runs_all() -> None:
    state = ConversationState("chat")
    own = LongTermMemory("own", "p", "true", created_ms=NOW)
    state.long_term = {"e1": entry(1, "text"), "own": own}
    assert [shelved.name for shelved in shelf_of(state).memories] == ["e1", "own"]

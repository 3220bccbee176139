"""What rules ask of a search: the index says the same as a look at each memory, and joined shelves are those of their
parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memory_server.conversations.model import ConversationState
from memory_server.lore.chat_state import ChatState, Effect, Firing, firing_key, timed_effects_of
from memory_server.lore.memory import (
    PLAIN,
    BookEntry,
    CharacterRule,
    FiringRules,
    LongTermMemory,
    RecursionRules,
)
from memory_server.lore.rounds import ChatMoment, FiringRounds
from memory_server.lore.shelf import JoinedShelves, Shelved, index_of_rules, key_of, shelf_of

RULES = (
    PLAIN,
    FiringRules(sticky=3),
    FiringRules(cooldown=4),
    FiringRules(delay=50),
    FiringRules(once=True),
    FiringRules(characters=CharacterRule(("Ann",))),
    FiringRules(by_words=True),
    FiringRules(order=7),
    FiringRules(recursion=RecursionRules(is_on=True, level=2)),
)


def memory(number: int, rules: FiringRules, **more: Any) -> LongTermMemory:
    return LongTermMemory(f"m{number}", f"text {number}", "true", 0, rules=rules, **more)


def state(name: str = "here") -> ConversationState:
    conversation = ConversationState(name)
    for number, rules in enumerate(RULES):
        book = BookEntry("book", "Tale") if rules.recursion.is_on else None
        conversation.long_term[f"m{number}"] = memory(number, rules, book=book)
    return conversation


def test_the_index_has_each_memory_by_what_is_asked_of_it() -> None:
    shelf = shelf_of(state())
    assert [counted.index for counted in shelf.rules.counting.values()] == [1, 2, 3, 4]
    assert list(shelf.rules.counting) == [key_of(shelf.memories[index]) for index in (1, 2, 3, 4)]
    assert (list(shelf.rules.delayed), list(shelf.rules.of_characters)) == ([3], [5])
    assert (list(shelf.rules.by_words), list(shelf.rules.levels)) == ([6], [2])
    assert {book: list(indexes) for book, indexes in shelf.rules.recursive.items()} == {"book": [8]}


def test_a_trigger_that_asks_when_it_last_fired_counts_messages() -> None:
    conversation = state()
    conversation.long_term["m0"] = replace(
        conversation.long_term["m0"], trigger="context.last_fired === null"
    )
    assert 0 in [counted.index for counted in shelf_of(conversation).rules.counting.values()]


def test_what_the_state_of_a_chat_means_is_the_same_as_for_each_memory_by_itself() -> None:
    shelf = shelf_of(state())
    firing = Firing(6, 0, None, Effect(6, 9), Effect(6, 20))
    firings = {firing_key(f"m{number}", "here"): firing for number in (0, 1, 2, 4)} | {
        "another": firing
    }
    for messages in (6, 7, 9, 30, 60):
        moment = ChatMoment(messages, 0, "seed", ChatState(6, 0, firings))
        rounds = FiringRounds(shelf.memories, shelf.rules, moment)
        timings = {
            index: timed_effects_of(item.memory.rules, firings.get(key_of(item)), messages)
            for index, item in enumerate(shelf.memories)
        }
        held_back = {index for index, timing in timings.items() if timing.holds_back}
        assert rounds.sticky == {index for index, timing in timings.items() if timing.is_sticky}
        assert rounds.barred() == held_back | {5}, messages
        assert set(rounds.first([*range(len(RULES))])) == set(range(len(RULES))) - held_back - {
            5,
            8,
        }


def test_joined_shelves_have_the_memories_and_rules_of_all() -> None:
    here = shelf_of(state())
    there = shelf_of(state("there"))
    joined = JoinedShelves().of([here, there])
    assert [shelved.conversation_id for shelved in joined.memories] == ["here"] * len(RULES) + [
        "there"
    ] * len(RULES)
    assert joined.rules == index_of_rules(
        joined.memories, joined.with_rules, joined.with_last_fired
    )
    assert [counted.index for counted in joined.rules.counting.values()] == [
        1,
        2,
        3,
        4,
        10,
        11,
        12,
        13,
    ]
    assert {book: list(indexes) for book, indexes in joined.rules.recursive.items()} == {
        "book": [8, 17]
    }


def test_shelves_are_joined_again_only_when_one_has_changed() -> None:
    conversation = state()
    shared = state("default")
    shelves = JoinedShelves()
    first = shelves.of([shelf_of(conversation), shelf_of(shared)])
    assert shelves.of([shelf_of(conversation), shelf_of(shared)]) is first
    assert shelves.known([shelf_of(conversation), shelf_of(shared)]) is first
    assert shelves.of([shelf_of(conversation), shelf_of(ConversationState("empty"))]) is shelf_of(
        conversation
    )
    shared.long_term["new"] = memory(99, PLAIN)
    shared.shelf = None
    assert shelves.known([shelf_of(conversation), shelf_of(shared)]) is None
    assert (
        len(shelves.of([shelf_of(conversation), shelf_of(shared)]).memories) == 2 * len(RULES) + 1
    )
    assert not shelves.of([shelf_of(ConversationState("empty"))]).memories


def test_the_key_of_a_memory_tells_conversations_apart() -> None:
    item = memory(1, PLAIN)
    assert key_of(Shelved("here", item)) != key_of(Shelved("there", item))

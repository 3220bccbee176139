"""Which memories come of those whose trigger fired: groups, chance, filters, recursion. Each case is a small book."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from sample_memories import NOW

from memory_server.conversations import trigger_search
from memory_server.conversations.trigger_search import Recursion
from memory_server.lore.chat_state import ChatState, Effect, Firing, firing_key
from memory_server.lore.entry_keys import CountedKeys, EntryKeys
from memory_server.lore.memory import (
    BookEntry,
    CharacterRule,
    FiringRules,
    GroupRules,
    LongTermMemory,
    RecursionRules,
)
from memory_server.lore.rounds import (
    MARK,
    MOST_ROUNDS,
    ChatMoment,
    FiringRounds,
    score_of,
)
from memory_server.lore.shelf import Shelved, index_of_rules


@dataclass(frozen=True)
class Entry:
    """An entry of the book `book` that fires where a text has its key; "": in every search."""

    name: str
    key: str = ""
    text: str = ""
    rules: FiringRules = field(default_factory=FiringRules)
    book: str = "tale"
    counted: tuple[str, ...] = ()


def group(name: str = "g", **rules: Any) -> FiringRules:
    order = rules.pop("order", 100.0)
    return FiringRules(order=order, group=GroupRules((name,), **rules))


def recursive(**rules: Any) -> FiringRules:
    return FiringRules(recursion=RecursionRules(is_on=True, **rules))


def shelved(entry: Entry) -> Shelved:
    book = BookEntry(entry.book, entry.book) if entry.book else None
    text = entry.text or entry.name
    keys = EntryKeys("", counted=CountedKeys(entry.counted)) if entry.counted else None
    memory = LongTermMemory(entry.name, text, "true", NOW, rules=entry.rules, book=book, keys=keys)
    return Shelved("chat", memory)


@dataclass(frozen=True)
class Searched:
    """What came, in the order in which it takes room, and why the rest of what fired did not."""

    activated: list[str]
    held_back: dict[str, str]
    rounds: int = 0


def searched(
    entries: Sequence[Entry],
    message: str,
    moment: ChatMoment = ChatMoment(1, NOW, "seed"),  # noqa: B008
    scores: Mapping[str, int] | None = None,
    text_of: Callable[[Shelved], str] | None = None,
) -> Searched:
    """A search as TriggerSearch makes it, in which keys are words of texts."""
    memories = [shelved(entry) for entry in entries]
    ruled = [index for index, entry in enumerate(entries) if entry.rules != FiringRules()]
    rules = index_of_rules(memories, ruled, ())
    rounds = FiringRounds(
        memories, rules, moment, text_of and (lambda index: text_of(memories[index]))
    )

    def fired(indexes: Sequence[int], text: str) -> list[int]:
        return [
            index
            for index in indexes
            if not entries[index].key or entries[index].key in text.replace(MARK, " ").split()
        ]

    def settle(candidates: Sequence[int]) -> None:
        scored = rounds.keys_to_score(candidates)
        rounds.settle(
            candidates, {index: (scores or {}).get(entries[index].name, 0) for index in scored}
        )

    settle(rounds.first(fired(range(len(entries)), message)))
    count = 0
    following = rounds.next_round()
    while following is not None:
        count += 1
        fired_indexes: list[int] = []
        for book, indexes in following.memories.items():
            fired_indexes += fired(indexes, f"{message} {following.texts[book]}")
        settle(rounds.recursive(fired_indexes))
        following = rounds.next_round()
    activated = [entries[index].name for index in rounds.activated]
    held_back = {entries[index].name: reason for index, reason in rounds.held_back().items()}
    return Searched(activated, held_back, count)


def moment(seed: str = "seed", **more: Any) -> ChatMoment:
    return ChatMoment(more.pop("messages", 1), NOW, seed, **more)


def sticky_state(*names: str) -> ChatState:
    return ChatState(
        1, NOW, {firing_key(name, "chat"): Firing(1, NOW, sticky=Effect(1, 9)) for name in names}
    )


# --- order --------------------------------------------------------------------------------------------------


def test_the_highest_order_comes_first_and_equal_ones_as_they_stand_in_the_book() -> None:
    entries = [
        Entry("low", rules=FiringRules(order=1)),
        Entry("usual"),
        Entry("usual too"),
        Entry("high", rules=FiringRules(order=200)),
    ]
    assert searched(entries, "").activated == ["high", "usual", "usual too", "low"]


def test_what_is_sticky_comes_before_all_orders_and_needs_no_key() -> None:
    rules = FiringRules(order=1, sticky=5)
    entries = [Entry("high", rules=FiringRules(order=200)), Entry("stays", "key", rules=rules)]
    assert searched(entries, "", moment(messages=3, state=sticky_state("stays"))).activated == [
        "stays",
        "high",
    ]
    assert searched(entries, "", moment(messages=3)).activated == ["high"]


# --- groups -------------------------------------------------------------------------------------------------


def test_one_of_a_group_comes_and_the_others_say_why_not() -> None:
    entries = [Entry(name, rules=group()) for name in "abc"]
    answer = searched(entries, "")
    assert len(answer.activated) == 1
    assert set(answer.held_back.values()) == {"group"}
    assert {*answer.activated, *answer.held_back} == set("abc")


def test_the_draw_is_the_same_for_one_message_and_follows_the_weights_over_many() -> None:
    entries = [
        Entry("a", rules=group(weight=300)),
        Entry("b", rules=group(weight=100)),
        Entry("c", rules=group(weight=0)),
    ]
    assert len({tuple(searched(entries, "", moment("same")).activated) for _ in range(20)}) == 1
    rounds = 2_000
    drawn = Counter(
        searched(entries, "", moment(str(number))).activated[0] for number in range(rounds)
    )
    assert set(drawn) == {"a", "b"}
    assert abs(drawn["a"] - rounds * 3 / 4) < 5 * 20, "the standard deviation is 19"


def test_with_override_the_highest_order_of_those_with_it_wins() -> None:
    entries = [
        Entry("drawn", rules=group(order=900.0)),
        Entry("low", rules=group(overrides=True, order=1.0)),
        Entry("high", rules=group(overrides=True, order=2.0)),
    ]
    assert {
        tuple(searched(entries, "", moment(str(number))).activated) for number in range(50)
    } == {("high",)}


def test_by_scoring_those_with_fewer_keys_lose_before_the_draw() -> None:
    entries = [
        Entry("two", rules=group(is_scored=True), counted=("a",)),
        Entry("one", rules=group(is_scored=True), counted=("a",)),
    ]
    won = {
        tuple(searched(entries, "", moment(str(n)), {"two": 2, "one": 1}).activated)
        for n in range(50)
    }
    assert won == {("two",)}


def test_one_that_is_not_scored_stays_in_the_draw_with_fewer_keys() -> None:
    entries = [
        Entry("two", rules=group(is_scored=True), counted=("a",)),
        Entry("one", rules=group(), counted=("a",)),
    ]
    won = {
        searched(entries, "", moment(str(n)), {"two": 2, "one": 1}).activated[0] for n in range(50)
    }
    assert won == {"two", "one"}


def test_the_sticky_one_of_a_group_wins_without_a_draw() -> None:
    entries = [
        Entry("new", rules=group(weight=1e6, overrides=True)),
        Entry("stays", "key", rules=replace(group(weight=0), sticky=5)),
    ]
    answer = searched(entries, "", moment(messages=3, state=sticky_state("stays")))
    assert (answer.activated, answer.held_back) == (["stays"], {"new": "group"})


def test_an_entry_of_several_groups_must_win_each() -> None:
    both = FiringRules(group=GroupRules(("g", "h")))
    entries = [
        Entry("both", rules=both),
        Entry("g", rules=group("g", overrides=True)),
        Entry("h", rules=group("h")),
    ]
    answer = searched(entries, "")
    assert answer.activated == ["g", "h"]
    assert answer.held_back == {"both": "group"}


def test_a_group_of_which_one_came_is_closed_in_later_rounds() -> None:
    rules = recursive()
    grouped = replace(rules, group=GroupRules(("g",)))
    entries = [Entry("first", text="later", rules=grouped), Entry("second", "later", rules=grouped)]
    answer = searched(entries, "")
    assert (answer.activated, answer.held_back) == (["first"], {"second": "group"})


def test_the_group_is_decided_before_chance() -> None:
    entries = [
        Entry("never", rules=replace(group(overrides=True), probability=0)),
        Entry("other", rules=group()),
    ]
    answer = searched(entries, "")
    assert (answer.activated, answer.held_back) == ([], {"never": "chance", "other": "group"})


@pytest.mark.parametrize(
    ("logic", "there", "score"),
    [
        ("AND_ANY", {"a"}, 1),
        ("AND_ANY", {"a", "b", "x"}, 3),
        ("AND_ALL", {"a", "x"}, 1),
        ("AND_ALL", {"a", "x", "y"}, 3),
        ("NOT_ANY", {"a", "b"}, 2),
        ("NOT_ALL", {"a", "x"}, 1),
    ],
)
def test_secondary_keys_count_where_their_logic_wants_them(
    logic: str, there: set[str], score: int
) -> None:
    secondary = () if logic.startswith("NOT") else ("x", "y")
    assert score_of(CountedKeys(("a", "b"), secondary, logic), there) == score


# --- chance -------------------------------------------------------------------------------------------------


def test_chance_is_drawn_once_for_a_message() -> None:
    entries = [Entry(str(number), rules=FiringRules(probability=50)) for number in range(20)]
    drawn = searched(entries, "", moment("m1")).activated
    drawn_again = searched(entries, "", moment("m1")).activated
    drawn_later = searched(entries, "", moment("m2")).activated
    assert drawn == drawn_again
    assert drawn != drawn_later
    assert 2 < len(drawn) < 18


def test_chance_is_as_often_as_it_says() -> None:
    entries = [Entry("a", rules=FiringRules(probability=30))]
    rounds = 2_000
    count = sum(
        len(searched(entries, "", moment(str(number))).activated) for number in range(rounds)
    )
    assert abs(count - rounds * 0.3) < 5 * 21


@pytest.mark.parametrize(("probability", "count"), [(0.0, 0), (100.0, 100)])
def test_no_chance_never_comes_and_all_chance_always(probability: float, count: int) -> None:
    entries = [Entry("a", rules=FiringRules(probability=probability, order=2))]
    assert (
        sum(len(searched(entries, "", moment(str(number))).activated) for number in range(100))
        == count
    )


def test_what_is_sticky_is_not_drawn_again() -> None:
    entries = [Entry("a", rules=FiringRules(probability=0, sticky=5))]
    assert searched(entries, "", moment(messages=3, state=sticky_state("a"))).activated == ["a"]


def test_what_had_no_luck_is_not_drawn_again_in_a_later_round() -> None:
    luckless = replace(recursive(), probability=0)
    entries = [Entry("text", text="key", rules=recursive()), Entry("a", "key", rules=luckless)]
    answer = searched(entries, "key")
    assert (answer.activated, answer.held_back) == (["text"], {"a": "chance"})


# --- filters and the state of the chat ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "is_exclude", "characters", "comes"),
    [
        ((), False, ("Mika",), True),
        (("Mika",), False, ("Mika",), True),
        (("Mika", "Robin"), False, ("Robin", "chat"), True),
        (("Mika",), False, ("Robin",), False),
        (("Mika",), False, (), False),
        (("Mika",), True, ("Mika",), False),
        (("Mika",), True, ("Robin",), True),
        (("chat",), False, ("chat",), True),
    ],
)
def test_a_memory_for_a_character_comes_only_there(
    names: tuple[str, ...], is_exclude: bool, characters: tuple[str, ...], comes: bool
) -> None:
    entries = [Entry("a", rules=FiringRules(characters=CharacterRule(names, is_exclude), order=1))]
    answer = searched(entries, "", moment(characters=frozenset(characters)))
    assert answer.activated == (["a"] if comes else [])
    assert answer.held_back == ({} if comes else {"a": "character"})


@pytest.mark.parametrize(
    ("rules", "firing", "reason"),
    [
        (FiringRules(delay=9), None, "delay"),
        (FiringRules(cooldown=9), Firing(1, NOW, cooldown=Effect(1, 10)), "cooldown"),
        (FiringRules(once=True), Firing(1, NOW), "once"),
    ],
)
def test_what_the_state_of_the_chat_holds_back_says_why(
    rules: FiringRules, firing: Firing | None, reason: str
) -> None:
    firings = {} if firing is None else {firing_key("a", "chat"): firing}
    answer = searched(
        [Entry("a", rules=rules)], "", moment(messages=3, state=ChatState(2, NOW, firings))
    )
    assert (answer.activated, answer.held_back) == ([], {"a": reason})


# --- recursion ----------------------------------------------------------------------------------------------


def chain(length: int) -> list[Entry]:
    return [Entry(f"e{n}", f"k{n}", f"k{n + 1}", recursive()) for n in range(length)]


def test_texts_that_came_are_searched_too_round_by_round() -> None:
    answer = searched(chain(4), "k0")
    assert (answer.activated, answer.rounds) == (["e0", "e1", "e2", "e3"], 4)


def test_there_are_five_rounds_at_most() -> None:
    assert MOST_ROUNDS == 5
    answer = searched(chain(20), "k0")
    assert (answer.activated, answer.rounds) == ([f"e{n}" for n in range(6)], 5)


@pytest.mark.parametrize(
    ("first", "second", "activated"),
    [
        (recursive(), recursive(), ["first", "second"]),
        (FiringRules(), recursive(), ["first"]),
        (recursive(), FiringRules(), ["first"]),
        (recursive(is_prevented=True), recursive(), ["first"]),
        (recursive(is_excluded=True), recursive(), ["first", "second"]),
        (recursive(), recursive(is_excluded=True), ["first"]),
        (recursive(), recursive(is_prevented=True), ["first", "second"]),
        (recursive(), recursive(level=1), ["first", "second"]),
    ],
)
def test_each_entry_says_how_it_takes_part(
    first: FiringRules, second: FiringRules, activated: list[str]
) -> None:
    entries = [Entry("first", "said", "key", first), Entry("second", "key", "", second)]
    assert searched(entries, "said").activated == activated


def test_the_texts_of_a_book_are_searched_only_by_entries_of_the_same_book() -> None:
    entries = [
        Entry("first", "said", "key", recursive(), book="tale"),
        Entry("same", "key", "", recursive(), book="tale"),
        Entry("other", "key", "", recursive(), book="saga"),
        Entry("own", "key", "", recursive(), book=""),
    ]
    assert searched(entries, "said").activated == ["first", "same"]


def test_an_entry_that_waits_for_recursion_does_not_come_by_what_was_said() -> None:
    entries = [Entry("waits", "said", "", recursive(level=1))]
    answer = searched(entries, "said")
    assert (answer.activated, answer.held_back) == ([], {"waits": "recursion"})


def test_in_a_round_of_recursion_what_was_said_counts_for_it() -> None:
    entries = [
        Entry("any", "said", "nothing", recursive()),
        Entry("waits", "said", "", recursive(level=1)),
    ]
    assert searched(entries, "said").activated == ["any", "waits"]


def test_levels_open_one_after_the_other_when_nothing_new_came() -> None:
    entries = [
        Entry("first", "said", "key", recursive()),
        Entry("two", "key", "", recursive(level=2)),
        Entry("one", "key", "", recursive(level=1)),
        Entry("three", "key", "", recursive(level=3)),
    ]
    assert searched(entries, "said").activated == ["first", "one", "two", "three"]


def test_a_level_opens_though_nothing_of_the_one_before_can_come() -> None:
    others = replace(recursive(level=1), characters=CharacterRule(("Mika",)))
    entries = [
        Entry("first", "said", "key", recursive()),
        Entry("one", "key", "", others),
        Entry("two", "key", "", recursive(level=2)),
    ]
    assert searched(entries, "said").activated == ["first", "two"]


def test_what_is_sticky_does_not_wait_for_recursion() -> None:
    entries = [Entry("stays", "key", "", replace(recursive(level=3), sticky=5))]
    assert searched(entries, "", moment(messages=3, state=sticky_state("stays"))).activated == [
        "stays"
    ]


def test_what_a_later_round_holds_back_is_named() -> None:
    entries = [
        Entry("first", "said", "key", recursive()),
        Entry("luckless", "key", "", replace(recursive(), probability=0)),
        Entry("cooling", "key", "", replace(recursive(), delay=9)),
        Entry("excluded", "key", "", recursive(is_excluded=True)),
    ]
    assert searched(entries, "said").held_back == {"luckless": "chance", "cooling": "delay"}


def test_the_text_that_is_searched_is_the_one_that_comes() -> None:
    entries = [
        Entry("first", "said", "{{char}}", recursive()),
        Entry("Mika", "Mika", "", recursive()),
    ]

    def named(memory: Shelved) -> str:
        return memory.memory.prompt.replace("{{char}}", "Mika")

    assert searched(entries, "said").activated == ["first"]
    assert searched(entries, "said", text_of=named).activated == ["first", "Mika"]


def test_where_there_is_no_more_room_no_text_is_searched() -> None:
    assert searched(chain(4), "k0", moment(room=1)).activated == ["e0"]
    assert searched(chain(4), "k0", moment(room=5)).activated == ["e0", "e1", "e2"]


@pytest.mark.anyio
async def test_all_keys_of_a_scored_group_are_asked_at_once() -> None:
    keys = [("a",), ("a", "b"), ("a", "c")]
    entries = [
        shelved(Entry(f"entry {number}", rules=group(is_scored=True), counted=counted))
        for number, counted in enumerate(keys)
    ]
    rounds = FiringRounds(
        entries, index_of_rules(entries, range(len(entries)), ()), ChatMoment(1, NOW, "seed")
    )
    asked: list[Mapping[int, EntryKeys]] = []

    class Keys:
        async def fired_entries(self, indexes: Sequence[int], text_of_book: str) -> Sequence[int]:
            raise AssertionError((indexes, text_of_book))

        async def present_keys(
            self, entries: Mapping[int, EntryKeys], text_of_book: str
        ) -> Mapping[int, Sequence[str]]:
            asked.append(entries)
            return dict.fromkeys(entries, ("a", "b"))

    recursion = Recursion(rounds, entries, Keys())
    assert await recursion.run(range(len(entries)))
    assert [len(entries) for entries in asked] == [3]
    assert rounds.activated == [1]


# --- books of several owners, and bounds of recursion ---------------------------------------------------------


def test_the_lower_precedence_takes_room_first_and_what_stays_before_it() -> None:
    entries = [
        Entry("all", rules=FiringRules(order=900, precedence=3)),
        Entry("character", rules=FiringRules(order=1)),
        Entry("chat", rules=FiringRules(order=0, precedence=0)),
        Entry("staying", rules=FiringRules(order=0, precedence=3, sticky=5)),
    ]
    answer = searched(entries, "said", moment(messages=2, state=sticky_state("staying")))
    assert answer.activated == ["staying", "chat", "character", "all"]


def test_of_those_that_override_a_group_the_highest_order_wins_whatever_the_precedence_is() -> None:
    later = FiringRules(order=9, precedence=3, group=GroupRules(("g",), overrides=True))
    entries = [Entry("first", rules=group(order=1, overrides=True)), Entry("later", rules=later)]
    assert searched(entries, "said").activated == ["later"]


@pytest.mark.parametrize("most", range(1, 4))
def test_recursion_goes_as_far_as_its_most_rounds(most: int) -> None:
    rules = recursive(most_rounds=most)
    entries = [replace(entry, rules=rules) for entry in chain(5)]
    assert searched(entries, "k0").activated == [f"e{number}" for number in range(most)]


def test_texts_count_for_the_room_as_they_come() -> None:
    entries = [
        Entry("long", "said", "{{// a long comment }}next", recursive()),
        Entry("next", "next", "", recursive()),
    ]

    def without_comment(memory: Shelved) -> str:
        return memory.memory.prompt.replace("{{// a long comment }}", "")

    assert searched(entries, "said", moment(room=9)).activated == ["long"]
    answer = searched(entries, "said", moment(room=9), text_of=without_comment)
    assert answer.activated == ["long", "next"]


@pytest.mark.anyio
async def test_the_time_of_the_rounds_begins_after_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = [shelved(entry) for entry in chain(3)]
    seconds = iter([100.0, 101.0, 103.0])
    monkeypatch.setattr(trigger_search, "time", SimpleNamespace(monotonic=lambda: next(seconds)))

    class Following:
        async def fired_entries(self, indexes: Sequence[int], text_of_book: str) -> Sequence[int]:
            return [index for index in indexes if entries[index].name == "e1"]

        async def present_keys(
            self, entries: Mapping[int, EntryKeys], text_of_book: str
        ) -> Mapping[int, Sequence[str]]:
            return {}

    rounds = FiringRounds(entries, index_of_rules(entries, range(3), ()), ChatMoment(1, NOW, "s"))
    assert not await Recursion(rounds, entries, Following()).run([0])
    assert rounds.activated == [0, 1]

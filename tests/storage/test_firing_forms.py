"""Rules of firing, books and states of chats on disk: what is written is read; what this program would not write stays
as it came."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.conversations.codec import long_term, long_term_json
from memory_server.kernel.json_text import dumps, load_object
from memory_server.lore.chat_state import ChatState, Effect, Firing
from memory_server.lore.forms import (
    RuleFault,
    book_json,
    chat_state_json,
    chat_state_of,
    chats_json,
    chats_of,
    checked_rules,
    rules_json,
    taken_book,
    taken_rules,
)
from memory_server.lore.memory import (
    PLAIN,
    BookEntry,
    CharacterRule,
    FiringRules,
    GroupRules,
    RecursionRules,
)
from sandbox import RULE_FIELDS

NAMES = st.text("abc火, ", min_size=1, max_size=6).map(str.strip).filter(bool)
COUNTS = st.integers(0, 1_000)
GROUPS = st.builds(
    GroupRules,
    names=st.lists(st.text("abc火", min_size=1, max_size=4), max_size=3, unique=True).map(tuple),
    weight=st.integers(0, 500).map(float),
    overrides=st.booleans(),
    is_scored=st.booleans(),
)
RULES = st.builds(
    FiringRules,
    order=st.integers(-9, 900).map(float) | st.sampled_from([0.5, 100.0]),
    group=GROUPS,
    probability=st.integers(0, 100).map(float),
    sticky=COUNTS,
    cooldown=COUNTS,
    delay=COUNTS,
    once=st.booleans(),
    ignores_budget=st.booleans(),
    recursion=st.builds(
        RecursionRules, st.booleans(), st.booleans(), st.booleans(), st.integers(0, 3)
    ),
    characters=st.builds(
        CharacterRule, st.lists(NAMES, min_size=1, max_size=2).map(tuple), st.booleans()
    )
    | st.just(CharacterRule()),
    by_words=st.booleans(),
    other_words=st.lists(NAMES, max_size=2).map(tuple),
    is_off=st.booleans(),
)
BOOKS = st.builds(
    BookEntry,
    book_id=NAMES,
    book_name=st.text(max_size=5),
    source=st.text(max_size=5),
    uid=st.text(max_size=3),
    imported=st.text("0123456789abcdef", max_size=16),
    placement=st.dictionaries(NAMES, st.integers(0, 9), min_size=1, max_size=2),
)


@given(RULES)
def test_rules_come_back_as_they_were(rules: FiringRules) -> None:
    record = load_object(dumps({"name": "n", **rules_json(rules)}))
    assert taken_rules(record) == rules
    assert record == {"name": "n"}
    assert checked_rules(rules_json(rules)) == rules


def test_usual_rules_take_no_field() -> None:
    assert rules_json(PLAIN) == {}
    assert taken_rules({"name": "n"}) is PLAIN


@given(BOOKS)
def test_a_book_comes_back_as_it_was(book: BookEntry) -> None:
    record = load_object(dumps({"name": "n", **book_json(book)}))
    assert taken_book(record) == book
    assert record == {"name": "n"}


WRONG: list[tuple[str, Any]] = [
    *((name, {"x": 1, "tags": ["t"]}) for name in RULE_FIELDS),
    *((name, ["a" * 1_001, 5]) for name in RULE_FIELDS),
    *((name, -1) for name in RULE_FIELDS if name != "order"),
    ("order", True),
    ("order", "high"),
    ("order", 1e300),
    ("probability", 101),
    ("sticky", 1.5),
    ("sticky", 10**9),
    ("once", 1),
    ("group", ["a"] * 3 + [5]),
    ("group", [str(number) for number in range(21)]),
    ("characterFilter", {"names": ["a"], "isExclude": "no"}),
    ("otherWords", "a"),
    ("off", "true"),
    ("delayUntilRecursion", -3),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda value: str(value)[:20])
def test_a_value_that_cannot_be_stays_as_it_came(name: str, value: Any) -> None:
    row = {"name": "n", "prompt": "p", "trigger": "true", "createdAt": "2026-01-01T00:00:00.000Z"}
    memory = long_term(row | {name: value, "sometimes": 7})
    assert memory.rules == PLAIN
    assert long_term_json(memory) == long_term_json(long_term(row)) | {name: value, "sometimes": 7}
    with pytest.raises(RuleFault, match=name):
        checked_rules({name: value})


@pytest.mark.parametrize(
    "fields",
    [
        {"book": "Tale"},
        {"book": {"id": "", "name": "x"}},
        {"book": {"id": "a", "name": 5}},
        {"book": {"id": "a", "name": "x", "more": 1}},
        {"book": {"id": "a", "name": "x"}, "uid": 5},
        {"book": {"id": "a", "name": "x"}, "placement": []},
        {"uid": "5", "imported": "x"},
    ],
)
def test_a_book_of_another_form_stays_as_it_came(fields: dict[str, Any]) -> None:
    row = {"name": "n", "prompt": "p", "trigger": "true", "createdAt": "2026-01-01T00:00:00.000Z"}
    memory = long_term(row | fields)
    assert memory.book is None
    assert long_term_json(memory) == long_term_json(long_term(row)) | fields


# --- the state of a chat -------------------------------------------------------------------------------------

EFFECTS = st.none() | st.builds(Effect, COUNTS, COUNTS, st.booleans())
FIRINGS = st.builds(Firing, COUNTS, COUNTS, st.none() | st.tuples(COUNTS, COUNTS), EFFECTS, EFFECTS)
STATES = st.builds(ChatState, COUNTS, COUNTS, st.dictionaries(NAMES, FIRINGS, max_size=3))


@given(st.dictionaries(st.text(max_size=4), STATES, max_size=3))
def test_states_of_chats_come_back_as_they_were(states: dict[str, ChatState]) -> None:
    assert chats_of(load_object(dumps({"chats": chats_json(states)}))["chats"]) == states
    for state in states.values():
        assert chat_state_of(load_object(dumps({"s": chat_state_json(state)}))["s"]) == state
    assert chat_state_of(chat_state_json(None)) is None


GOOD = {"messages": 1, "at": 2, "firings": {"k": {"message": 1, "at": 2}}}


@pytest.mark.parametrize(
    "bad",
    [
        5,
        [],
        "x",
        {},
        {"messages": 1, "at": 2},
        {"messages": "many", "at": 2, "firings": {}},
        {"messages": 1, "at": None, "firings": {}},
        {"messages": 1, "at": 2, "firings": []},
        {"messages": 1, "at": 2, "firings": {"k": 5}},
        {"messages": 1, "at": 2, "firings": {"k": {"message": 1}}},
        {"messages": 1, "at": 2, "firings": {"k": {"message": 1, "at": 2, "before": []}}},
        {"messages": 1, "at": 2, "firings": {"k": {"message": 1, "at": 2, "sticky": []}}},
        {"messages": 1, "at": 2, "firings": {"k": {"message": 1, "at": 2, "sticky": [1]}}},
        {"messages": 1, "at": 2, "firings": {"k": {"message": 1, "at": 2, "cooldown": 7}}},
        {
            "messages": 1,
            "at": 2,
            "firings": {"k": {"message": 1, "at": 2, "cooldown": ["a", 1, True]}},
        },
    ],
)
def test_a_chat_that_cannot_be_read_is_left_out_and_others_stay(bad: Any) -> None:
    assert chats_of({"good": GOOD, "bad": bad}) == {"good": ChatState(1, 2, {"k": Firing(1, 2)})}


@pytest.mark.parametrize("record", [None, [], 5, "x"])
def test_what_is_no_table_of_chats_has_none(record: Any) -> None:
    assert chats_of(record) == {}

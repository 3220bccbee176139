"""Entries of books are decided by their keys as V8 decides the trigger that is written from them; their JSON."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server import Message, open_memory
from memory_server.conversations.codec import long_term, long_term_json
from memory_server.kernel.json_text import dumps, load_object
from memory_server.lore import LongTermMemory, ScannedChat, TriggerSet, shelf
from memory_server.lore.entry_keys import (
    CountedKeys,
    EntryKeys,
    KeyCondition,
    question_of,
    trigger_of,
)
from memory_server.lore.shelf import EntryIndex
from sandbox import Fired, TooMuchText, TriggerSandbox

NOW = datetime(2026, 7, 17, 9, 30, tzinfo=UTC)
LOGICS = ("AND_ANY", "AND_ALL", "NOT_ANY", "NOT_ALL")
WORDS = (
    *("dragon", "Dragon", "ice dragon", "a", "C++", "#tag", "don't", "x_y", "7", "", " ", "ſtar"),
    *(
        "龙",
        "龍",
        "火 龙",
        "ﾄﾞﾗｺﾞﾝ",
        "ドラゴン",
        "aあ",
        "Ölberg",
        "straße",
        "STRASSE",
        "İzmir",
        "µm",
        "Дом",
        "é",
    ),
)
TEXTS = (
    *WORDS,
    *(
        "dragons",
        "a dragon!",
        "DRAGON",
        "the ice  dragon",
        "#tags",
        "C++11",
        "x_yz",
        "星star",
        "Μm",
        "ÖLBERG",
    ),
    *(
        "e\u0301",
        "dra\u200bgon",
        "ｄｒａｇｏｎ",
        "izmir",
        "дом",
        "我的龙",
        "the\nice dragon",
        "\x01",
        "Ann: hi",
    ),
)


def random_keys(rng: Random) -> EntryKeys:
    def some(most: int) -> tuple[str, ...]:
        return tuple(rng.choices(WORDS, k=rng.randint(1, most)))

    conditions = [KeyCondition(some(3), "AND_ANY")]
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        conditions.append(KeyCondition(some(3), rng.choice(LOGICS)))
    return EntryKeys(
        heading="World info entry 5: Tale",
        conditions=tuple(conditions) if rng.random() > 0.05 else (),
        scope=rng.choice(("named", "any")),
        depth=rng.randint(1, 6),
        is_exact=rng.random() < 0.3,
        is_whole=rng.random() < 0.6,
        every=rng.choice((0, 0, 0, 2, 3)),
        is_by_words=rng.random() < 0.03,
    )


def random_context(rng: Random) -> dict[str, Any]:
    messages = []
    for number in range(rng.randint(0, 5)):
        content = rng.choice((" ", ", ", "", "。")).join(rng.choices(TEXTS, k=rng.randint(1, 4)))
        message = {"role": ("user", "assistant")[number % 2], "content": content}
        if rng.random() < 0.3:
            message["name"] = rng.choice(("Ann", "dragon", "龍"))
        messages.append(message)
    participants = {"char": {"name": "Dragon"}} if rng.random() < 0.5 else {}
    return {"messages": messages, "conversation_id": "c", "participants": participants}


def coming_of(index: EntryIndex, context: dict[str, Any]) -> list[int]:
    return index.coming(ScannedChat(context, index.depth))


@pytest.mark.anyio
@pytest.mark.parametrize("count", [300, pytest.param(6_000, marks=pytest.mark.full)])
async def test_keys_decide_as_their_trigger_does_in_v8(count: int) -> None:
    rng = Random(count)
    async with TriggerSandbox(spare=False) as sandbox:
        for _ in range(count // 100):
            entries = {index: random_keys(rng) for index in range(100)}
            context = random_context(rng)
            triggers = [trigger_of(keys) for keys in entries.values()]
            verdicts = await sandbox.evaluate(triggers, context, now=NOW, seed=0)
            fired = [index for index, verdict in enumerate(verdicts) if isinstance(verdict, Fired)]
            coming = coming_of(EntryIndex(entries), context)
            differing = set(fired) ^ set(coming)
            assert not differing, [(context, entries[index]) for index in sorted(differing)]


TEXT = st.sampled_from([text for text in WORDS if text])
CONDITIONS = st.lists(
    st.builds(
        KeyCondition, st.lists(TEXT, min_size=1, max_size=3).map(tuple), st.sampled_from(LOGICS)
    ),
    max_size=3,
).map(tuple)
KEYS = st.builds(
    EntryKeys,
    heading=st.just("World info entry 5: Tale"),
    conditions=CONDITIONS,
    scope=st.sampled_from(["named", "any", "scanned", "scanned_unnamed"]),
    depth=st.integers(1, 1_000),
    expressions=st.lists(st.sampled_from(["/a+/", "/b/i"]), unique=True, max_size=2).map(tuple),
    is_exact=st.booleans(),
    is_whole=st.booleans(),
    every=st.integers(0, 9),
    is_by_words=st.booleans(),
    counted=st.none() | st.builds(CountedKeys, st.lists(TEXT, max_size=2).map(tuple)),
)


def stored(keys: EntryKeys | None, trigger: str = "") -> LongTermMemory:
    return LongTermMemory(
        "n", "p", trigger or trigger_of(keys or EntryKeys("")), created_ms=0, keys=keys
    )


@given(KEYS)
def test_what_is_written_is_read_again(keys: EntryKeys) -> None:
    record = load_object(dumps(long_term_json(stored(keys))))
    assert long_term(record) == stored(keys)


def test_a_trigger_that_a_person_changed_makes_the_entry_a_hand_written_one() -> None:
    record = long_term_json(stored(EntryKeys("Tale", (KeyCondition(("a",), "AND_ANY"),))))
    memory = long_term(record | {"trigger": "false"})
    assert (memory.trigger, memory.keys, memory.extra) == ("false", None, {})
    assert "entryKeys" not in long_term_json(memory)


GOOD = {"heading": "x", "conditions": [], "scope": "named", "depth": 2}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "named",
        GOOD | {"scope": "user"},
        GOOD | {"scope": []},
        GOOD | {"depth": 0},
        GOOD | {"depth": True},
        GOOD | {"heading": 5},
        GOOD | {"conditions": [{"keys": "a", "logic": "AND_ANY"}]},
        GOOD | {"conditions": [{"keys": ["a"], "logic": "SOME"}]},
        GOOD | {"conditions": [{"keys": ["a"], "logic": ["AND_ANY"]}]},
        GOOD | {"conditions": [5]},
        GOOD | {"conditions": 5},
        GOOD | {"expressions": [5]},
        GOOD | {"counted": {"primary": []}},
        GOOD | {"caseSensitive": 1},
    ],
)
def test_keys_of_another_form_stay_as_they_came(value: Any) -> None:
    record = long_term_json(stored(None)) | {"entryKeys": value}
    memory = long_term(record)
    assert memory.keys is None
    assert long_term_json(memory) == record


def test_without_keys_an_entry_comes_in_every_search_or_by_its_words() -> None:
    constant = EntryKeys("x")
    assert constant.is_constant
    assert trigger_of(constant) == "// x\ntrue"
    by_words = replace(constant, is_by_words=True)
    assert not by_words.is_constant
    assert trigger_of(by_words) == "// x\nfalse  // it is found by its words"


def test_an_index_decides_only_those_that_are_asked_for() -> None:
    entries = {index: EntryKeys("x") for index in range(3)}
    entries[3] = EntryKeys("x", (KeyCondition(("a",), "AND_ANY"),))
    entries[4] = EntryKeys("x", (KeyCondition(("b",), "AND_ANY"),), depth=7)
    index = EntryIndex(entries)
    context = {"messages": [{"role": "user", "content": "a"}], "participants": {}}
    assert index.depth == 7
    assert coming_of(index, context) == [0, 1, 2, 3]
    assert index.coming(ScannedChat(context, index.depth), {1, 3, 4}) == [1, 3]


def test_a_key_that_many_entries_share_is_sought_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {
        number: EntryKeys("x", (KeyCondition(("a",), "AND_ANY"),)) for number in range(50_000)
    }
    index = EntryIndex(entries)
    # `a` is within words everywhere, and looking for it 50,000 times would take more than is allowed.
    context = {"messages": [{"role": "user", "content": "b" + "aa " * 3_000}], "participants": {}}
    assert coming_of(index, context) == []
    monkeypatch.setattr(shelf, "MOST_SOUGHT_CHARS", 0)
    with pytest.raises(TooMuchText):
        coming_of(index, context)


@pytest.mark.parametrize("text", ["b" * 50_001, "猫" * 50_001])
def test_messages_beyond_the_bound_are_for_v8(text: str) -> None:
    index = EntryIndex({0: EntryKeys("x", (KeyCondition(("b",), "AND_ANY"),))})
    with pytest.raises(TooMuchText):
        coming_of(index, {"messages": [{"role": "user", "content": text}]})
    # Entries look at the last two messages only.
    short = {"role": "user", "content": "b"}
    assert coming_of(index, {"messages": [{"role": "user", "content": text}, short, short]}) == [0]


def test_many_different_keys_have_one_bound() -> None:
    entries = {
        number: EntryKeys("x", (KeyCondition((f"a{number}",), "NOT_ANY"),))
        for number in range(20_000)
    }
    with pytest.raises(TooMuchText):
        coming_of(EntryIndex(entries), {"messages": [{"role": "user", "content": "a" * 9_000}]})


def test_a_question_asks_for_one_key() -> None:
    keys = EntryKeys("x", depth=3, expressions=("/b+/",))
    assert question_of(keys, "a") == "match_keys(context.messages, ['a'], 'named', 3) > 0"
    assert question_of(keys, "/b+/") == "match_keys(context.messages, [/b+/], 'named', 3) > 0"


@pytest.mark.anyio
async def test_v8_decides_entries_where_the_messages_are_too_long(tmp_path: Path) -> None:
    def entry(name: str, key: str) -> LongTermMemory:
        keys = EntryKeys("x", (KeyCondition((key,), "AND_ANY"),))
        return LongTermMemory(name, "prompt", trigger_of(keys), 1, keys=keys)

    entries = [TriggerSet(entry("there", "beaver"), None), TriggerSet(entry("not", "badger"), None)]
    async with open_memory(tmp_path) as memory:
        await memory.store.update("chat", lambda _: (entries, None), by="test")
        long_text = "b " * 30_000 + "beaver"
        found = await memory.conversation("chat").long_term.search([Message("user", long_text)])
    assert [shelved.name for shelved in found.activated] == ["there"]
    assert not found.failed

"""The index: always what a new one over the same memories would be, whatever was added, reinforced or forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, MINUTE, NOW, memory, query_of
from searched_memories import decided

from memory_server.conversations.changes import (
    Added,
    Change,
    CleanedUp,
    Forgotten,
    Reinforced,
    apply,
)
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall import index as index_module
from memory_server.conversations.recall import selection
from memory_server.conversations.recall.columns import Columns, IndexedMemories
from memory_server.conversations.recall.index import (
    LONGEST_MERGED,
    MIN_TOMBSTONES,
    Floats,
    GramIndex,
    Index,
    index_of,
)
from memory_server.conversations.recall.indexed_selection import decide, matched
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.relevance import receipts
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.words import GramText, KeywordOptions, RecallQuery
from memory_server.conversations.search import WORTH_A_THREAD, WORTH_A_THREAD_CHARS, prepare_index
from memory_server.kernel.messages import Message
from nlp import QueryWeights

P = RecallParameters()
WORDS = ["披萨", "生日", "猫", "狗", "海"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "reinforce", "forget"]), st.integers(0, 9), st.integers(0, 2**31)
    )
)


def points_of(index: Index, query: RecallQuery) -> Floats:
    """What each row shares with the query."""
    return matched(Columns([IndexedMemories({}, index)]), query, P).points


def some_memory(number: int, rng: Random) -> ShortTermMemory:
    # Whole numbers make ties; real ones, which sum differently in another order, must still select the same.
    is_whole = rng.random() < 0.5
    sampled_words = rng.sample(WORDS, rng.randrange(4))
    if is_whole:
        words = {word: float(rng.randrange(1, 60)) for word in sampled_words}
        age = rng.randrange(-5, 60) * 7 * MINUTE
        score = rng.randrange(3) * 5.0
    else:
        words = {word: rng.uniform(0.8, 80) for word in sampled_words}
        age = rng.randrange(400 * DAY)
        score = rng.uniform(0, 100)
    return memory(
        f"m{number}", age=age, words=words, score=score, chat=rng.choice(["chat", "other"])
    )


def change_of(state: ConversationState, step: tuple[str, int, int]) -> Change:
    action, number, seed = step
    stored = state.short_term.get(f"m{number}")
    if action == "add" or stored is None:
        return Added(some_memory(number, Random(seed)))
    if action == "reinforce":
        return Reinforced(stored.id, stored.score, stored.score + 5)
    return Forgotten(stored, "deleted")


@given(
    STEPS,
    st.integers(0, 99),
    st.sampled_from([P, replace(P, same_moment=2, must_share=True, rarity=True)]),
)
def test_an_index_that_followed_the_changes_selects_as_a_new_one(
    steps: list[tuple[str, int, int]], seed: int, parameters: RecallParameters
) -> None:
    state = ConversationState("chat")
    index = index_of(state)
    for step in steps:
        apply(state, [change_of(state, step), CleanedUp(NOW, None)])
    assert state.follower is index
    query = query_of({"披萨": 10.0, "猫": 3.5, "雨": 1.0})
    about = {"conversation_id": "chat", "now_ms": NOW, "parameters": parameters}
    memories = state.short_term
    recall = decide(
        [IndexedMemories(memories, index)], query, RecallContext(rng=Random(seed), **about)
    ).recall  # type: ignore[arg-type]
    assert recall == decided(memories.values(), query, parameters, seed=seed).recall
    assert len(index) == len(memories)


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.full)])
def test_many_memories_have_the_relevance_of_the_plain_formula_within_a_trillionth(
    count: int,
) -> None:
    rng = Random(5)
    vocabulary = [f"词{n}" for n in range(3_000)]
    memories = []
    for number in range(count):
        words = {word: rng.uniform(1, 60) for word in rng.sample(vocabulary, 23)}
        age = rng.randrange(400 * DAY)
        memories.append(memory(f"m{number}", age=age, words=words, score=rng.uniform(0, 100)))
    query = query_of({w: rng.uniform(1, 60) for w in rng.sample(vocabulary, 25)})
    index = Index(memories)
    ages = np.maximum(NOW - index.times, 0)
    ours = (
        points_of(index, query)
        - P.decay_ceiling * (1 - np.exp(-ages * P.decay_per_ms))
        + index.scores
    )
    judged = receipts(memories, query, now_ms=NOW, parameters=P, wording=KeywordOptions())
    plain = {m.id: receipt.relevance for m, receipt in zip(memories, judged, strict=True)}
    assert np.max(np.abs(ours - [plain[name] for name in index.ids])) <= 1e-12 * 200
    searched = [IndexedMemories({m.id: m for m in memories}, index)]
    for seed in range(5):
        about = {"conversation_id": "chat", "now_ms": NOW, "parameters": P}
        recall = decide(searched, query, RecallContext(rng=Random(seed), **about)).recall  # type: ignore[arg-type]
        assert recall == selection.select(memories, query, RecallContext(rng=Random(seed), **about))  # type: ignore[arg-type]


def test_a_word_that_a_record_holds_twice_counts_twice() -> None:
    twice = replace(memory("a"), words=("猫", "猫"), weights=(3.0, 4.0))
    query = query_of({"猫": 1.0})
    assert points_of(Index([twice]), query).tolist() == [9.0]
    [receipt] = receipts(
        [twice], query, now_ms=twice.time_ms, parameters=P, wording=KeywordOptions()
    )
    assert receipt.match == 9.0


def test_words_without_their_weights_are_not_taken_for_fewer_words() -> None:
    whole = memory("a", words={"披萨": 10.0, "猫": 3.5})
    broken = replace(whole, weights=whole.weights[:1])
    state = ConversationState("chat")
    index_of(state)
    with pytest.raises(ValueError, match="shorter"):
        apply(state, [Added(broken)])
    with pytest.raises(ValueError, match="shorter"):
        KeywordOptions().with_other_words(broken, ["雨"])


def test_tombstones_are_cleared_when_they_outnumber_the_memories() -> None:
    state = ConversationState("chat")
    memories = [memory(f"m{n}", age=n) for n in range(MIN_TOMBSTONES + 10)]
    apply(state, [Added(m) for m in memories])
    index = index_of(state)
    apply(state, [Forgotten(m, "deleted") for m in memories[20:-1]])
    assert index_of(state) is index
    apply(state, [Forgotten(m, "deleted") for m in memories[:19]])
    anew = index_of(state)
    assert anew is not index
    assert len(anew) == len(anew.ids) == len(state.short_term)


def test_rows_are_ordered_by_time_then_id_whatever_was_added_when() -> None:
    index = Index([memory("b", age=5), memory("a", age=5), memory("c", age=9)])
    assert [index.ids[row] for row in index.oldest_first()[0]] == ["c", "a", "b"]
    for late in (memory("d", age=1), memory("e", age=1), memory("f", age=7)):
        index.follow(Added(late))
        names = [index.ids[row] for row in index.oldest_first()[0]]
    assert names == ["c", "f", "a", "b", "d", "e"]


@pytest.mark.anyio
async def test_changes_made_while_an_index_is_built_in_a_thread_are_in_it() -> None:
    state = ConversationState("chat")
    apply(state, [Added(memory(f"m{n}", words={"猫": 1.0})) for n in range(WORTH_A_THREAD)])
    indexing = asyncio.Lock()
    building = asyncio.create_task(prepare_index(state, KeywordOptions(), WORTH_A_THREAD, indexing))
    waiting = asyncio.create_task(prepare_index(state, KeywordOptions(), WORTH_A_THREAD, indexing))
    await asyncio.sleep(0)
    assert state.follower is not None, "it is being built"
    apply(
        state,
        [Added(memory("late", words={"猫": 2.0})), Forgotten(state.short_term["m0"], "deleted")],
    )
    await asyncio.gather(building, waiting)
    index = index_of(state)
    assert state.follower is index
    assert len(index) == WORTH_A_THREAD
    assert points_of(index, query_of({"猫": 1.0}))[index.ids.index("late")] == 3.0


@pytest.mark.anyio
async def test_an_index_made_by_a_decision_meanwhile_stays() -> None:
    state = ConversationState("chat")
    apply(state, [Added(memory(f"m{n}")) for n in range(WORTH_A_THREAD)])
    building = asyncio.create_task(
        prepare_index(state, KeywordOptions(), WORTH_A_THREAD, asyncio.Lock())
    )
    await asyncio.sleep(0)
    assert state.follower is not None, "it is being built"
    index = index_of(state)
    await building
    assert state.follower is index


@pytest.mark.anyio
async def test_few_long_memories_are_indexed_in_a_thread_too() -> None:
    state = ConversationState("chat")
    long = replace(memory("long"), text="x" * (WORTH_A_THREAD_CHARS + 1))
    apply(state, [Added(long)])
    await prepare_index(state, KeywordOptions(), WORTH_A_THREAD, asyncio.Lock())
    assert isinstance(state.follower, Index)


ANY_WORDS = st.text("猫狗ねこのa\U00020000\ud83d", min_size=1, max_size=3)


@given(
    st.lists(
        st.tuples(st.text("猫狗ねこの a\U00020000", max_size=8), st.lists(ANY_WORDS, max_size=4)),
        max_size=6,
    )
)
def test_an_index_of_many_at_once_is_that_of_one_after_the_other(
    facts: list[tuple[str, list[str]]],
) -> None:
    options = KeywordOptions(emphasis=QueryWeights(pairs=1.0))
    memories = []
    for number, (text, words) in enumerate(facts):
        bare = memory(f"m{number}", age=(len(facts) - number) * MINUTE)
        weights = tuple(float(position + 1) for position in range(len(words)))
        memories.append(
            replace(bare, messages=(Message("user", text),), words=tuple(words), weights=weights)
        )
    at_once = Index(memories, options)
    in_turn = Index((), options)
    for stored in memories:
        in_turn.follow(Added(stored))
    terms = sorted({word for stored in memories for word in stored.words})
    grams = ["猫", "猫狗", "狗猫", "ねこ", "猫の", "の猫"]
    for rows, expected in zip(
        at_once.occurrences(terms, grams), in_turn.occurrences(terms, grams), strict=True
    ):
        assert rows.tolist() == expected.tolist()
    assert all(word in at_once.vocabulary for word in terms)


def test_pairs_of_characters_are_merged_only_in_short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[int] = []
    join = index_module._joined

    def joined(runs: Sequence[index_module.Run]) -> index_module.Run:
        whole = join(runs)
        merged.append(len(whole.rows))
        return whole

    monkeypatch.setattr(index_module, "_joined", joined)
    rng = Random(1)
    texts: list[list[GramText]] = []
    for _ in range(40):
        characters = [chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(3_000)]
        texts.append([GramText("".join(characters), 1.0)])
    index = GramIndex()
    for row, text in enumerate(texts):
        index.add(text, row)
    assert merged
    assert max(merged) <= 2 * LONGEST_MERGED
    whole = GramIndex()
    whole.fill(texts)
    grams = [texts[3][0].text[:2], texts[39][0].text[5], "猫狗"]
    for apart, together in zip(index.holding(grams), whole.holding(grams), strict=True):
        assert sorted(rows_of(apart)) == rows_of(together)


def rows_of(parts: Iterable[tuple[Any, Any]]) -> list[int]:
    """The rows of a gram, which its index may hold in several parts."""
    rows: list[int] = []
    for part, _ in parts:
        rows += part.tolist()
    return rows


@given(st.lists(st.lists(st.integers(0, 12), max_size=4), max_size=5))
def test_the_order_by_time_goes_on_with_what_comes_in_turn_and_out_of_turn(
    rounds: list[list[int]],
) -> None:
    index = Index()
    memories: list[ShortTermMemory] = []
    for ages in rounds:
        for age in ages:
            memories.append(memory(f"m{len(memories) * 7 % 10}-{len(memories)}", age=age * MINUTE))
            index.follow(Added(memories[-1]))
        fresh = sorted(memories, key=lambda item: (item.time_ms, item.id))
        assert [index.ids[row] for row in index.oldest_first()[0]] == [item.id for item in fresh]
        assert index.oldest_first()[1].tolist() == [item.time_ms for item in fresh]


def episodes_of(index: Index, pause_ms: int) -> list[tuple[str, int]]:
    """Each memory of the timeline by time, with its episode."""
    timeline = index.timeline(pause_ms)
    rows = range(len(timeline.episode))
    if timeline.rows is not None:
        rows = timeline.rows.tolist()
    return [(index.ids[row], int(timeline.episode_of[row])) for row in rows]


@pytest.mark.parametrize("ages", [[9, 7, 5, 3, 1], [3, 9, 1, 5, 7]])
def test_a_memory_that_was_removed_joins_no_episodes(ages: list[int]) -> None:
    """Five memories two minutes apart are one episode; without the one in the middle they are two."""
    index = Index([memory(f"m{age}", age=age * MINUTE) for age in ages])
    assert episodes_of(index, 3 * MINUTE) == [("m9", 0), ("m7", 0), ("m5", 0), ("m3", 0), ("m1", 0)]
    index.follow(Forgotten(memory("m5", age=5 * MINUTE), "deleted"))
    assert episodes_of(index, 3 * MINUTE) == [("m9", 0), ("m7", 0), ("m3", 1), ("m1", 1)]

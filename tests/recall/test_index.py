"""The index: always what a new one over the same memories would be, whatever was added, reinforced or forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore
from sample_memories import DAY, MINUTE, NOW, memory, query_of
from trigger_table import TableRunner

from memory_server.conversations.changes import Added, Change, CleanedUp, Forgotten, Reinforced, apply
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall import gram_index, selection
from memory_server.conversations.recall.columns import Columns, Searched
from memory_server.conversations.recall.gram_index import LONGEST_MERGED, GramIndex
from memory_server.conversations.recall.index import MIN_TOMBSTONES, Floats, Index, index_of
from memory_server.conversations.recall.indexed_match import matched
from memory_server.conversations.recall.indexed_selection import decide
from memory_server.conversations.recall.parameters import Parameters, RecallParameters
from memory_server.conversations.recall.relevance import receipts
from memory_server.conversations.recall.words import GramText, KeywordOptions, RecallQuery
from memory_server.conversations.search import WORTH_A_THREAD, WORTH_A_THREAD_CHARS, ShortTermSearch
from memory_server.conversations.services import Services
from memory_server.kernel.messages import Message
from nlp import QueryWeights

P = RecallParameters()
WORDS = ["披萨", "生日", "猫", "狗", "海"]
STEPS = st.lists(st.tuples(st.sampled_from(["add", "reinforce", "forget"]), st.integers(0, 9), st.integers(0, 2**31)))


def points_of(index: Index, query: RecallQuery) -> Floats:
    """What each row shares with the query."""
    return matched(Columns([Searched({}, index)]), query, P).points


def some_memory(number: int, rng: Random) -> ShortTermMemory:
    # Whole numbers make ties; real ones, which sum differently in another order, must still select the same.
    whole = rng.random() < 0.5
    words = {
        word: float(rng.randrange(1, 60)) if whole else rng.uniform(0.8, 80)
        for word in rng.sample(WORDS, rng.randrange(4))
    }
    age = rng.randrange(-5, 60) * 7 * MINUTE if whole else rng.randrange(400 * DAY)
    score = rng.randrange(3) * 5.0 if whole else rng.uniform(0, 100)
    return memory(f"m{number}", age=age, words=words, score=score, chat=rng.choice(["chat", "other"]))


def change_of(state: ConversationState, step: tuple[str, int, int]) -> Change:
    what, number, seed = step
    known = state.short_term.get(f"m{number}")
    if what == "add" or known is None:
        return Added(some_memory(number, Random(seed)))
    return Reinforced(known.id, known.score, known.score + 5) if what == "reinforce" else Forgotten(known, "deleted")


@given(STEPS, st.integers(0, 99), st.sampled_from([P, replace(P, same_moment=2, must_share=True, rarity=True)]))
def test_an_index_that_followed_the_changes_selects_as_the_plain_formula(
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
    found = decide([Searched(memories, index)], query, rng=Random(seed), **about).recall  # type: ignore[arg-type]
    assert found == selection.select(memories.values(), query, rng=Random(seed), **about)  # type: ignore[arg-type]
    assert len(index) == len(memories)


def test_ten_thousand_memories_have_the_relevance_of_the_plain_formula_within_a_trillionth() -> None:
    rng = Random(5)
    vocabulary = [f"词{n}" for n in range(3_000)]
    memories = [
        memory(
            f"m{n}",
            age=rng.randrange(400 * DAY),
            words={w: rng.uniform(1, 60) for w in rng.sample(vocabulary, 23)},
            score=rng.uniform(0, 100),
        )
        for n in range(10_000)
    ]
    query = query_of({w: rng.uniform(1, 60) for w in rng.sample(vocabulary, 25)})
    index = Index(memories)
    ages = np.maximum(NOW - index.times, 0)
    ours = points_of(index, query) - P.decay_ceiling * (1 - np.exp(-ages * P.decay_per_ms)) + index.scores
    judged = receipts(memories, query, now_ms=NOW, parameters=P, wording=KeywordOptions())
    plain = {m.id: receipt.relevance for m, receipt in zip(memories, judged, strict=True)}
    assert np.max(np.abs(ours - [plain[name] for name in index.ids])) <= 1e-12 * 200
    for seed in range(5):
        about = {"conversation_id": "chat", "now_ms": NOW, "parameters": P}
        found = decide([Searched({m.id: m for m in memories}, index)], query, rng=Random(seed), **about).recall  # type: ignore[arg-type]
        assert found == selection.select(memories, query, rng=Random(seed), **about)  # type: ignore[arg-type]


def test_a_word_that_a_record_holds_twice_counts_twice() -> None:
    twice = replace(memory("a"), words=("猫", "猫"), weights=(3.0, 4.0))
    query = query_of({"猫": 1.0})
    assert points_of(Index([twice]), query).tolist() == [9.0]
    [receipt] = receipts([twice], query, now_ms=twice.time_ms, parameters=P, wording=KeywordOptions())
    assert receipt.match == 9.0


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


def searching() -> ShortTermSearch:
    return ShortTermSearch("chat", Services(MemoryStore(), TableRunner(), Parameters(), lambda: NOW, Random(0)))


@pytest.mark.anyio
async def test_changes_made_while_an_index_is_built_in_a_thread_are_in_it() -> None:
    state = ConversationState("chat")
    apply(state, [Added(memory(f"m{n}", words={"猫": 1.0})) for n in range(WORTH_A_THREAD)])
    search = searching()
    building = asyncio.create_task(search._prepare(state, WORTH_A_THREAD))
    waiting = asyncio.create_task(search._prepare(state, WORTH_A_THREAD))
    await asyncio.sleep(0)
    assert state.follower is not None, "it is being built"
    apply(state, [Added(memory("late", words={"猫": 2.0})), Forgotten(state.short_term["m0"], "deleted")])
    await asyncio.gather(building, waiting)
    index = index_of(state)
    assert state.follower is index
    assert len(index) == WORTH_A_THREAD
    assert points_of(index, query_of({"猫": 1.0}))[index.ids.index("late")] == 3.0


@pytest.mark.anyio
async def test_an_index_made_by_a_decision_meanwhile_stays() -> None:
    state = ConversationState("chat")
    apply(state, [Added(memory(f"m{n}")) for n in range(WORTH_A_THREAD)])
    building = asyncio.create_task(searching()._prepare(state, WORTH_A_THREAD))
    await asyncio.sleep(0)
    assert state.follower is not None, "it is being built"
    made = index_of(state)
    await building
    assert state.follower is made


@pytest.mark.anyio
async def test_few_long_memories_are_indexed_in_a_thread_too() -> None:
    state = ConversationState("chat")
    long = replace(memory("long"), text="x" * (WORTH_A_THREAD_CHARS + 1))
    apply(state, [Added(long)])
    await searching()._prepare(state, WORTH_A_THREAD)
    assert isinstance(state.follower, Index)


ANY_WORDS = st.text("猫狗ねこのa\U00020000\ud83d", min_size=1, max_size=3)


@given(st.lists(st.tuples(st.text("猫狗ねこの a\U00020000", max_size=8), st.lists(ANY_WORDS, max_size=4)), max_size=6))
def test_an_index_of_many_at_once_is_that_of_one_after_the_other(said: list[tuple[str, list[str]]]) -> None:
    options = KeywordOptions(emphasis=QueryWeights(pairs=1.0))
    memories = [
        replace(
            memory(f"m{number}", age=(len(said) - number) * MINUTE),
            messages=(Message("user", text),),
            words=tuple(words),
            weights=tuple(float(place + 1) for place in range(len(words))),
        )
        for number, (text, words) in enumerate(said)
    ]
    at_once, in_turn = Index(memories, options), Index((), options)
    for each in memories:
        in_turn.follow(Added(each))
    terms = sorted({word for _, words in said for word in words})
    grams = ["猫", "猫狗", "狗猫", "ねこ", "猫の", "の猫"]
    for found, expected in zip(at_once.occurrences(terms, grams), in_turn.occurrences(terms, grams), strict=True):
        assert found.tolist() == expected.tolist()
    assert all(word in at_once.vocabulary for word in terms)


def test_pairs_of_characters_are_merged_only_in_short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[int] = []
    join = gram_index._joined

    def joined(runs: Sequence[gram_index.Run]) -> gram_index.Run:
        whole = join(runs)
        merged.append(len(whole.rows))
        return whole

    monkeypatch.setattr(gram_index, "_joined", joined)
    rng = Random(1)
    texts = [[GramText("".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(3_000)), 1.0)] for _ in range(40)]
    index = GramIndex()
    for row, text in enumerate(texts):
        index.add(text, row)
    assert merged
    assert max(merged) <= 2 * LONGEST_MERGED
    whole = GramIndex()
    whole.fill(texts)
    grams = [texts[3][0].text[:2], texts[39][0].text[5], "猫狗"]
    for apart, together in zip(index.holding(grams), whole.holding(grams), strict=True):
        rows = sorted(row for part, _ in apart for row in part.tolist())
        assert rows == [row for part, _ in together for row in part.tolist()]


@given(st.lists(st.lists(st.integers(0, 12), max_size=4), max_size=5))
def test_the_order_by_time_goes_on_with_what_comes_in_turn_and_out_of_turn(rounds: list[list[int]]) -> None:
    index, known = Index(), []
    for ages in rounds:
        for age in ages:
            known.append(memory(f"m{len(known) * 7 % 10}-{len(known)}", age=age * MINUTE))
            index.follow(Added(known[-1]))
        fresh = sorted(known, key=lambda one: (one.time_ms, one.id))
        assert [index.ids[row] for row in index.oldest_first()[0]] == [one.id for one in fresh]
        assert index.oldest_first()[1].tolist() == [one.time_ms for one in fresh]

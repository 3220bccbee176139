"""Memories by words, dates, scores and tags; and what many of them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from operator import attrgetter
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, HOUR, LONG_TERM, MINUTE, NOW, SHORT_TERM, memory, trigger

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.filters import (
    CommonWord,
    MemoryFilter,
    SortBy,
    filtered,
    overview,
    tags_of,
)
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.relevance import age_of, decay
from memory_server.lore.memory import LongTermMemory
from nlp.date_words import day_word

P = RecallParameters()

CAT = memory(
    "cat", age=3 * DAY, words={"芝麻": 28.0}, score=12.0, text="user: 芝麻怕打雷 #猫 #家里"
)
TEA = memory("tea", age=9 * DAY, words={"龙井": 30.0}, score=-0.5, text="user: Dragon Well #tea")
NEW = memory("new", age=0, text="user: 明天开会", extra={"tags": ["工作", 7, "#Tea"]})
RULE = LongTermMemory("芝麻的药", "每天一粒 #猫", "true", NOW - 5 * DAY)
ALL: Sequence[ShortTermMemory | LongTermMemory] = (CAT, TEA, NEW, RULE)


def names_matching(
    memory_filter: MemoryFilter, sort_by: SortBy = "timestamp", *, descending: bool = True
) -> list[str]:
    about = {"now_ms": NOW, "parameters": P, "sort_by": sort_by, "descending": descending}
    hits, count = filtered([("chat", ALL)], memory_filter, **about)  # type: ignore[arg-type]
    assert count == len(hits)
    for most in range(1, len(ALL) + 1):
        assert filtered([("chat", ALL)], memory_filter, most=most, **about) == (hits[:most], count)  # type: ignore[arg-type]
    return [name_of(item.memory) for item in hits]


def name_of(memory: ShortTermMemory | LongTermMemory) -> str:
    if isinstance(memory, ShortTermMemory):
        return memory.id
    return memory.name


@pytest.mark.parametrize(
    ("memory_filter", "names"),
    [
        (MemoryFilter(), ["new", "cat", "芝麻的药", "tea"]),
        (MemoryFilter(words={"芝麻": 1.0}), ["cat", "芝麻的药"]),
        (MemoryFilter(words={"芝麻": 1.0, "龙井": 1.0}), ["cat", "芝麻的药", "tea"]),
        (MemoryFilter(words={"DRAGON": 1.0}), ["tea"]),
        (MemoryFilter(words={"一粒": 1.0}), ["芝麻的药"]),
        (MemoryFilter(words={"没有": 1.0}), []),
        (MemoryFilter(from_ms=NOW - 3 * DAY), ["new", "cat"]),
        (MemoryFilter(until_ms=NOW - 5 * DAY), ["芝麻的药", "tea"]),
        (MemoryFilter(from_ms=NOW - 5 * DAY, until_ms=NOW - 3 * DAY), ["cat", "芝麻的药"]),
        (MemoryFilter(from_ms=NOW + 1), []),
        (MemoryFilter(min_score=0.0), ["new", "cat"]),
        (MemoryFilter(max_score=0.0), ["new", "tea"]),
        (MemoryFilter(min_score=12.0, max_score=12.0), ["cat"]),
        (MemoryFilter(tags=frozenset({"猫"})), ["cat", "芝麻的药"]),
        (MemoryFilter(tags=frozenset({"猫", "家里"})), ["cat"]),
        (MemoryFilter(tags=frozenset({"tea"})), ["new", "tea"]),
        (MemoryFilter(words={"芝麻": 1.0}, tags=frozenset({"tea"})), []),
    ],
)
def test_a_memory_meets_all_that_is_asked(memory_filter: MemoryFilter, names: list[str]) -> None:
    assert names_matching(memory_filter) == names


@pytest.mark.parametrize(
    ("sort_by", "descending", "names"),
    [
        ("timestamp", False, ["tea", "芝麻的药", "cat", "new"]),
        ("score", True, ["cat", "new", "tea", "芝麻的药"]),
        ("score", False, ["tea", "new", "cat", "芝麻的药"]),
        ("relevance", True, ["cat", "new", "芝麻的药", "tea"]),
    ],
)
def test_memories_are_sorted_as_asked(sort_by: SortBy, descending: bool, names: list[str]) -> None:
    assert names_matching(MemoryFilter(), sort_by, descending=descending) == names


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#旅行 去大理", ("旅行",)),
        ("#微博话题#很多", ("微博话题",)),
        ("见 https://a.b/c#part 和 PR #12", ()),
        ("#a-b，#a-b。#C3", ("a-b", "C3")),
        ("C# 和 ##标题", ()),
    ],
)
def test_a_tag_is_a_word_behind_a_hash(text: str, tags: tuple[str, ...]) -> None:
    assert tags_of(memory(text=text)) == tags


def test_tags_that_other_programs_wrote_count_too() -> None:
    assert tags_of(NEW) == ("工作", "Tea")
    assert tags_of(trigger("a", extra={"tags": "猫"})) == ()


@given(
    st.lists(SHORT_TERM | LONG_TERM, max_size=6, unique_by=attrgetter("key")),
    st.sampled_from(["relevance", "timestamp", "score"]),
)
def test_an_empty_sieve_keeps_everything_in_an_order_that_does_not_depend_on_the_store(
    memories: list[ShortTermMemory | LongTermMemory], sort_by: SortBy
) -> None:
    about = {"now_ms": NOW, "parameters": P, "sort_by": sort_by}
    stored_order, _ = filtered([("c", memories)], MemoryFilter(), **about)  # type: ignore[arg-type]
    reversed_order, _ = filtered([("c", memories[::-1])], MemoryFilter(), **about)  # type: ignore[arg-type]
    assert len(stored_order) == len(memories)
    assert [item.relevance for item in stored_order] == [item.relevance for item in reversed_order]
    for item in stored_order:
        if isinstance(item.memory, ShortTermMemory):
            assert item.relevance == item.memory.score - decay(age_of(item.memory.time_ms, NOW), P)


def test_an_overview_counts() -> None:
    memories = [
        memory("a", age=30 * MINUTE, score=-1.0, text="user: #猫"),
        memory("b", age=2 * HOUR, score=5.0, pinned=True, text="user: #猫 #狗"),
        memory("c", age=40 * DAY, score=10.0),
        memory("d", age=-DAY, score=30.0),
    ]
    words = [(("猫", 3.0),), (("猫", 4.0), ("狗", 7.5)), (), (("狗", 1.0),)]
    summary = overview(memories, words, now_ms=NOW, zone=ZoneInfo("Asia/Shanghai"), top=1)
    assert (summary.total, summary.average_score, summary.never_recalled, summary.pinned) == (
        4,
        11.0,
        1,
        1,
    )
    assert summary.scores == {"negative": 1, "low": 1, "medium": 1, "high": 1}
    assert summary.ages == {
        "last_hour": 2,
        "last_day": 1,
        "last_week": 0,
        "last_month": 0,
        "older": 1,
    }
    assert summary.words == (CommonWord("狗", 8.5, 2),)
    assert summary.tags == {"猫": 2}
    # NOW is 08:00 in Shanghai.
    assert {hour: count for hour, count in enumerate(summary.hours) if count} == {6: 1, 7: 1, 8: 2}


def test_the_days_of_memories_do_not_crowd_out_their_words() -> None:
    words = [((day_word(date(2026, 5, 2)), 90.0), ("猫", 3.0))]
    summary = overview([memory()], words, now_ms=NOW, zone=None, top=5)
    assert summary.words == (CommonWord("猫", 3.0, 1),)


@pytest.mark.parametrize("little", ["什么", "What", "does"])
def test_words_that_say_little_do_not_tell_what_a_conversation_is_about(little: str) -> None:
    summary = overview([memory()], [((little, 90.0), ("猫", 3.0))], now_ms=NOW, zone=None, top=5)
    assert summary.words == (CommonWord("猫", 3.0, 1),)


def test_an_overview_of_nothing() -> None:
    summary = overview([], [], now_ms=NOW, zone=None, top=5)
    assert (summary.total, summary.average_score, summary.words, sum(summary.hours)) == (
        0,
        None,
        (),
        0,
    )

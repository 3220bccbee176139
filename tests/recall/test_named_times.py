"""A question that names a holiday or a distance in words brings what was said then. It is Friday 27 November 2026."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from searched_memories import USUAL_WORDING, decided

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import USUAL
from memory_server.conversations.recall.relevance import span_points, span_share
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.messages import Message, context_text

ZONE = timezone(timedelta(hours=8))
WORDING = replace(USUAL_WORDING, zone=ZONE)
NOW_MS = int(datetime(2026, 11, 27, 20, 0, tzinfo=ZONE).timestamp() * 1000)
SAID = {
    "2026-09-24": "We bought a lantern for the little one",
    "2026-09-25": "和奶奶一起看月亮，吃了五仁的",
    "2026-10-20": "The boiler is broken again",
    "2026-02-17": "全家包饺子，放了烟花",
    "2025-12-25": "Grandpa fell asleep under the tree",
    "2026-11-25": "Signed the contract with the landlord",
    "2026-11-22": "Rowed across the lake with Tom",
    "2026-11-11": "下单了一台咖啡机",
    "2026-11-05": "Mum had her knee operated",
    "2026-06-03": "The cat learned to open doors",
}


def memory(day: str, text: str) -> ShortTermMemory:
    time_ms = int(datetime.fromisoformat(f"{day}T19:00").replace(tzinfo=ZONE).timestamp() * 1000)
    messages = (Message("user", text), Message("assistant", "嗯。"))
    return WORDING.of_text(
        ShortTermMemory(day, time_ms, context_text(messages), (), (), 0.0, "chat", messages)
    )


def days_of(question: str) -> list[str]:
    """The days on which was said what the question brings, the best first."""
    memories = [memory(day, text) for day, text in SAID.items()]
    query = WORDING.of_query([Message("user", question)], NOW_MS)
    recall = decided(
        memories, query, USUAL, wording=WORDING, conversation_id="other", now_ms=NOW_MS
    ).recall
    return [item.memory.id for item in (*recall.top, *recall.next)]


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("what did we do at Mid-Autumn?", "2026-09-25"),
        ("Where did we go at Mid-Autumn?", "2026-09-24"),
        ("中秋我们做了什么", "2026-09-25"),
        ("今年中秋节那天我们做了什么？", "2026-09-25"),
        ("中秋跟谁一起过的？", "2026-09-25"),
        ("今年春节我们做了什么？", "2026-02-17"),
        ("What happened at Christmas?", "2025-12-25"),
        ("who fell asleep at Christmas?", "2025-12-25"),
        ("双十一我买了什么？", "2026-11-11"),
        ("What did I sign two days ago?", "2026-11-25"),
        ("what did I do two days ago?", "2026-11-25"),
        ("两天前我们聊了什么？", "2026-11-25"),
        ("What did we do last weekend?", "2026-11-22"),
        ("上周末我们干了什么？", "2026-11-22"),
        ("what did I tell you three weeks ago?", "2026-11-05"),
        ("三周前我说了什么？", "2026-11-05"),
        ("What did I say half a year ago?", "2026-06-03"),
    ],
)
def test_what_was_said_then_comes(question: str, day: str) -> None:
    assert day in days_of(question)[:2]


@pytest.mark.parametrize(
    "question",
    ["what did we do at Halloween?", "儿童节我们做了什么？", "what did I say five weeks ago?"],
)
def test_a_time_of_which_nothing_was_said_does_not_bring_another(question: str) -> None:
    assert not {"2026-09-25", "2026-02-17", "2025-12-25", "2026-11-25"} & set(days_of(question)[:3])


@pytest.mark.parametrize(
    "text", ["The boiler is broken", "咖啡机怎么清洗", "What is wrong with the boiler?", "Tom?"]
)
def test_a_text_without_a_time_names_none(text: str) -> None:
    query = WORDING.of_query([Message("user", text)], NOW_MS)
    assert (query.spans, query.names_time, query.days) == ((), False, frozenset())


DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("length_ms", "apart_ms", "share"),
    [
        # a day: some days before it and after it count half
        (DAY_MS, 0, 1.0),
        (DAY_MS, DAY_MS - 1, 1.0),
        (DAY_MS, DAY_MS, 0.5),
        (DAY_MS, DAY_MS + USUAL.span_after_ms - 1, 0.5),
        (DAY_MS, DAY_MS + USUAL.span_after_ms, 0.0),
        (DAY_MS, -1, 0.5),
        (DAY_MS, -USUAL.span_before_ms, 0.5),
        (DAY_MS, -USUAL.span_before_ms - 1, 0.0),
        # three hours: as long again before them and after them
        (3 * HOUR_MS, 3 * HOUR_MS - 1, 1.0),
        (3 * HOUR_MS, 6 * HOUR_MS - 1, 0.5),
        (3 * HOUR_MS, 6 * HOUR_MS, 0.0),
        (3 * HOUR_MS, -3 * HOUR_MS, 0.5),
        (3 * HOUR_MS, -3 * HOUR_MS - 1, 0.0),
    ],
)
def test_a_named_time_counts_whole_and_what_is_near_it_half(
    length_ms: int, apart_ms: int, share: float
) -> None:
    begin_ms = NOW_MS - 90 * DAY_MS
    query = RecallQuery(spans=((begin_ms, begin_ms + length_ms),))
    assert span_share(begin_ms + apart_ms, query, USUAL) == share


def test_a_memory_of_the_named_time_counts_its_words_twice() -> None:
    assert span_points(30.0, USUAL) == 30.0
    assert span_points(0.0, USUAL) == span_points(1.0, USUAL) == USUAL.span_points


def test_of_memories_that_share_the_words_the_one_of_the_named_month_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {
        "2026-03-02": "The budget meeting with Li about the new stage was long",
        "2026-05-12": "Budget meeting with Li",
        "2026-08-02": "Meeting with Li on the budget of the new stage",
    }
    for day, text in said.items():
        monkeypatch.setitem(SAID, day, text)
    question = "What did we decide in May at the budget meeting with Li about the new stage?"
    assert days_of(question)[0] == "2026-05-12"


def test_without_points_for_a_named_time_it_counts_nothing() -> None:
    begin_ms = NOW_MS - 90 * DAY_MS
    query = RecallQuery(spans=((begin_ms, begin_ms + DAY_MS),))
    assert span_share(begin_ms, query, replace(USUAL, span_points=0.0)) == 0.0

"""A question that names a holiday or a distance in words brings what was said then. It is Friday 27 November 2026."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from random import Random

import pytest
from searched_memories import searched_memories

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.indexed_selection import decide
from memory_server.conversations.recall.parameters import USUAL
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.messages import Message, context_text
from nlp import Enrichment, QueryWeights

ZONE = timezone(timedelta(hours=8))
WORDING = KeywordOptions(
    enrichment=Enrichment(normal_forms=True, scripts=True, dates=True, stems=True, long_texts=True),
    emphasis=QueryWeights(
        earlier=0.7, before_question=0.1, function_words=0.5, relative_days=0.3, pairs=0.3
    ),
    zone=ZONE,
)
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
    searched = [searched_memories(memories, WORDING)]
    decision = decide(
        searched,
        query,
        RecallContext(conversation_id="other", now_ms=NOW_MS, rng=Random(1), parameters=USUAL),
    )
    return [item.memory.id for item in (*decision.recall.top, *decision.recall.next)]


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

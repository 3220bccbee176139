"""What was told for a day is found by that day. It is Wednesday 25 November 2026, nine in the morning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from searched_memories import USUAL_WORDING, decided

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall import words
from memory_server.conversations.recall.parameters import USUAL, RecallParameters
from memory_server.conversations.recall.words import days_asked, telling
from memory_server.kernel.messages import Message, context_text
from memory_server.kernel.times import milliseconds
from nlp import date_words
from nlp.date_words import NamedDays

ZONE = timezone(timedelta(hours=8))
WORDING = replace(USUAL_WORDING, zone=ZONE)
NOW = datetime(2026, 11, 25, 9, 0, tzinfo=ZONE)
OF_A_HOOK = replace(USUAL, question_match=1.1, statement_words=2)
TOLD = {
    "2026-11-24T18:01": "I want to do the lazy loading of the images on Thursday",
    "2026-11-24T18:30": "周四下午三点要去给年糕打疫苗",
    "2026-11-20T18:00": "下周四约了牙医",
    "2026-11-01T12:00": "每周四晚上打羽毛球",
    "2026-11-23T20:00": "周末要去爬香山",
    "2026-11-22T21:00": "On Friday we fly to Rome",
    "2026-11-10T18:00": "周四要交上个季度的报告",
    "2026-09-01T18:00": "On Thursday I will paint the fence",
    "2026-11-18T18:00": "It rained all Thursday, and the cellar was flooded",
}
FILLER = [f"第{number}次聊到公司楼下的面馆和食堂 {number}" for number in range(400)]


def memory(at: str, text: str) -> ShortTermMemory:
    time_ms = int(datetime.fromisoformat(at).replace(tzinfo=ZONE).timestamp() * 1000)
    messages = (Message("user", text), Message("assistant", "嗯。"))
    return WORDING.of_text(
        ShortTermMemory(at, time_ms, context_text(messages), (), (), 0.0, "chat", messages)
    )


def told(
    question: str,
    *,
    parameters: RecallParameters = USUAL,
    now: datetime = NOW,
    further: Sequence[ShortTermMemory] = (),
) -> set[str]:
    """The texts that a question brings."""
    memories = [memory(at, text) for at, text in TOLD.items()] + list(further)
    now_ms = int(now.timestamp() * 1000)
    query = WORDING.of_query([Message("user", question)], now_ms)
    recall = decided(
        memories, query, parameters, wording=WORDING, conversation_id="other", now_ms=now_ms
    ).recall
    return {TOLD.get(item.memory.id, "filler") for item in (*recall.top, *recall.next)}


LAZY, VACCINE, DENTIST, HABIT, HILL, ROME, REPORT, FENCE, RAIN = TOLD.values()


@pytest.mark.parametrize("parameters", [USUAL, OF_A_HOOK], ids=["unasked", "hook"])
@pytest.mark.parametrize(
    ("question", "wanted", "unwanted"),
    [
        ("what is planned for Thursday?", {LAZY, VACCINE, DENTIST, HABIT}, {REPORT, FENCE, RAIN}),
        ("what did I want to do on Thursday?", {LAZY, VACCINE}, {REPORT, FENCE}),
        ("我周四有什么安排？", {LAZY, VACCINE, DENTIST, HABIT}, {REPORT, FENCE, RAIN}),
        ("周四要干嘛？", {VACCINE, DENTIST}, {REPORT, FENCE, RAIN}),
        ("周四要干嘛", {VACCINE, DENTIST}, {REPORT, FENCE, RAIN}),
        ("礼拜四有什么事？", {VACCINE, DENTIST}, {REPORT, FENCE, RAIN}),
        ("明天有什么安排？", {VACCINE, DENTIST}, {REPORT, FENCE, RAIN}),
        ("what do I have tomorrow?", {LAZY, VACCINE}, {REPORT, FENCE, RAIN}),
        ("what's on this weekend?", {HILL}, {LAZY, VACCINE}),
        ("周末有什么安排？", {HILL}, {LAZY, VACCINE}),
        ("What is on November 26?", {LAZY, VACCINE, DENTIST}, {REPORT, FENCE}),
        ("what do I do on Thursdays?", {HABIT}, {VACCINE, FENCE}),
        ("do I have anything on Friday?", {ROME}, {VACCINE, FENCE}),
    ],
)
def test_what_was_told_for_a_day_comes_and_other_such_days_do_not(
    question: str, wanted: set[str], unwanted: set[str], parameters: RecallParameters
) -> None:
    came = told(question, parameters=parameters)
    assert wanted <= came
    assert not unwanted & came


@pytest.mark.parametrize("question", ["周四要干嘛？", "what is planned for Thursday?"])
def test_a_plan_comes_among_many_memories_too(question: str) -> None:
    further = [memory("2026-10-01T12:00", text) for text in FILLER]
    further = [replace(item, id=str(number)) for number, item in enumerate(further)]
    assert VACCINE in told(question, parameters=OF_A_HOOK, further=further)


@pytest.mark.parametrize("at", ["0001-01-01T08:00", "9999-12-31T23:00"])
def test_a_memory_at_an_end_of_the_calendar_ends_no_recall(at: str) -> None:
    assert VACCINE in told("周四要干嘛？", further=[memory(at, "Dentist on Thursday at five")])


def test_only_so_many_characters_are_read_for_days_and_the_newest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert HABIT in told("周四有什么安排？")
    monkeypatch.setattr(words, "_SEARCH_CHARS", 500)
    assert VACCINE in told("周四有什么安排？")
    assert HABIT not in told("周四有什么安排？")


@pytest.mark.parametrize(
    "text", ["终于周四了", "Thank god it is nearly Thursday", "明天天气怎么样？"]
)
def test_a_day_in_a_statement_or_in_a_question_about_something_else_brings_no_plan(
    text: str,
) -> None:
    assert not told(text, parameters=OF_A_HOOK)


@pytest.mark.parametrize("at", ["0001-01-01T01:00", "0001-01-03T12:00", "9999-12-31T01:00"])
@pytest.mark.parametrize("text", ["On Thursday we fly", "上周末 or last weekend", "周四要去"])
def test_a_memory_at_an_end_of_the_calendar_hinders_no_question(at: str, text: str) -> None:
    for zone in (UTC, ZONE):
        time_ms = milliseconds(datetime.fromisoformat(at).replace(tzinfo=UTC))
        asked = days_asked("what is on Thursday or this weekend?", NOW, zone)
        assert asked is not None
        other = memory("2026-11-24T18:30", VACCINE)
        there = replace(other, time_ms=time_ms, messages=(Message("user", text),))
        assert telling([(1, there), (2, other)], asked) == {2}


def test_a_search_looks_at_the_newest_as_far_as_its_characters_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[int] = []

    def counting(text: str, today: date) -> NamedDays:
        looked_at.append(len(text))
        return date_words.told_days(text, today)

    monkeypatch.setattr(words, "told_days", counting)
    long_text = "On Thursday the painter comes to look at the fence. " * 40
    further = [replace(memory("2026-10-01T12:00", long_text), id=str(n)) for n in range(300)]
    assert VACCINE in told("周四要干嘛？", further=further)
    assert sum(looked_at) <= 200_000


def test_a_search_looks_at_two_thousand_short_memories() -> None:
    asked = days_asked("what is on Thursday?", NOW, ZONE)
    assert asked is not None
    plan = memory("2026-11-24T18:30", "On Thursday we fly")
    newest_first = [(number, plan) for number in range(2_001)]
    assert telling(newest_first, asked) == set(range(2_000))


def test_after_midnight_tomorrow_is_the_day_that_comes_after_sleeping_too() -> None:
    now = datetime(2026, 11, 26, 0, 30, tzinfo=ZONE)
    assert VACCINE in told("明天有什么安排？", now=now)


@pytest.mark.parametrize(
    ("question", "hours", "comes"),
    [
        ("what did I say three hours ago?", 3, True),
        ("what did I say three hours ago?", 30, False),
        ("半小时前我说了什么？", 0.5, True),
        ("半小时前我说了什么？", 4, False),
        ("what did I tell you an hour ago?", 1, True),
        ("刚才我说了什么？", 0.6, True),
        ("刚才我说了什么？", 5, False),
        ("今天早上我说了什么？", 2, True),
        ("今天早上我说了什么？", 12, False),
        ("what did I say last night?", 12, True),
    ],
)
def test_what_was_said_hours_ago_comes_by_that(question: str, hours: float, *, comes: bool) -> None:
    said = memory((NOW - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M"), "Grandpa fell asleep")
    assert ("filler" in told(question, further=[said])) == comes


def test_a_word_that_the_question_cuts_otherwise_is_found() -> None:
    birthday = memory("2026-04-10T20:10", "若溪的生日是七月二十三号，狮子座第一天")
    present = memory("2026-07-10T20:50", "若溪最怕打雷，小时候被雷劈中家门口的树吓的")
    now_ms = int(NOW.timestamp() * 1000)
    query = WORDING.of_query([Message("user", "若溪什么时候过生日？")], now_ms)
    decision = decided(
        [present, birthday],
        query,
        USUAL,
        wording=WORDING,
        conversation_id="other",
        now_ms=now_ms,
    )
    assert decision.recall.top[0].memory.id == birthday.id
    assert "生日" in [word.word for word in decision.recall.top[0].receipt.matched]

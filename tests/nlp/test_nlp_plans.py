"""Questions about what is planned, and sentences that name a time before noon."""

from __future__ import annotations

from datetime import date

import pytest

from nlp.plans import AskedPlans, asked_plans, is_before_noon, may_be_plan

TODAY = date(2026, 6, 17)
"""A Wednesday."""
ALL = AskedPlans(TODAY, date.max)
THIS_WEEK = AskedPlans(TODAY, date(2026, 6, 21))
NEXT_WEEK = AskedPlans(date(2026, 6, 22), date(2026, 6, 28))
THIS_MONTH = AskedPlans(TODAY, date(2026, 6, 30))
NEXT_MONTH = AskedPlans(date(2026, 7, 1), date(2026, 7, 31))


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What do I have planned?", ALL),
        ("what's coming up?", ALL),
        ("what’s coming up", ALL),
        ("What are my plans?", ALL),
        ("Hey, do I have anything coming up?", ALL),
        ("What is on my calendar next week?", NEXT_WEEK),
        ("What do I have planned this week?", THIS_WEEK),
        ("What do I have to do this week?", THIS_WEEK),
        ("anything planned for next month?", NEXT_MONTH),
        ("我有什么计划？", ALL),
        ("最近有什么安排吗", ALL),
        ("接下来要做什么？", ALL),
        ("我这周有什么安排", THIS_WEEK),
        ("我這週有什麼安排？", THIS_WEEK),
        ("下周我有什么计划", NEXT_WEEK),
        ("我下周要干嘛", NEXT_WEEK),
        ("这个月有哪些日程", THIS_MONTH),
        ("下个月有安排吗", NEXT_MONTH),
    ],
)
def test_a_question_about_plans_names_their_days(question: str, asked: AskedPlans) -> None:
    assert asked_plans(question, TODAY) == asked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What is my name?",
        "What do I have?",
        "What do I have planned on Thursday?",
        "What have I planned for Tom's birthday?",
        "I have plans this week",
        "What's next?",
        "周四有什么安排",
        "我有什么计划瞒着你",
        "我应该做什么",
        "你有什么事",
        "我上周有什么安排",
        "what did I have planned last week?",
    ],
)
def test_another_text_asks_for_no_plans(text: str) -> None:
    assert asked_plans(text, TODAY) is None


@pytest.mark.parametrize(
    ("sentence", "is_early"),
    [
        ("The dentist is tomorrow at 8 a.m.", True),
        ("The train leaves on Friday at 6:45", True),
        ("Breakfast with Ida on Sunday", True),
        ("明天一早八点体检", True),
        ("周五上午开会", True),
        ("Dinner on Friday at 7:30 pm", False),
        ("On Friday at eight in the evening", False),
        ("The concert on Friday at 19:30", False),
        ("明天下午去补牙", False),
        ("后天交稿", False),
    ],
)
def test_a_time_before_noon(sentence: str, is_early: bool) -> None:
    assert is_before_noon(sentence) == is_early


@pytest.mark.parametrize(
    "sentence",
    [
        "Will it rain on Thursday?",
        "Are you free on Thursday?",
        "I'm not going to the party on Thursday.",
        "I can’t make it on Thursday",
        "The meeting on Thursday is cancelled.",
        "If I win the lottery on Thursday I buy a boat",
        "See you on Thursday!",
        "周四会下雨吗",
        "我周四不用上班",
        "如果周四下雨就不去了",
        "周四的聚会取消了",
        "晚安，周四见！",
    ],
)
def test_what_is_asked_denied_or_only_thought_of_is_not_a_plan(sentence: str) -> None:
    assert not may_be_plan(sentence, names_thursday)


@pytest.mark.parametrize(
    "sentence",
    [
        "Don't forget the dentist on Thursday",
        "I can't wait for the concert on Thursday!",
        "can't sleep, the final is on Thursday",
        "别忘了周四交报告",
        "周四一早体检，不能喝水",
    ],
)
def test_a_plan_stays_one_beside_a_denial_of_something_else(sentence: str) -> None:
    assert may_be_plan(sentence, names_thursday)


def names_thursday(clause: str) -> bool:
    return "Thursday" in clause or "周四" in clause

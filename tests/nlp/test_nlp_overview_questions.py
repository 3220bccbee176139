"""Questions about everything, about a time and about one's own name, and the texts that answer them, by tables."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp.questions import Overview, answers_overview, overview_of
from nlp.time_spans import time_spans, without_times

TODAY = date(2026, 3, 18)  # a Wednesday

EVERYTHING = [
    "what do you know about me?",
    "Hey, what do you know about me?",
    "What do you remember?",
    "who am I?",
    "Can you tell me what you know about me?",
    "Tell me everything you know about me.",
    "Do you remember me?",
    "what have I told you so far?",
    "你都记得我什么",
    "小满，你都记得我什么呀？",
    "你了解我多少",
    "你对我了解多少",
    "关于我你知道什么",
    "你还记得我吗",
    "我是谁",
    "总结一下你对我的了解",
    "我都跟你说过什么",
    "你还记得关于我的什么",
    "说说你知道的我",
    "你都知道我哪些事情",
]
OF_A_TIME = [
    "what did I say last week?",
    "What did we talk about yesterday?",
    "What happened yesterday?",
    "What did I do today?",
    "What did I tell you last month?",
    "what have I been up to lately?",
    "Remind me what I said on March 3rd",
    "Do you remember what I told you last Friday?",
    "我上周说了什么",
    "昨天说了什么",
    "昨天我们聊了什么",
    "上周我跟你说了什么事",
    "今天我说了什么",
    "你还记得我上周说了什么吗",
    "上个月我都做了哪些事",
    "最近我们聊了些什么",
    "上周我都干嘛了",
    "昨天晚上我说了什么",
    "前天发生了什么",
    "3月5日我们说了什么？",
]
OF_THE_NAME = [
    "what is my name?",
    "What's my name?",
    "do you remember my name?",
    "What do you call me?",
    "我叫什么名字",
    "我叫什么？",
    "你知道我的名字吗",
    "我的名字是什么",
    "你还记得我叫什么吗",
]
OTHERS = [
    "你记得我什么时候去的北京吗",
    "今天股市怎么样",
    "What time is it now?",
    "How are you today?",
    "今天过得怎么样",
    "你在干嘛呢",
    "What are you doing now?",
    "你昨天做了什么",
    "What did you do yesterday?",
    "What should I do this weekend?",
    "明天做什么",
    "7月份我买了什么",
    "what is my cat's name?",
    "我的猫叫什么名字",
    "今天干嘛呢",
    "刚才说到哪儿了",
    "What do you know about Rust?",
    "what did I say last week about the garden?",
    "Do you know the way?",
    "你知道什么是递归吗",
    "最近忙什么",
    "今天吃什么",
    "How was your day yesterday?",
    "帮我写个快排",
    "晚安",
    "你是谁",
    "Yesterday I told her everything.",
    "昨天的比赛你看了吗",
    "我是谁的粉丝你猜",
    "你知道我喜欢什么吗",
    "who am I meeting tomorrow?",
    "Tell me about Rust.",
    "What do you know!",
    "你知道什么",
    "",
]


def overview(text: str) -> Overview | None:
    return overview_of(text, time_spans(text, TODAY), TODAY)


@pytest.mark.parametrize("text", EVERYTHING)
def test_a_question_about_everything_is_known(text: str) -> None:
    assert overview(text) == "everything"


@pytest.mark.parametrize("text", OF_A_TIME)
def test_a_question_about_a_time_is_known(text: str) -> None:
    assert overview(text) == "time"


@pytest.mark.parametrize("text", OF_THE_NAME)
def test_a_question_about_ones_own_name_is_known(text: str) -> None:
    assert overview(text) == "name"


@pytest.mark.parametrize("text", OTHERS)
def test_what_asks_for_something_else_is_searched_by_its_words(text: str) -> None:
    assert overview(text) is None


@pytest.mark.parametrize(
    ("text", "kind", "belongs"),
    [
        ("My cat is called Miso.", "name", False),
        ("My name is Nora and I work in Leeds.", "name", True),
        ("I'm Nora, by the way.", "name", True),
        ("I'm tired.", "name", False),
        ("What is my name?", "name", False),
        ("我叫阿遥，在杭州做插画师。", "name", True),
        ("大家都叫我小满", "name", True),
        ("我叫他别来", "name", False),
        ("我家猫叫煤球。", "name", False),
        ("他叫我去开会", "name", False),
        ("我家猫叫煤球。", "everything", True),
        ("I moved to Leeds.", "everything", True),
        ("帮我写个快排", "everything", False),
        ("Is my code right?", "everything", False),
        ("Oh my god!", "everything", False),
        ("我把卧室刷成了灰蓝色", "everything", True),
        ("我好困", "everything", False),
        ("我先去洗澡了", "everything", False),
        ("I guess you're right.", "everything", False),
        ("哈哈", "time", True),
    ],
)
def test_what_belongs_into_an_overview(text: str, kind: Overview, belongs: bool) -> None:
    assert answers_overview(text, kind) is belongs


def test_a_day_that_is_named_by_its_distance_is_not_also_a_day_of_last_year() -> None:
    assert [str(span.first) for span in time_spans("昨天", TODAY)] == ["2026-03-17"]
    assert time_spans("明天", TODAY) == []
    assert [str(span.first) for span in time_spans("3月17日", TODAY)] == [
        "2026-03-17",
        "2025-03-17",
    ]


@pytest.mark.parametrize(
    ("text", "near"),
    [("昨天", True), ("最近", True), ("today", True), ("this week", True), ("上周", False), ("last Friday", False),
     ("3月5日", False), ("三天前", False), ("上个月", False), ("last week", False), ("今天和3月18日", False)],
)  # fmt: skip
def test_which_stretches_are_named_by_words_that_stand_in_any_sentence(
    text: str, near: bool
) -> None:
    assert all(span.near is near for span in time_spans(text, TODAY)[:1])


@given(st.text(max_size=80))
def test_any_text_has_an_overview_or_none_and_loses_only_its_times(text: str) -> None:
    assert overview(text) in ("everything", "time", "name", None)
    assert set(without_times(text, TODAY)) <= {*text, " "}

"""Which days a text tells of or asks about. Said on Wednesday 25 November 2026, unless a case says otherwise."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp.date_words import NamedDays, asked_days, date_spans, told_days, words_of_days

TODAY = date(2026, 11, 25)


def days(*numbers: int) -> set[date]:
    """Days of November 2026; beyond 30, of December."""
    return {date(2026, 10, 31) + timedelta(days=number) for number in numbers}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("11月19-21号去北京", "11月19日"),
        ("11月19日到21日去北京", "11月19日"),
        ("in Berlin 19-21 November", "11月21日"),
        ("November 19 to 21", "11月19日"),
        ("11月29号到12月1号放假", "11月29日"),
    ],
)
def test_a_text_tells_of_each_day_of_a_stretch(text: str, word: str) -> None:
    first = 29 if "29" in text else 19
    assert told_days(text, TODAY).days == days(first, first + 1, first + 2)
    assert word in [span.word for span in date_spans(text, TODAY)]


def test_a_stretch_with_a_day_that_does_not_exist_is_none() -> None:
    assert told_days("11月28-31号去北京", TODAY).days == days(28)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("周四下午三点要去给年糕打疫苗", days(26)),
        ("礼拜四要交报告", days(26)),
        ("星期四打算去爬山", days(26)),
        ("下周四去出差", days(33)),
        ("周四开会被骂了", days(19)),
        ("周四见", days(19, 26)),
        ("I want to do the lazy loading on Thursday", days(26)),
        ("we'll meet on Thu", days(26)),
        ("On Thursday we scattered the ashes", days(19)),
        ("dentist this Thursday", days(19, 26)),
        ("next Friday is the party", days(27, 34)),
        ("see you tomorrow", days(26)),
        ("周末要去爬香山", days(28, 29)),
        ("Painting the fence this weekend", days(28, 29)),
        ("上周末去崇礼滑雪", days(21, 22)),
        ("Black Friday", set()),
        ("改天请你吃饭", set()),
        ("not in a month of Sundays", set()),
        ("周四综合症", set()),
        (f"on Thursday we will {'walk and ' * 40}", days(26)),
        (f"we will {'walk and ' * 40} on Thursday", days(19, 26)),
    ],
)
def test_a_text_tells_of_the_days_that_it_names(text: str, told: set[date]) -> None:
    named = told_days(text, TODAY)
    assert (named.days, named.weekly) == (told, frozenset())


@pytest.mark.parametrize(
    ("text", "weekdays"),
    [
        ("每周四打羽毛球", {3}),
        ("每周二四打羽毛球", {1, 3}),
        ("Every Friday I bring doughnuts", {4}),
        ("Most Sundays I ring my brother", {6}),
        ("on Thursdays I swim", {3}),
        ("星期天一般都回外婆家", {6}),
        ("每周末回家", {5, 6}),
    ],
)
def test_what_is_so_each_week_is_of_every_such_day(text: str, weekdays: set[int]) -> None:
    named = told_days(text, TODAY)
    assert (named.days, named.weekly) == (frozenset(), weekdays)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("what is planned for Thursday?", days(26)),
        ("what did I want to do on Thursday?", days(19, 26)),
        ("我周四有什么安排？", days(26)),
        ("周四要干嘛？", days(26)),
        ("周四我干了什么？", days(19)),
        ("What did we do on Thursday?", days(19)),
        ("what's on this weekend?", days(28, 29)),
        ("what do I have tomorrow?", days(26)),
        ("明天天气怎么样", set()),
        ("what is planned for the day after tomorrow?", days(27)),
        ("下周有什么安排", days(*range(30, 37))),
        ("what is planned for this week?", days(*range(25, 30))),
        ("What happened on Black Friday?", set()),
    ],
)
def test_a_question_asks_of_the_days_that_it_names(question: str, asked: set[date]) -> None:
    assert asked_days(question, TODAY).days == asked


@pytest.mark.parametrize("number", range(7))
def test_what_many_memories_say_is_not_a_word_of_a_day(number: int) -> None:
    assert "每个" not in words_of_days(NamedDays(weekly=frozenset({number})))


@pytest.mark.parametrize(
    ("text", "today", "told"),
    [
        ("see you on 2 January", date(2026, 12, 30), date(2027, 1, 2)),
        ("1月2日见", date(2026, 12, 30), date(2027, 1, 2)),
        ("it was on 30 December", date(2027, 1, 2), date(2026, 12, 30)),
        ("12月30日那天", date(2027, 1, 2), date(2026, 12, 30)),
        ("on 20 June", date(2026, 11, 25), date(2026, 6, 20)),
        ("on 29 February", date(2027, 11, 25), date(2028, 2, 29)),
    ],
)
def test_a_day_of_a_month_is_the_nearest_one(text: str, today: date, told: date) -> None:
    assert told_days(text, today).days == {told}


@given(
    st.sampled_from(
        [
            *("last weekend", "this weekend", "上上周末", "下下周末", "next Friday", "last Monday"),
            *(
                "every Monday",
                "tomorrow",
                "昨天",
                "前天",
                "the day after tomorrow",
                "下周四",
                "2月29日",
            ),
            *(
                "what is planned for next week?",
                "这周有什么安排？",
                "下周末有什么安排？",
                "on Thursday",
            ),
        ]
    ),
    st.sampled_from([date.min, date.max]),
    st.integers(0, 20),
)
def test_a_day_is_named_at_both_ends_of_the_calendar_too(text: str, end: date, apart: int) -> None:
    today = end + timedelta(days=apart if end == date.min else -apart)
    told_days(text, today)
    asked_days(text, today)


@given(
    st.sampled_from(
        [
            "周四要开会",
            "礼拜天见",
            "the weekend",
            "last weekend",
            "next Friday",
            "last Monday",
            "每周三",
        ]
    ),
    st.sampled_from([date.min, date.max, date(2028, 2, 29), TODAY]),
)
def test_a_memory_that_tells_of_a_day_holds_a_word_of_it(text: str, today: date) -> None:
    named = told_days(text, today)
    assert not named or words_of_days(named)

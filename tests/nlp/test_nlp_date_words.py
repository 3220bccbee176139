"""Days as words: a table of what people type, on Thursday 20 July 2023."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp.date_words import date_spans, day_word

THURSDAY = date(2023, 7, 20)


def days_in(text: str, today: date = THURSDAY) -> list[str]:
    return [span.word for span in date_spans(text, today)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # the same day, however it is written
        *(
            (text, ["5月2日"])
            for text in (
                "5月2日",
                "5月2号",
                "5月2號",
                "05月02日",
                "5 月 2 日",
                "五月二日",
                "五月二号",
            )
        ),
        *(
            (text, ["5月2日"])
            for text in (
                "2023-05-02",
                "2023/5/2",
                "2023.5.2",
                "2023年5月2日",
                "2021年5月2号",
                "5/2",
            )
        ),
        *(
            (text, ["5月2日"])
            for text in ("May 2", "May 2nd", "May 2, 2023", "2 May", "2nd May", "the 2nd of May")
        ),
        ("十二月二十五号", ["12月25日"]),
        ("十月十日", ["10月10日"]),
        ("三月廿三日", ["3月23日"]),
        ("december 3rd, Dec. 4", ["12月3日", "12月4日"]),
        ("我的生日是7月17日。", ["7月17日"]),
        ("7月17我生日", ["7月17日"]),
        ("3月3日到4月4日", ["3月3日", "4月4日"]),
        ("On 7/17.", ["7月17日"]),
        # counted from the day it was written
        ("今天", ["7月20日"]),
        ("昨天和前天", ["7月19日", "7月18日"]),
        ("大前天", ["7月17日"]),
        ("昨晚、昨夜、今早、明晚", ["7月19日", "7月19日", "7月20日", "7月21日"]),
        ("明天，后天，後天，大后天", ["7月21日", "7月22日", "7月22日", "7月23日"]),
        ("上周四", ["7月13日"]),
        ("上個禮拜天", ["7月16日"]),
        ("上上周二", ["7月4日"]),
        ("这周一，本周日", ["7月17日", "7月23日"]),
        ("下星期三", ["7月26日"]),
        ("3天前，三天之前，十二天以前", ["7月17日", "7月17日", "7月8日"]),
        ("两天后", ["7月22日"]),
        ("yesterday, today, tonight and tomorrow", ["7月19日", "7月20日", "7月20日", "7月21日"]),
        ("Last night", ["7月19日"]),
        ("the day before yesterday", ["7月18日"]),
        ("last Tuesday, last Thursday, last Friday", ["7月18日", "7月13日", "7月14日"]),
        ("next Thursday, next Friday", ["7月27日", "7月21日"]),
        ("3 days ago", ["7月17日"]),
        # no days
        *(
            (text, [])
            for text in (
                "",
                "5月",
                "2号",
                "周四",
                "Tuesday",
                "May",
                "you may 2",
                "正月初一",
                "今年",
                "前面",
            )
        ),
        *(
            (text, [])
            for text in (
                "5月2个人",
                "5月20多次",
                "13月1日",
                "2月30日",
                "0月1日",
                "2023-13-45",
                "十十月一日",
            )
        ),
        *(
            (text, [])
            for text in (
                "1/2",
                "3/4杯",
                "17/7",
                "24/7",
                "3/4/5",
                "10.5/6",
                "1/25.5",
                "192.168.1/24",
                "v2023-07-17",
            )
        ),
        *(
            (text, [])
            for text in (
                "2023-07-17x",
                "todays",
                "yesterdaymorning",
                "12-5",
                "二十一五月三日",
                "零天前",
            )
        ),
    ],
)
def test_a_day_is_one_word(text: str, words: list[str]) -> None:
    assert days_in(text) == words


@pytest.mark.parametrize(
    ("text", "today", "words"),
    [
        ("昨天", date(2024, 1, 1), ["12月31日"]),
        ("明天", date(2024, 2, 28), ["2月29日"]),
        ("明天", date(2023, 2, 28), ["3月1日"]),
        ("上周日", date(2023, 7, 16), ["7月9日"]),  # on a Sunday: the week begins with Monday
        ("昨天", date.min, []),
        ("999天后", date.max, []),
    ],
)
def test_relative_days_cross_months_and_years(text: str, today: date, words: list[str]) -> None:
    assert days_in(text, today) == words


@given(st.dates(), st.dates())
def test_every_form_of_a_day_is_its_word(day: date, today: date) -> None:
    forms = (
        day_word(day), f"{day.month}月{day.day}号", f"{day.year:04}-{day.month:02}-{day.day:02}", f"{day:%B} {day.day}",
    )  # fmt: skip
    for form in forms:
        assert days_in(f"（{form}）", today) == [day_word(day)], form


@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)), st.integers(1, 99))
def test_days_ago_and_days_later_are_those_of_the_calendar(today: date, days: int) -> None:
    assert (
        days_in(f"{days}天前", today)
        == [day_word(today - timedelta(days))]
        == days_in(f"{days} days ago", today)
    )
    assert days_in(f"{days}天后", today) == [day_word(today + timedelta(days))]


ALPHABET = "一二两十廿0123456789/-.年月日号周上下个前后天今昨明星期拜大 lastJulyMondyg"


@given(st.text(ALPHABET, max_size=40), st.dates())
def test_spans_are_in_order_and_none_lies_over_another(text: str, today: date) -> None:
    end = 0
    for span in date_spans(text, today):
        assert end <= span.start < span.end <= len(text)
        end = span.end

"""Holidays and distances in words as stretches of time, on Friday 27 November 2026; and the Chinese calendar."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp.holidays import HOLIDAYS, Holiday, LunarDate, day_of, holidays_in, lunar_date_of, months_of
from nlp.time_spans import time_spans, without_times

TODAY = date(2026, 11, 27)


def spans(text: str, today: date = TODAY) -> list[str]:
    return [f"{span.first} {span.last}" for span in time_spans(text, today)]


NEW_YEARS = {
    1900: "01-31", 1949: "01-29", 1985: "02-20", 1999: "02-16", 2000: "02-05", 2012: "01-23", 2020: "01-25",
    2023: "01-22", 2024: "02-10", 2025: "01-29", 2026: "02-17", 2027: "02-06", 2033: "01-31", 2050: "01-23",
}  # fmt: skip
LEAP_MONTHS = {1987: 6, 1995: 8, 2001: 4, 2004: 2, 2006: 7, 2009: 5, 2012: 4, 2014: 9, 2017: 6, 2020: 4, 2023: 2,
               2025: 6, 2028: 5, 2031: 3, 2033: 11, 2036: 6}  # fmt: skip


@pytest.mark.parametrize(("year", "day"), NEW_YEARS.items())
def test_the_chinese_year_begins_when_it_began(year: int, day: str) -> None:
    assert day_of(LunarDate(year, 1, 1)) == date.fromisoformat(f"{year}-{day}")


def test_the_leap_months_from_1985_to_2037_are_those_of_the_calendar() -> None:
    leap_months = {
        year: month.number
        for year in range(1985, 2038)
        for month in months_of(year)
        if month.is_leap
    }
    assert leap_months == LEAP_MONTHS | {1990: 5, 1993: 3, 1998: 5}


@given(st.dates(date(1900, 1, 31), date(2101, 1, 28)))
def test_a_day_of_the_chinese_calendar_comes_back(day: date) -> None:
    lunar = lunar_date_of(day)
    assert lunar is not None
    assert day_of(lunar) == day
    assert 1 <= lunar.day <= 30


def easter_of_oudin(year: int) -> date:
    """Easter by another formula than the program's: that of Oudin (1940), from the Explanatory Supplement to the
    Astronomical Almanac (1992), page 582."""
    century = year // 100
    golden = year % 19
    moon = (century - century // 4 - (century - (century - 17) // 25) // 3 + 19 * golden + 15) % 30
    moon -= (moon // 28) * (1 - (moon // 28) * (29 // (moon + 1)) * ((21 - golden) // 11))
    weekday = (year + year // 4 + moon + 2 - century + century // 4) % 7
    return date(year, 3, 1) + timedelta(days=moon - weekday + 27)


def test_easter_is_when_another_formula_says() -> None:
    for year in range(1583, 4100):
        easter = easter_of_oudin(year)
        assert spans(f"Easter {year}", date(year, 12, 31))[-1:] == [
            f"{easter - timedelta(days=2)} {easter + timedelta(days=1)}"
        ]


@pytest.mark.parametrize(
    ("names", "days"),
    [
        (
            "Mid-Autumn, mid autumn festival, 中秋, 中秋节, 中秋節",
            ["2026-09-24 2026-09-26", "2025-10-05 2025-10-07"],
        ),
        (
            "Spring Festival, Chinese New Year, 春节, 过年",
            ["2026-02-15 2026-02-24", "2025-01-27 2025-02-05"],
        ),
        ("除夕, 大年三十, 年三十", ["2026-02-15 2026-02-17", "2025-01-27 2025-01-29"]),
        ("Lantern Festival, 元宵, 元宵节", ["2026-03-02 2026-03-04", "2025-02-11 2025-02-13"]),
        ("Qingming, 清明, 清明节", ["2026-04-04 2026-04-07", "2025-04-03 2025-04-06"]),
        ("Dragon Boat Festival, 端午, 端午节", ["2026-06-18 2026-06-20", "2025-05-30 2025-06-01"]),
        ("Qixi, 七夕, 七夕节", ["2026-08-18 2026-08-20", "2025-08-28 2025-08-30"]),
        ("Double Ninth, 重阳, 重阳节", ["2026-10-17 2026-10-19", "2025-10-28 2025-10-30"]),
        (
            "National Day, 国庆, 國慶節, 十一长假",
            ["2026-09-30 2026-10-07", "2025-09-30 2025-10-07"],
        ),
        ("劳动节, 五一, 五一假期", ["2026-04-30 2026-05-05", "2025-04-30 2025-05-05"]),
        ("Children's Day, 儿童节, 六一", ["2026-05-31 2026-06-02", "2025-05-31 2025-06-02"]),
        ("Teachers' Day, 教师节", ["2026-09-09 2026-09-11", "2025-09-09 2025-09-11"]),
        ("Singles' Day, 双十一, 双11, 光棍节", ["2026-11-10 2026-11-12", "2025-11-10 2025-11-12"]),
        ("New Year's Day, New Year, 元旦", ["2025-12-31 2026-01-02", "2024-12-31 2025-01-02"]),
        ("Christmas, xmas, 圣诞, 圣诞节", ["2025-12-24 2025-12-27"]),
        ("Christmas Eve, 平安夜", ["2025-12-23 2025-12-25"]),
        ("Valentine's, valentines day, 情人节", ["2026-02-13 2026-02-15", "2025-02-13 2025-02-15"]),
        ("Halloween, 万圣节", ["2026-10-30 2026-11-01", "2025-10-30 2025-11-01"]),
        ("Thanksgiving, 感恩节", ["2026-11-25 2026-11-29", "2025-11-26 2025-11-30"]),
        ("Easter, 复活节", ["2026-04-03 2026-04-06", "2025-04-18 2025-04-21"]),
        ("Mother's Day, 母亲节", ["2026-05-09 2026-05-11", "2025-05-10 2025-05-12"]),
        ("冬至, winter solstice", ["2025-12-20 2025-12-22"]),
        ("腊八, 腊八节", ["2026-01-25 2026-01-27", "2025-01-06 2025-01-08"]),
    ],
)
def test_a_holiday_is_this_year_s_and_last_year_s(names: str, days: list[str]) -> None:
    for name in names.split(", "):
        assert spans(f"What was it like, {name}?") == days, name
        assert spans(f"还记得{name}吗") == days, name


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("去年中秋", ["2025-10-05 2025-10-07"]),
        ("今年春节吃了什么", ["2026-02-15 2026-02-24"]),
        ("2024年的中秋节那天", ["2024-09-16 2024-09-18"]),
        ("Christmas 2023", ["2023-12-24 2023-12-27"]),
        ("Christmas last year", ["2025-12-24 2025-12-27"]),
        ("last year's Mid-Autumn", ["2025-10-05 2025-10-07"]),
        ("next Christmas", []),
        ("明年春节", []),
        # no holidays
        *(
            (text, [])
            for text in (
                "李国庆来了",
                "二十五一",
                "吃元宵",
                "new years old",
                "the year was new",
                "十一点",
            )
        ),
        *(
            (text, [])
            for text in (
                "清明上河图",
                "Easter Island",
                "跨年度预算",
                "圣诞老人",
                "five christmases",
            )
        ),
    ],
)
def test_the_year_of_a_holiday_and_what_is_none(text: str, days: list[str]) -> None:
    assert spans(text) == days


@pytest.mark.parametrize(
    ("texts", "day"),
    [
        (
            "two days ago; 两天前; the day before yesterday; 前天; the night before last; 前晚",
            "2026-11-25 2026-11-25",
        ),
        ("one day ago; 1 day ago; a day ago; yesterday; 昨天", "2026-11-26 2026-11-26"),
        ("three days ago; 三天前; 大前天; 3 days ago", "2026-11-24 2026-11-24"),
        ("twelve days ago; 十二天前", "2026-11-15 2026-11-15"),
        (
            "two weeks ago; 两周前; 两个星期前; a fortnight ago; 半个月前; the week before last",
            "2026-11-09 2026-11-15",
        ),
        ("three weeks ago; 三周前; 三个礼拜前; three weeks back", "2026-11-02 2026-11-08"),
        ("last weekend; the past weekend; 上周末; 上个周末", "2026-11-21 2026-11-22"),
        ("the weekend before last; 上上周末; two weekends ago", "2026-11-14 2026-11-15"),
        ("a couple of weeks ago", "2026-11-02 2026-11-22"),
        ("a couple of days ago", "2026-11-24 2026-11-26"),
        ("a few days ago; 几天前; 幾天前", "2026-11-21 2026-11-25"),
        ("a few months ago; 几个月前", "2026-05-21 2026-10-08"),
        ("两三天前", "2026-11-24 2026-11-25"),
        ("the month before last; 上上个月", "2026-09-01 2026-09-30"),
        ("half a year ago; 半年前", "2026-04-28 2026-06-28"),
        ("a year ago; 一年前", "2025-10-13 2026-01-11"),
        ("two years ago; 两年前; 2年前", "2024-05-28 2025-05-29"),
        ("三十年前; 30年前", "1996-05-27 1997-05-28"),
        ("二十周前; 20周前", "2026-07-06 2026-07-12"),
        ("三五年前", "2021-05-28 2024-05-28"),
        ("the year before last; 前年", "2024-01-01 2024-12-31"),
        ("前两天", "2026-11-24 2026-11-26"),
        ("the other day; 前阵子; 前些天; 前段时间", "2026-11-13 2026-11-26"),
    ],
)
def test_a_distance_in_words(texts: str, day: str) -> None:
    for text in texts.split("; "):
        assert spans(f"what happened {text}?") == [day], text
        if not text.isascii():
            assert spans(f"我们{text}去过那里") == [day], text


@pytest.mark.parametrize(
    "text",
    [
        *("纪念日前夜", "I have two days", "three weeks", "2020年前", "a couple of apples", "两天"),
        *("我过几天前往北京", "这几年前端怎么样了", "过几天前面的店开门"),
    ],
)
def test_words_that_are_no_distance(text: str) -> None:
    assert spans(text) == []


@pytest.mark.parametrize("today", ["2026-11-22", "2026-11-23", "2026-11-28"])
def test_the_last_weekend_is_that_of_the_week_before(today: str) -> None:
    ((first, last),) = [span.split() for span in spans("last weekend", date.fromisoformat(today))]
    assert date.fromisoformat(first).weekday() == 5
    assert date.fromisoformat(last) < date.fromisoformat(today)
    assert date.fromisoformat(today) - date.fromisoformat(last) <= timedelta(days=7)


@given(st.dates(date(1901, 1, 1), date(2099, 12, 31)), st.sampled_from(HOLIDAYS))
def test_a_holiday_comes_about_once_a_year(today: date, holiday: Holiday) -> None:
    days: list[date] = []
    for year in (today.year - 1, today.year, today.year + 1):
        days += holiday.days_in(year)
    assert 2 <= len(days) <= 4
    for earlier, later in pairwise(days):
        assert 340 <= (later - earlier).days <= 390


@given(st.dates(date(1, 1, 1), date(9999, 12, 31)))
def test_no_day_is_too_early_or_too_late_for_a_holiday(today: date) -> None:
    for span in time_spans(
        "春节 Easter 冬至 two years ago 半年前 a few months ago last weekend", today
    ):
        assert span.first <= min(today, span.last)


def test_every_name_has_a_hint() -> None:
    for name in (
        "Mid-Autumn",
        "Boxing Day",
        "fourth of July",
        "White Day",
        "St. Patrick's Day",
        "April Fools",
        "Black Friday",
        "Ghost Festival",
        "Double Twelve",
        "妇女节",
        "白色情人节",
        "愚人节",
        "中元节",
        "黑色星期五",
        "双12",
        "拜年",
    ):
        assert [holiday.end for holiday in holidays_in(f"{name} ")], name


def test_a_clause_without_its_times_asks_the_same_of_each() -> None:
    for text in (
        "what did we do at Mid-Autumn",
        "what did we do at two days ago",
        "what did we do at last weekend",
    ):
        assert without_times(text, TODAY).split() == ["what", "did", "we", "do", "at"]
    assert without_times("去年中秋那天我们做了什么", TODAY).strip() == "我们做了什么"
    assert [holiday.year_from_now for holiday in holidays_in("去年中秋")] == [-1]

"""Days as words: a table of what people type, on Thursday 20 July 2023."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from case_tables import read_table
from hypothesis import given
from hypothesis import strategies as st

from nlp.date_words import date_spans, day_word

THURSDAY = date(2023, 7, 20)


def days_in(text: str, today: date = THURSDAY) -> list[str]:
    return [span.word for span in date_spans(text, today)]


DAYS = read_table(Path(__file__).with_name("days_in_texts.csv"))


@pytest.mark.parametrize(("text", "words"), [(row["text"], row["days"].split()) for row in DAYS])
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

"""Stretches of less than a day that a text names, at three in the afternoon of Wednesday 25 November 2026."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp.time_spans import moments_in, without_moments

NOW = datetime(2026, 11, 25, 15, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("半小时前我说了什么", "25 14:15", "25 14:42"),
        ("half an hour ago", "25 14:15", "25 14:42"),
        ("30分钟前", "25 14:15", "25 14:42"),
        ("what did I say three hours ago?", "25 10:30", "25 13:12"),
        ("三个小时之前", "25 10:30", "25 13:12"),
        ("about an hour ago", "25 13:30", "25 14:24"),
        ("两个半小时前", "25 11:15", "25 13:30"),
        ("an hour and a half ago", "25 12:45", "25 14:06"),
        ("一刻钟前", "25 14:35", "25 14:55"),
        ("a few hours ago", "25 06:00", "25 13:48"),
        ("几分钟前", "25 14:44", "25 15:00"),
        ("刚才", "25 14:00", "25 15:00"),
        ("just now", "25 14:00", "25 15:00"),
        ("今天早上", "25 05:00", "25 12:00"),
        ("this morning", "25 05:00", "25 12:00"),
        ("今天下午", "25 12:00", "25 15:00"),
        ("昨晚", "24 17:00", "25 05:00"),
        ("last night", "24 17:00", "25 05:00"),
        ("yesterday afternoon", "24 12:00", "24 18:00"),
        ("前天晚上", "23 17:00", "24 05:00"),
        ("昨天早上", "24 05:00", "24 12:00"),
        ("昨天上午", "24 06:00", "24 12:00"),
        ("昨天中午", "24 11:00", "24 14:00"),
        ("昨天下午", "24 12:00", "24 18:00"),
        ("昨天傍晚", "24 16:00", "24 20:00"),
        ("昨天凌晨", "24 00:00", "24 06:00"),
        ("昨天半夜", "24 22:00", "25 06:00"),
    ],
)
def test_a_text_names_a_stretch_of_less_than_a_day(text: str, begin: str, end: str) -> None:
    [moment] = moments_in(text, NOW)
    assert (f"{moment.begin:%d %H:%M}", f"{moment.end:%d %H:%M}") == (begin, end)


@pytest.mark.parametrize(
    "text", ["tonight", "今晚吃什么", "this evening", "前晚", "三天前", "an hour", "晚上好"]
)
def test_what_is_to_come_or_is_no_such_stretch_names_none(text: str) -> None:
    assert moments_in(text, NOW) == []


@given(
    st.lists(
        st.sampled_from(["刚才", "半小时前", "two hours ago", " ", "好", "1分钟前", "last night"])
    )
)
def test_no_stretch_begins_after_it_ends_and_its_words_can_be_taken_out(parts: list[str]) -> None:
    text = "".join(parts)
    moments = moments_in(text, NOW)
    assert all(moment.begin <= moment.end <= NOW for moment in moments)
    assert moments_in(without_moments(text, moments), NOW) == [] or moments

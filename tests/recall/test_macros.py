"""Macros of lorebooks: what is filled, what is left to chance, and what stays as it is."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.lore.macros import (
    MacroContext,
    filled,
    formatted,
    unfilled,
    unfilled_keys,
)

FRIDAY = datetime(2026, 6, 5, 9, 3, 7, tzinfo=UTC)
CONTEXT = MacroContext(FRIDAY, {"user": "Ann", "char": "Mika"}, "message", "chat")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no macro { } }} {{", "no macro { } }} {{"),
        ("{{user}} and {{char}}", "Ann and Mika"),
        ("{{User}} and {{ CHAR }}", "Ann and Mika"),
        ("{{user}}'s {{unknown}} {{getvar::x}}", "Ann's {{unknown}} {{getvar::x}}"),
        ("{{user::x}}", "{{user::x}}"),
        ("<user>, <Char>, <BOT>, <group>", "Ann, Mika, Mika, <group>"),
        ("{{random::<user>::<user>}}{{space::2}}|", "Ann  |"),
        ("{{// a {note} }}x", "x"),
        ("a{{newline}}b", "a\nb"),
        ("a{{newline::3}}b", "a\n\n\nb"),
        ("a{{noop}}b", "ab"),
        ("a{{// a note }}b{{//note}}c{{comment::x}}d", "abcd"),
        ("a\n\n{{trim}}\n\nb", "ab"),
        ("a {{trim}} b", "a  b"),
        ("{{time}}", "9:03 AM"),
        ("{{date}}", "June 5, 2026"),
        ("{{weekday}}", "Friday"),
        ("{{isotime}} {{isodate}}", "09:03 2026-06-05"),
        ("现在{{time}}，{{date}}，{{weekday}}", "现在09:03，2026年6月5日，星期五"),
        ("{{time_UTC+2}} {{time_UTC-9}} {{time_utc}}", "11:03 AM 12:03 AM 9:03 AM"),
        ("{{time_UTC+15}}", "{{time_UTC+15}}"),
        ("{{datetimeformat DD.MM.YYYY HH:mm}}", "05.06.2026 09:03"),
        ("{{datetimeformat::dddd, MMM Do}}", "Friday, Jun 5th"),
        ("{{random::only}}", "only"),
        ("{{random:only}}", "only"),
        ("{{pick: only }}", "only"),
        ("{{random}}{{random::}}{{random: }}", "{{random}}{{random::}}{{random: }}"),
        ("{{random::{{user}}::{{user}}}}", "Ann"),
        ("{{roll:1}} {{roll:1d1}} {{roll 3d1+4}} {{roll:d1-1}}", "1 1 7 0"),
        (
            "{{roll:0d6}} {{roll:d0}} {{roll:x}} {{roll:101d6}}",
            "{{roll:0d6}} {{roll:d0}} {{roll:x}} {{roll:101d6}}",
        ),
    ],
)
def test_what_is_known_is_filled_and_the_rest_stays(text: str, expected: str) -> None:
    assert filled(text, CONTEXT) == expected


def test_a_name_that_nobody_said_stays_a_macro() -> None:
    assert filled("{{user}} {{char}}", replace(CONTEXT, names={"char": ""})) == "{{user}} {{char}}"


def test_times_are_those_of_the_zone() -> None:
    there = replace(CONTEXT, now=FRIDAY.astimezone(ZoneInfo("Asia/Tokyo")))
    assert filled("{{time}} {{time_UTC+2}}", there) == "6:03 PM 11:03 AM"


@pytest.mark.parametrize(
    ("pattern", "english", "chinese"),
    [
        ("YYYY YY", "2026 26", "2026 26"),
        ("MMMM MMM MM M", "June Jun 06 6", "6月 6月 06 6"),
        ("DD Do D", "05 5th 5", "05 5日 5"),
        ("dddd ddd", "Friday Fri", "星期五 星期五"),
        ("HH H hh h mm ss A a", "09 9 09 9 03 07 AM am", "09 9 09 9 03 07 AM am"),
        ("[at] HH [o'clock]", "at 09 o'clock", "at 09 o'clock"),
    ],
)
def test_dates_are_formatted_as_moment_js_does(pattern: str, english: str, chinese: str) -> None:
    assert formatted(FRIDAY, pattern, is_chinese=False) == english
    assert formatted(FRIDAY, pattern, is_chinese=True) == chinese


@pytest.mark.parametrize(
    ("hour", "shown"),
    [
        (0, "12 AM am"),
        (1, "1 AM am"),
        (11, "11 AM am"),
        (12, "12 PM pm"),
        (13, "1 PM pm"),
        (23, "11 PM pm"),
    ],
)
def test_the_day_has_two_halves_of_twelve_hours(hour: int, shown: str) -> None:
    assert formatted(FRIDAY.replace(hour=hour), "h A a", is_chinese=False) == shown


@pytest.mark.parametrize(
    ("day", "ordinal"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (31, "31st"),
    ],
)
def test_days_have_their_ordinals(day: int, ordinal: str) -> None:
    assert formatted(datetime(2026, 1, day, tzinfo=UTC), "Do", is_chinese=False) == ordinal


def test_random_and_dice_are_drawn_once_for_a_message_and_pick_once_for_a_chat() -> None:
    text = "{{random::a::b::c::d}} {{roll:d1000}} {{pick::a::b::c::d::e::f}}"
    assert filled(text, CONTEXT) == filled(text, CONTEXT)
    of_messages = [
        filled(text, replace(CONTEXT, message_seed=str(number))).split() for number in range(200)
    ]
    assert len({row[0] for row in of_messages}) == 4
    assert len({row[1] for row in of_messages}) > 100
    assert len({row[2] for row in of_messages}) == 1
    of_chats = {
        filled(text, replace(CONTEXT, chat_seed=str(number))).split()[2] for number in range(200)
    }
    assert of_chats == set("abcdef")


def test_the_same_macro_in_two_places_draws_twice() -> None:
    text = "{{pick::a::b}}{{pick::a::b}}"
    assert (
        len({filled(text, replace(CONTEXT, chat_seed=str(number))) for number in range(100)}) == 4
    )


def test_dice_are_even() -> None:
    rolled = Counter(
        filled("{{roll:d6}}", replace(CONTEXT, message_seed=str(number))) for number in range(6_000)
    )
    assert set(rolled) == set("123456")
    assert all(abs(count - 1_000) < 5 * 29 for count in rolled.values())


@given(
    st.lists(
        st.sampled_from(
            [
                "{{",
                "}}",
                "user",
                "random",
                "::",
                ":",
                "roll",
                "d",
                "6",
                "trim",
                " ",
                "\n",
                "char",
                "//",
                "time_UTC",
                "+",
                "数",
            ]
        ),
        max_size=20,
    )
)
def test_no_text_makes_it_fail_or_grow_without_bound(parts: list[str]) -> None:
    text = "".join(parts)
    assert len(filled(text, CONTEXT)) <= 20 * (len(text) + 1)


def test_what_nothing_fills_is_named_once_as_it_is_written() -> None:
    texts = ["{{user}} {{char}} {{time}}", "{{getvar::x}} {{getvar::x}}", "{{lastMessage}}"]
    assert list(unfilled(texts)) == ["{{getvar::x}}", "{{lastMessage}}"]
    assert list(unfilled_keys(["{{user}}", "plain", "{{user}} x"])) == ["{{user}}"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{{datetimeformat " + "[" * 19_900 + "}}", id="brackets without an end"),
        pytest.param("\n" * 19_900 + "{{", id="lines before no macro"),
        pytest.param("{{trim" + "\n" * 19_900 + "{{", id="lines before a torn macro"),
    ],
)
def test_a_text_of_a_stranger_is_filled_in_time_that_is_linear_in_its_length(text: str) -> None:
    begun = time.process_time()
    filled(text, CONTEXT)
    assert time.process_time() - begun < 0.5

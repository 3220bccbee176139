"""How far away the day of a sentence is now, as a note in brackets after the sentence. Pure.

`next Wednesday` said on Friday 19 June is `[Wednesday, 24 June: in 3 days]` on the 21st. What was still to come when
it was said is a plan, which is today, over, or some days away; of what was over already only the day is said, and of
a day that the text names with its month, only how far away it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

from nlp.exact_days import ExactDay, exact_day, is_chinese
from nlp.once import Once


def day_note(sentence: str, said: datetime, today: date) -> str:
    """Return the note on the day that a sentence names, in its language and without brackets; empty if it names no
    day. `said` and `today` are times where the readers live."""
    named = exact_day(sentence, said)
    if named is None:
        return ""
    wording = _CHINESE if is_chinese(sentence) else _ENGLISH
    state = ""
    if named.is_plan:
        state = _state_of(named, today, wording)
    if named.told:
        return state
    day = day_text(named, today, is_chinese=wording is _CHINESE)
    if not state:
        return day
    return wording.plan.format(day, state)


class _Wording(NamedTuple):
    """How a language says days, and where a plan lies."""

    plan: str
    either: str
    span: str
    about: str
    write_day: Callable[[date, date, bool], str]
    over: str
    over_since: str
    over_since_one: str
    today: str
    to_come: str
    to_come_in_one: str
    either_to_come: str


_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTH_NAMES: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_CHINESE_WEEKDAYS: Final = "一二三四五六日"


def _english_day(day: date, today: date, has_weekday: bool) -> str:
    """24 June, and the year if it is another one than today's."""
    text = f"{day.day} {MONTH_NAMES[day.month - 1]}"
    if has_weekday:
        text = f"{_WEEKDAYS[day.weekday()]}, {text}"
    if day.year == today.year:
        return text
    return f"{text} {day.year}"


def _chinese_day(day: date, today: date, has_weekday: bool) -> str:
    """6 月 24 日，星期三."""
    text = f"{day.month} 月 {day.day} 日"
    if day.year != today.year:
        text = f"{day.year} 年 {text}"
    if not has_weekday:
        return text
    return f"{text}，星期{_CHINESE_WEEKDAYS[day.weekday()]}"


_ENGLISH: Final = _Wording(
    plan="{}: {}",
    either="{} or {}",
    span="{} to {}",
    about="about {}",
    write_day=_english_day,
    over="over",
    over_since="{} days ago, over",
    over_since_one="1 day ago, over",
    today="today",
    to_come="in {} days",
    to_come_in_one="in 1 day",
    either_to_come="in {} or {} days",
)
_CHINESE: Final = _Wording(
    plan="{}：{}",
    either="{}或{}",
    span="{}至 {}",
    about="约 {}",
    write_day=_chinese_day,
    over="已过",
    over_since="{} 天前，已过",
    over_since_one="1 天前，已过",
    today="今天",
    to_come="{} 天后",
    to_come_in_one="1 天后",
    either_to_come="{} 或 {} 天后",
)


def day_text(named: ExactDay, today: date, *, is_chinese: bool) -> str:
    """Write the day, the span or both days; for a plan on a single day also the weekday."""
    wording = _CHINESE if is_chinese else _ENGLISH
    has_weekday = named.is_plan and not named.rough and named.first == named.last
    first = wording.write_day(named.first, today, has_weekday)
    if named.other is not None:
        return wording.either.format(first, wording.write_day(named.other, today, has_weekday))
    if named.rough:
        return wording.about.format(first)
    if named.first == named.last:
        return first
    last = wording.write_day(named.last, today, False)
    if named.first.month == named.last.month and wording is _ENGLISH:
        first = str(named.first.day)
    elif named.first.month == named.last.month:
        last = f"{named.last.day} 日"
    return wording.span.format(first, last)


def _state_of(named: ExactDay, today: date, wording: _Wording) -> str:
    """Tell when a plan is, as seen from now: in 3 days, today, or 12 days ago and over. Empty if it depends on which
    day is meant."""
    last = max(named.last, named.other or named.last)
    days_since = (today - last).days
    if days_since > 0 and (named.told or named.other is not None):
        return wording.over

    if days_since > 0:
        text = wording.over_since_one if days_since == 1 else wording.over_since
        return text.format(days_since)

    nearest = min(named.first, named.other or named.first)
    days = (nearest - today).days
    if named.other is not None:
        if days <= 0:
            return ""
        return wording.either_to_come.format(days, -days_since)
    if days <= 0:
        return wording.today

    text = wording.to_come_in_one if days == 1 else wording.to_come
    return text.format(days)


# Notes that come back


_MONTH_TEXT: Final = "(?:" + "|".join(MONTH_NAMES) + ")"
_DAY_TEXT: Final = rf"(?:(?:{'|'.join(_WEEKDAYS)}), )?\d{{1,2}}(?: {_MONTH_TEXT}(?: \d{{4}})?)?"
_STATE_TEXT: Final = r"in \d+(?: or \d+)? days?|today|(?:\d+ days? ago, )?over"
_CHINESE_DAY_TEXT: Final = (
    r"(?:约 )?(?:\d{4} 年 )?\d{1,2} 月 \d{1,2} 日(?:，星期[一二三四五六日])?"
    r"(?:(?:或|至 )(?:\d{4} 年 )?(?:\d{1,2} 月 )?\d{1,2} 日(?:，星期[一二三四五六日])?)?"
)
_CHINESE_STATE_TEXT: Final = r"\d+(?: 或 \d+)? 天后|今天|(?:\d+ 天前，)?已过"
NOTES: Final = Once(
    lambda: re.compile(
        rf" ?\[(?:(?P<whole>(?:about )?{_DAY_TEXT}(?: (?:or|to) {_DAY_TEXT})?: (?:{_STATE_TEXT})"
        rf"|{_CHINESE_DAY_TEXT}：(?:{_CHINESE_STATE_TEXT}))"
        rf"|(?:about )?{_DAY_TEXT}(?: (?:or|to) {_DAY_TEXT})?|{_CHINESE_DAY_TEXT}"
        rf"|{_STATE_TEXT}|{_CHINESE_STATE_TEXT})\]"
    )
)
"""A note as it is written in a line. `whole`: it says the day and how far away it is, in a form that only notes have."""
_ANY_DAYS: Final = (
    datetime(2026, 6, 17, 12, tzinfo=UTC),
    datetime(2026, 6, 20, 12, tzinfo=UTC),
)
"""Days of writing; a day that a sentence names is not doubtful on all of them."""
_SENTENCE_END: Final = Once(lambda: re.compile(r"[。！？!?\n]|\.(?!\d)"))


def without_notes(text: str) -> str:
    """Return `text` without notes on days: notes that say all, and notes after a sentence that names a day. What is
    written with a colon before or after it belongs to a list of the user."""
    parts: list[str] = []
    position = 0
    for match in NOTES().finditer(text):
        before = text[position : match.start()].rstrip()
        is_of_list = before.endswith((":", "：", ";", "；"))
        if is_of_list or text[match.end() :].startswith((":", "：")):
            continue
        sentences = before.rstrip(" 。！？!?.…\"'”’」』)）")
        sentence = _SENTENCE_END().split(sentences)[-1]
        if match["whole"] or any(exact_day(sentence, day) for day in _ANY_DAYS):
            parts.append(text[position : match.start()])
            position = match.end()
    return "".join((*parts, text[position:])) if parts else text

"""Dates, weekdays and hours as people type them: `11-02`, `2015-07-11`, `11月2日`, `2 November`, `周五`. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.chats.dates import MONTHS, month_number

WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
"""In the order of getDay(): 0 is Sunday."""
_CHINESE_DAYS = "日一二三四五六"
_NUMBERS = re.compile(r"(?:(\d{4})[-/.])?(\d{1,2})[-/.](\d{1,2})")
_CHINESE = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号號]?")
_DAY_FIRST = re.compile(r"(\d{1,2})(?:st|nd|rd|th)? ([A-Za-z]{3,9})\.?,?(?: (\d{4}))?")
_MONTH_FIRST = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,?(?: (\d{4}))?")


class WordError(Exception):
    """The words do not say it; the message says what to type."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day of a year, or of every year where `year` is None. `month` from 1."""

    year: int | None
    month: int
    day: int


def day(text: str) -> Day:
    """Raises WordError."""
    text = " ".join(text.split())
    if found := _NUMBERS.fullmatch(text) or _CHINESE.fullmatch(text):
        return _checked(text, found[1], int(found[2]), int(found[3]))
    try:
        if found := _DAY_FIRST.fullmatch(text):
            return _checked(text, found[3], month_number(found[2]), int(found[1]))
        if found := _MONTH_FIRST.fullmatch(text):
            return _checked(text, found[3], month_number(found[1]), int(found[2]))
    except ValueError:
        pass
    raise WordError(f"{text!r} is no date; write MM-DD or YYYY-MM-DD, such as 11-02")


def _checked(text: str, year: str | None, month: int, number: int) -> Day:
    if not 1 <= month <= 12:
        raise WordError(f"{text!r} has no month {month}; the month comes first: MM-DD")
    days = calendar.monthrange(int(year) if year else 2000, month)[1]
    if not 1 <= number <= days:
        raise WordError(f"{text!r} is no date: {MONTHS[month - 1].capitalize()} has {days} days")
    return Day(int(year) if year else None, month, number)


def split_day(words: Sequence[str]) -> tuple[list[str], Day]:
    """The words without the date among them, and the date, which may take up to three words. Raises WordError."""
    for length in (3, 2, 1):
        for start in range(len(words) - length + 1):
            try:
                found = day(" ".join(words[start : start + length]))
            except WordError:
                continue
            return [*words[:start], *words[start + length :]], found
    with_digits = [word for word in words if any(char.isdigit() for char in word)]
    if with_digits:
        day(with_digits[-1])  # says what is wrong with it
    raise WordError("there is no date among the words; add one as MM-DD or YYYY-MM-DD, such as 11-02")


def weekday(word: str) -> int:
    """0 for Sunday to 6. Raises WordError."""
    text = word.lower().rstrip(".")
    for number, name in enumerate(WEEKDAYS):
        if len(text) >= 2 and name.startswith(text):
            return number
    if found := re.fullmatch(r"(?:星期|周|週|礼拜|禮拜)([日天一二三四五六])", word):
        return _CHINESE_DAYS.index(found[1].replace("天", "日"))
    raise WordError(f"{word!r} is no weekday; write one such as friday or 周五")


def hour(word: str) -> int:
    """0 to 23, from `23`, `23:00`, `11pm` or `23点`. Raises WordError."""
    found = re.fullmatch(r"(\d{1,2})(?::00)?\s*(am|pm|点|點|h)?", word.lower())
    number = int(found[1]) if found else -1
    if found and found[2] in ("am", "pm"):
        number = number % 12 + (12 if found[2] == "pm" else 0) if 1 <= number <= 12 else -1
    if not 0 <= number <= 23:
        raise WordError(f"{word!r} is no hour; write a whole hour from 0 to 23")
    return number

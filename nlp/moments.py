"""Stretches of less than a day that a text names: 半小时前, "three hours ago", 刚才, 今天早上, "last night". Pure.

`time_spans.py` has the stretches of whole days. The longer ago, the less exactly a distance is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, time, timedelta
from typing import Final, NamedTuple

from nlp.date_words import numeral
from nlp.once import Once


class Moment(NamedTuple):
    """A stretch from `begin` until `end`, which `text[start:stop]` names. `near`: by words that stand in any
    sentence (刚才, last night)."""

    start: int
    stop: int
    begin: datetime
    end: datetime
    near: bool


_LONGEST: Final = timedelta(hours=36)
"""A greater distance is one of days, as people say it."""
_LEAST_MARGIN: Final = timedelta(minutes=10)
_JUST_NOW: Final = timedelta(minutes=60)
"""What 刚才 and `just now` mean at most."""
_FEW: Final = (2, 6)
_WORDS: Final = {
    "a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0,
    "eight": 8.0, "nine": 9.0, "ten": 10.0, "eleven": 11.0, "twelve": 12.0, "fifteen": 15.0, "twenty": 20.0,
    "thirty": 30.0, "forty": 40.0, "半": 0.5, "half": 0.5,
}  # fmt: skip
_CHINESE_NUMBER: Final = r"\d{1,3}|[一二两兩三四五六七八九十]{1,3}"
_ENGLISH_NUMBER: Final = (
    r"\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|thirty|forty(?:-five)?"
)
# From hour to hour; more than 24 is the next morning.
_PARTS: Final = {
    **dict.fromkeys(("早上", "早晨", "清晨", "早", "晨", "morning"), (5, 12)),
    "上午": (6, 12),
    "中午": (11, 14),
    **dict.fromkeys(("下午", "afternoon"), (12, 18)),
    **dict.fromkeys(("傍晚",), (16, 20)),
    **dict.fromkeys(("晚上", "晚", "夜里", "夜", "evening", "night"), (17, 29)),
    "凌晨": (0, 6),
    "半夜": (22, 30),
}
_DAYS_BACK: Final = {"今": 0, "昨": 1, "前": 2, "this": 0, "yesterday": 1, "last": 1}
_MOMENTS: Final = Once(
    lambda: re.compile(
        rf"""
    (?P<just>刚才|剛才|刚刚|剛剛|方才|\b(?:just\ now|a\ (?:moment|second|minute|little\ while)\ ago|earlier\ today)\b)
  | (?P<part_of_day>(?P<day>[今昨])(?:天|日)?(?P<part>早上|早晨|清晨|上午|中午|下午|傍晚|晚上|夜里|凌晨|半夜|早|晨|晚|夜)
      | (?P<day_before>前)天(?P<part_before>早上|早晨|清晨|上午|中午|下午|傍晚|晚上|夜里|凌晨|半夜)
      | \b(?P<english_day>this|yesterday|last)\ (?P<english_part>morning|afternoon|evening|night)\b)
  | (?P<chinese>(?<![\d一二三四五六七八九十])(?:(?P<few>[几幾])|(?P<count>{_CHINESE_NUMBER})|(?P<half>半))
      [个個]?(?P<and_half>半)?(?:(?P<hours>小时|小時|钟头|鐘頭)|(?P<quarters>刻[钟鐘])|(?P<minutes>分[钟鐘]))
      (?P<half_after>半)?(?:多)?[之以]?前)
  | (?P<english>\b(?:about\ |around\ |like\ |some\ )?(?:(?P<vague>a\ few|a\ couple(?:\ of)?|several)
      |(?P<number>half\ an|{_ENGLISH_NUMBER})(?P<number_half>\ and\ a\ half)?)
      \ (?:(?P<english_hours>hours?|hrs?)|(?P<english_minutes>minutes?|mins?))(?P<half_last>\ and\ a\ half)?\ (?:ago|back)\b)
    """,
        re.VERBOSE | re.IGNORECASE,
    )
)


def moments_in(text: str, now: datetime) -> list[Moment]:
    """The stretches of less than a day that `text`, written at `now` (a local time), names, in order, as far as they
    have begun."""
    moments: list[Moment] = []
    for match in _MOMENTS().finditer(text):
        try:
            begin, end = _stretch(match, now)
        except OverflowError:
            continue  # beyond the range of dates
        if begin < now:
            is_near = match["just"] is not None or match["part_of_day"] is not None
            moments.append(Moment(match.start(), match.end(), begin, min(end, now), is_near))
    return moments


def without_moments(text: str, moments: Iterable[Moment]) -> str:
    """`text` with a blank in place of each of these stretches, which are in order."""
    parts: list[str] = []
    position = 0
    for moment in moments:
        parts.append(text[position : moment.start])
        position = moment.stop
    parts.append(text[position:])
    return " ".join(parts)


def _stretch(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    """From when to when the stretch of a match is meant."""
    if match["just"]:
        if match["just"].lower() == "earlier today":
            return _midnight(now, 0), now
        return now - _JUST_NOW, now
    if match["part_of_day"]:
        day = match["day"] or match["day_before"] or match["english_day"].lower()
        part = match["part"] or match["part_before"] or match["english_part"].lower()
        first_hour, last_hour = _PARTS[part]
        midnight = _midnight(now, _DAYS_BACK[day])
        return midnight + timedelta(hours=first_hour), midnight + timedelta(hours=last_hour)
    least, most = _distance(match)
    least = min(least, _LONGEST)
    most = min(most, _LONGEST)
    return (
        now - most - max(_LEAST_MARGIN, most / 2),
        now - max(least - max(_LEAST_MARGIN, least * 0.4), timedelta()),
    )


def _midnight(now: datetime, days_back: int) -> datetime:
    day = now.date() - timedelta(days=days_back)
    return datetime.combine(day, time(), now.tzinfo)


def _distance(match: re.Match[str]) -> tuple[timedelta, timedelta]:
    """The least and the most that a distance means."""
    unit = timedelta(minutes=1)
    if match["hours"] or match["english_hours"]:
        unit = timedelta(hours=1)
    elif match["quarters"]:
        unit = timedelta(minutes=15)
    if match["few"] or match["vague"]:
        least, most = _FEW
        if match["vague"] and "couple" in match["vague"].lower():
            least, most = 1, 3
        return least * unit, most * unit
    number = _number(match["count"] or match["half"] or match["number"].lower())
    if any(match[half] for half in ("and_half", "half_after", "number_half", "half_last")):
        number += 0.5
    return number * unit, number * unit


def _number(text: str) -> float:
    if text.isdigit():
        return float(text)
    word = text.split()[0].split("-")[0]
    return _WORDS.get(word) or float(numeral(text.replace("兩", "两")))

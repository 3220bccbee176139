"""Days as words: 5月2日, 5月2号, 五月二日, 昨天, 上周四, 7/17, 2023-07-17 and July 17th become one word each: `5月2日`.

A day written in two ways has no word in common for the segmentation, and 昨天 names another day tomorrow. The
canonical word has no year: memories are kept for one, and a birthday comes back. Relative days count from the
day the message was written. Pure: that day is an argument.

What it leaves alone, because it would more often be wrong: a month or a weekday alone, 2号 alone, the common
fractions (1/2, 3/4), the day first (17/7), lunar days (正月初一), and months of the English word `may`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Final, NamedTuple

from nlp.once import Once


class Span(NamedTuple):
    """A stretch of a text that is one word: `text[start:end]` is read as `word`. `relative`: it names a day by its
    distance from the day of writing (昨天, last Friday); `adverb`: by a word that stands in any sentence (昨天)."""

    start: int
    end: int
    word: str
    relative: bool = False
    adverb: bool = False


def day_word(day: date) -> str:
    """The canonical word of a day: `5月2日`."""
    return f"{day.month}月{day.day}日"


def date_spans(text: str, today: date) -> Iterator[Span]:
    """The days that `text` names, in order, none over another, each with its canonical word. `today` is the day on
    which it was written. About 0.1 ms per 1,000 characters."""
    beginnings = _BEGINNING()
    days = _DAYS()
    position = 0
    while True:
        beginning = beginnings.search(text, position)
        if beginning is None:
            return
        position = beginning.end()
        match = days.match(text, beginning.start())
        if match is None or _within_a_word(text, match.start(), match.end()):
            continue
        form = match.lastgroup or ""
        word = _READERS[form](match, today)
        if word is not None:
            position = match.end()
            yield Span(
                match.start(),
                match.end(),
                word,
                relative=form in _RELATIVE,
                adverb=form in _ADVERBS,
            )


_DIGITS: Final = {char: value for value, char in enumerate("〇一二三四五六七八九十")} | {
    "两": 2,
    "兩": 2,
    "廿": 20,
}
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FRACTIONS: Final = frozenset({(1, 2), (1, 3), (2, 3), (1, 4), (3, 4)})
_LENGTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_CHINESE_DAYS: Final = {
    "大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "後": 2, "大后": 3, "大後": 3,
}  # fmt: skip
_WEEKS: Final = {"上上": -2, "上": -1, "这": 0, "這": 0, "本": 0, "下": 1, "下下": 2}
_ENGLISH_DAYS: Final = {"yesterday": -1, "night": -1, "today": 0, "tonight": 0, "tomorrow": 1}

# Where a day may begin. One set of characters: finding it is fifty times faster than trying all forms.
_BEGINNING: Final = Once(
    lambda: re.compile("[0-9A-Za-z大前后後昨今明上这這本下一二三四五六七八九十廿两兩][0-9A-Za-z]*")
)
_ENGLISH_MONTH: Final = (
    "(?:[Jj]an(?:uary)?|[Ff]eb(?:ruary)?|[Mm]ar(?:ch)?|[Aa]pr(?:il)?|May|[Jj]une?|[Jj]uly?|[Aa]ug(?:ust)?"
    "|[Ss]ept?(?:ember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?)"
)
_ENGLISH_WEEKDAY: Final = "(?:[Mm]on|[Tt]ues|[Ww]ednes|[Tt]hurs|[Ff]ri|[Ss]atur|[Ss]un)day"
_NUMERAL: Final = "[一二三四五六七八九十廿]"
# After 5月2: characters that make the number count things, so that it is not a day.
_NO_COUNT: Final = r"(?![\d个個次天年月点點时時位人元块塊万萬千百份张張条條家只隻多%.])"
_DAYS: Final = Once(
    lambda: re.compile(
        rf"""
    (?P<full>(?:\d{{4}})[-/.年]\s?(?:\d{{1,2}})[-/.月]\s?(?:\d{{1,2}})[日号號]?)
  | (?P<chinese>(?:\d{{1,2}})\s?月\s?(?:\d{{1,2}})(?:\s?[日号號]|{_NO_COUNT}))
  | (?P<numerals>{_NUMERAL}{{1,2}}月{_NUMERAL}{{1,3}}[日号號])
  | (?P<slash>\d{{1,2}}/\d{{1,2}})
  | (?P<day_first>\d{{1,2}}(?:st|nd|rd|th)?\ (?:of\ )?{_ENGLISH_MONTH})
  | (?P<month_first>{_ENGLISH_MONTH}\.?\ \d{{1,2}}(?:st|nd|rd|th)?)
  | (?P<near>大?[前后後]天|[昨今明][天日晚早晨夜])
  | (?P<week>(?:上上|上|[这這本]|下下|下)[个個]?(?:[周週]|星期|[礼禮]拜)[一二三四五六日天])
  | (?P<ago>(?:\d{{1,3}}|[一二两兩三四五六七八九十]{{1,3}})天[之以]?[前后後])
  | (?P<english>[Yy]esterday|[Tt]oday|[Tt]onight|[Tt]omorrow|[Ll]ast\ night)
  | (?P<english_week>(?:[Ll]ast|[Nn]ext)\ {_ENGLISH_WEEKDAY})
  | (?P<english_ago>\d{{1,3}}\ days\ ago)
  | (?P<before>[Tt]he\ day\ before\ yesterday)
    """,
        re.VERBOSE,
    )
)
"""Compiled at first use, because it takes 10 ms, a tenth of the start of the server."""
_NUMBERS: Final = re.compile(r"\d+")


def _within_a_word(text: str, start: int, end: int) -> bool:
    """Whether letters or digits continue at its beginning or end: 12/34/56, 3.5/6, v2023-07-17, 二十一五月三日."""
    before = text[start - 1 : start]
    first = text[start]
    if first in _DIGITS and before in _DIGITS:
        return True
    if first.isascii() and before and before.isascii() and (before.isalnum() or before in "/.-_"):
        return True
    last = text[end - 1]
    after = text[end : end + 1]
    if last.isascii() and after and after.isascii() and (after.isalnum() or after in "/_"):
        return True
    # 4.5 and 3-4 continue after the digit; a full stop ends a sentence.
    return last.isdigit() and after in (".", "-", ":") and text[end + 1 : end + 2].isdigit()


def _word_of(month: int, day: int) -> str | None:
    """The canonical word of a day of a month; None: there is no such day."""
    if not 1 <= month <= 12 or not 1 <= day <= _LENGTHS[month - 1]:
        return None
    return f"{month}月{day}日"


def _shifted(today: date, days: int) -> str | None:
    """The canonical word of the day so many days after today; None: it is beyond the range of dates."""
    try:
        return day_word(today + timedelta(days=days))
    except OverflowError:
        return None


def _last_two(match: re.Match[str], _today: date) -> str | None:
    """2023-07-17, 5月2日: the last two numbers are the month and the day."""
    month, day = _NUMBERS.findall(match[0])[-2:]
    return _word_of(int(month), int(day))


def _chinese_numerals(match: re.Match[str], _today: date) -> str | None:
    """五月二日."""
    month, day = match[0][:-1].split("月")
    return _word_of(numeral(month), numeral(day))


def _slash(match: re.Match[str], _today: date) -> str | None:
    """7/17, but not 1/2."""
    month, day = map(int, match[0].split("/"))
    if (month, day) in _FRACTIONS:
        return None
    return _word_of(month, day)


def numeral(text: str) -> int:
    """十二 -> 12, 二十五 -> 25, 廿三 -> 23; 0 if it is not a number up to 99, as 二十一五."""
    if text[0] == "廿" and "十" not in text:
        text = f"二十{text[1:]}"
    tens, ten, ones = text.rpartition("十")
    try:
        if not ten:
            return _DIGITS[text]
        number = 10
        if tens:
            number = _DIGITS[tens] * 10
        if ones:
            number += _DIGITS[ones]
        return number
    except KeyError:
        return 0


def _english_day(match: re.Match[str], _today: date) -> str | None:
    """July 17th, 17 July."""
    lowered = match[0].lower()
    [number] = _NUMBERS.findall(lowered)
    words = re.findall(r"[a-z]{3,}", lowered.replace(number, " "))
    month = MONTHS.index(words[-1][:3]) + 1
    return _word_of(month, int(number))


def _near(match: re.Match[str], today: date) -> str | None:
    """昨天, 大前天."""
    return _shifted(today, _CHINESE_DAYS[match[0][:-1]])


def _week(match: re.Match[str], today: date) -> str | None:
    """上周四, 下下星期日."""
    text = match[0]
    weeks = _WEEKS.get(text[:2])
    if weeks is None:
        weeks = _WEEKS[text[0]]
    weekday = "一二三四五六日".index(text[-1].replace("天", "日"))
    days_after_monday = weeks * 7 + weekday
    return _shifted(today, days_after_monday - today.weekday())


def _ago(match: re.Match[str], today: date) -> str | None:
    """3天前, 十天后."""
    number, direction = match[0].split("天")
    days = int(number) if number.isdigit() else numeral(number)
    if not days:
        return None
    if direction[-1] == "前":
        return _shifted(today, -days)
    return _shifted(today, days)


def _english_near(match: re.Match[str], today: date) -> str | None:
    """yesterday, last night."""
    last_word = match[0].lower().split()[-1]
    return _shifted(today, _ENGLISH_DAYS[last_word])


def _english_week(match: re.Match[str], today: date) -> str | None:
    """The nearest one before or after today, which is what most people mean."""
    direction, name = match[0].lower().split()
    days_ahead = (_WEEKDAYS.index(name[:3]) - today.weekday()) % 7
    if direction == "last":
        return _shifted(today, days_ahead - 7)
    return _shifted(today, days_ahead or 7)


def _english_ago(match: re.Match[str], today: date) -> str | None:
    """3 days ago."""
    days = int(match[0].split()[0])
    return _shifted(today, -days)


def _day_before_yesterday(_match: re.Match[str], today: date) -> str | None:
    return _shifted(today, -2)


_ADVERBS: Final = frozenset({"near", "english"})
_RELATIVE: Final = frozenset(
    {"near", "week", "ago", "english", "english_week", "english_ago", "before"}
)

_READERS: Final[dict[str, Callable[[re.Match[str], date], str | None]]] = {
    "full": _last_two,
    "chinese": _last_two,
    "numerals": _chinese_numerals,
    "slash": _slash,
    "day_first": _english_day,
    "month_first": _english_day,
    "near": _near,
    "week": _week,
    "ago": _ago,
    "english": _english_near,
    "english_week": _english_week,
    "english_ago": _english_ago,
    "before": _day_before_yesterday,
}
"""What each form of a day means; None: it is no day."""

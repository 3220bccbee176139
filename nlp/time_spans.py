"""Stretches of time that a text names: 7月份, 上个月, 两周前, 最近, 去年中秋, last week, "at Christmas". Pure.

`date_words.py` makes words of single days, which a memory holds if it names the day or was said on it. Here a day is a
stretch too, because people tell of it later; a month or a week is not a word of what was said in it. A month or day
without a year is that of this year, if it has begun, and that of the last one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Final

from nlp.date_words import MONTHS, Span, date_spans, numeral
from nlp.holidays import NamedHoliday, holidays_in
from nlp.once import Once
from nlp.stretches import (
    TimeSpan,
    ago,
    days_ago,
    days_of_month,
    month_back,
    months,
    unit_back,
    week,
    weekend,
    whole_year,
)

RECENT_DAYS: Final = 14
"""What 最近 and `recently` mean at most."""
_FEW_DAYS: Final = 7
_ABOUT_A_YEAR: Final = timedelta(days=340)


_MONTH_NAME: Final = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_ENGLISH_NUMBERS: Final = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_NUMBER: Final = r"\d{1,2}|[一二两兩三四五六七八九十]{1,3}|an?|" + "|".join(_ENGLISH_NUMBERS)
_WORDS: Final = {
    "a": 1,
    "an": 1,
    **{word: number for number, word in enumerate(_ENGLISH_NUMBERS, 1)},
}
_UNITS: Final = {
    "天": "day",
    "日": "day",
    "月": "month",
    "年": "year",
    **dict.fromkeys(("星期", "礼拜", "禮拜", "周", "週"), "week"),
    **{unit: unit for unit in ("day", "week", "weekend", "month", "year")},
}
_VAGUE: Final = r"(?:a\ )?couple(?:\ of)?|(?:a\ |quite\ a\ )?few|several|[两兩二三四五六七八九][三四五六七八九十]|[几幾]"
_SPANS: Final = Once(
    lambda: re.compile(
        rf"""
    (?P<weekend>(?P<which_weekend>上上|上|[这這本])[个個]?[周週]末)
  | (?P<vague_ago>\b(?P<vague>{_VAGUE})(?:[个個]?(?P<vague_unit>天|日|月|星期|[礼禮]拜|[周週]|年)
        |\ (?P<vague_english>day|week|weekend|month|year)s)(?:[之以]?前|\ (?:ago|back)\b))
  | (?P<days_before>前(?:两|兩|三|些)(?:天|日子?)|前[几幾][日周週]|前[阵陣]子?|前一[阵陣]子?|前段(?:时间|時間|日子)
        |\bthe\ other\ (?:day|night|evening)\b)
  | (?P<evening_before>(?<![日节節睡饭飯以之提考行])前[晚夜]|\bthe\ night\ before\ last\b)
  | (?P<before_last>\bthe\ (?P<what_before_last>week(?:end)?|month|year)\ before\ last\b)
  | (?P<half_ago>半年(?:[之以]?前)|半个月(?:[之以]?前)|\bhalf\ a\ year\ ago\b|\b(?:a\ )?fortnight\ ago\b)
  | (?P<chinese_month>(?<![\d一二三四五六七八九十/.个個第-])(?:(?P<year>\d{{4}})年|(?P<near_year>[今去前])年(?:的)?)?\s?
        (?P<month>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])\s?月份?的?
        (?P<part>上旬|中旬|下旬|初|中(?![秋国國])|底|末)?(?!\s?[\d一二三四五六七八九十廿]))
  | (?P<near_month>(?P<which_month>上上|上|[这這本])[个個]?月(?P<near_part>上旬|中旬|下旬|初|中|底|末)?)
  | (?P<week>(?P<which_week>上上|上|[这這本])[个個]?(?:[周週]|星期|[礼禮]拜)(?![一二三四五六日天]))
  | (?P<days_ago>(?:前|这|這|近|最近)几天)
  | (?P<recent>最近|近来|近來|近期|[这這][阵陣]子|[这這]段[时時][间間]|\b(?:recently|lately|these\ days)\b)
  | (?P<ago>(?<![\d一二三四五六七八九十])(?P<count>{_NUMBER})(?:[个個]?(?P<unit>月|星期|[礼禮]拜|[周週]|年)
        |\ (?P<english_unit>day|week|weekend|month|year)s?)(?:[之以]?前|\ (?:ago|back)\b))
  | (?P<chinese_year>[今去前]年)
  | (?P<dotted>(?<![\d.])(?P<day_number>\d{{1,2}})\.(?P<month_number>\d{{1,2}})\.(?P<dotted_year>\d{{4}})?(?!\d))
  | (?P<english_month>\b(?:(?P<english_part>early|mid|late|(?:beginning|start|middle|end)\ of)[\ -](?:in\ )?)?
        (?P<month_name>{_MONTH_NAME})\b\.?(?:,?\ (?P<english_year>\d{{4}})\b)?(?!\ \d{{1,2}}(?!\d)))
  | (?P<english_near>\b(?P<which>last|this|past)\ (?P<what>week(?:end)?|month|year)\b)
    """,
        re.VERBOSE | re.IGNORECASE,
    )
)
_SEEN_FROM_TODAY: Final = ("near_month", "week", "weekend", "chinese_year", "english_near")
"""Forms that may name the stretch in which today lies: 这周, this year."""
_SURE: Final = re.compile(
    r"(?:\b(?:in|of|since|during|last|this|early|mid|late|until|by|from|and|to)[ -]|[,(]\s?)$",
    re.IGNORECASE,
)
"""Before `may` and `march`, and before any month in small letters: what stands before months."""
_A_DAY: Final = re.compile(r"\d(?:st|nd|rd|th)?(?: of)? $", re.I)


def time_spans(text: str, today: date) -> list[TimeSpan]:
    """The stretches of time that `text`, written on `today`, names, in order. About 0.1 ms per 1,000 characters."""
    holidays = list(holidays_in(text))
    return [
        *_spans_of_days(text, today),
        *_spans_of_holidays(holidays, today),
        *_spans_of_stretches(text, today, holidays),
    ]


def _spans_of_days(text: str, today: date) -> Iterator[TimeSpan]:
    """The days that `text` names, each once."""
    days: dict[str, Span] = {}
    for day in date_spans(text, today):
        if day.word not in days or not day.relative:
            days[day.word] = day
    for word, day in days.items():
        month, number = map(int, word.removesuffix("日").split("月"))
        for span in days_of_month(month, number, (today.year, today.year - 1), today):
            is_of_last_year = span.first <= today - _ABOUT_A_YEAR
            if day.relative and is_of_last_year:  # 昨天 is not a day of last year
                continue
            yield span._replace(near=day.adverb)


def _spans_of_holidays(holidays: Iterable[NamedHoliday], today: date) -> Iterator[TimeSpan]:
    for holiday in holidays:
        for span in _holiday_spans(holiday, today):
            if span.first <= today:
                yield span._replace(near=today <= span.last)


def _spans_of_stretches(
    text: str, today: date, holidays: Sequence[NamedHoliday]
) -> Iterator[TimeSpan]:
    """The stretches that `text` names beside days and holidays."""
    for match in _SPANS().finditer(text):
        if any(holiday.start < match.end() and match.start() < holiday.end for holiday in holidays):
            continue  # 去年 in 去年中秋
        form = match.lastgroup or ""
        try:
            spans = list(_READERS[form](match, today))
        except (ValueError, OverflowError):
            continue  # beyond the range of dates
        for span in spans:
            if span.first > today:
                continue
            is_present = form in _SEEN_FROM_TODAY and today <= span.last
            yield span._replace(near=span.near or is_present)


def without_times(text: str, today: date) -> str:
    """`text`, written on `today`, with a blank in place of each day and stretch of time that it names."""
    ranges = [(day.start, day.end) for day in date_spans(text, today)]
    ranges += [(holiday.start, holiday.end) for holiday in holidays_in(text)]
    ranges += [match.span() for match in _SPANS().finditer(text)]
    parts: list[str] = []
    part_start = 0
    for start, end in sorted(ranges):
        if end <= part_start:
            continue  # it lies within an earlier one
        part_end = max(start, part_start)
        parts.append(text[part_start:part_end])
        part_start = end
    parts.append(text[part_start:])
    return " ".join(parts)


def _holiday_spans(named: NamedHoliday, today: date) -> Iterator[TimeSpan]:
    """The days of a holiday in the year that the text says, else in this year and in the last one."""
    years = [today.year, today.year - 1]
    if named.year is not None:
        years = [named.year]
    elif named.year_from_now is not None:
        years = [today.year + named.year_from_now]
    for year in years:
        try:
            for first, last in named.holiday.stretches(year):
                yield TimeSpan(first, last)
        except (ValueError, OverflowError):
            continue  # beyond the range of dates


_BACK: Final = {"上": 1, "上上": 2}
"""How many weeks or months back a stretch is; those with another word are the present ones."""


_YEARS_BACK: Final = {"今": 0, "去": 1, "前": 2}


_HALF_A_YEAR: Final = (213, 152)
"""The most and the least days that half a year ago means."""


def _named_weekend(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """上周末."""
    return [weekend(today, _BACK.get(match["which_weekend"], 0))]


def _named_vaguely(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """几个月前, a few weeks ago."""
    unit = match["vague_unit"] or match["vague_english"].lower()
    return [_vaguely_ago(match["vague"].lower(), _UNITS[unit], today)]


def _days_before(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """前两天, 前阵子, the other day."""
    most = 3 if match[0][1:2] in ("两", "兩", "三") else RECENT_DAYS
    return [TimeSpan(today - timedelta(days=most), today - timedelta(days=1), near=True)]


def _evening_before(_match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """前晚, the night before last."""
    return [days_ago(today, 2, 2)]


def _named_before_last(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """the week before last."""
    return [unit_back(match["what_before_last"].lower(), 2, today)]


def _half_ago(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """半年前, a fortnight ago."""
    text = match[0].lower()
    if "年" in text or "year" in text:
        return [days_ago(today, *_HALF_A_YEAR)]
    return [week(today, 2)]


def _chinese_month(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """7月份, 去年十月底."""
    month = int(match["month"]) if match["month"].isdigit() else numeral(match["month"])
    year = None
    if match["year"] is not None:
        year = int(match["year"])
    elif match["near_year"] is not None:
        year = today.year - _YEARS_BACK[match["near_year"]]
    return months(year, month, match["part"], today)


def _near_month(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """上个月, 这个月底."""
    return [month_back(today, _BACK.get(match["which_month"], 0), match["near_part"])]


def _named_week(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """上周."""
    return [week(today, _BACK.get(match["which_week"], 0))]


def _few_days(_match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """前几天, 最近几天."""
    return [TimeSpan(today - timedelta(days=_FEW_DAYS), today, near=True)]


def _recently(_match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """最近, lately."""
    return [TimeSpan(today - timedelta(days=RECENT_DAYS), today, near=True)]


def _counted_ago(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """两周前, three months ago."""
    count = match["count"].lower()
    number = int(count) if count.isdigit() else _WORDS.get(count) or numeral(count)
    unit = _UNITS[match["unit"] or match["english_unit"].lower()]
    # `3 days ago` is a day of date_words.py.
    is_day_word = unit == "day" and count.isdigit() and number > 1
    if not number or is_day_word:
        return []
    return [ago(number, unit, today)]


def _chinese_year(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """去年."""
    return [whole_year(today.year - _YEARS_BACK[match[0][0]])]


def _dotted(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """17.7.2023."""
    years = [today.year, today.year - 1]
    if match["dotted_year"] is not None:
        years = [int(match["dotted_year"])]
    return days_of_month(int(match["month_number"]), int(match["day_number"]), years, today)


def _english_month(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """in May, late October 2023."""
    before = match.string[: match.start("month_name")]
    name = match["month_name"].lower()
    is_doubtful = match["month_name"][0].islower() or name in ("may", "march")
    if _A_DAY.search(before) or (is_doubtful and not _SURE.search(before)):
        return []
    year = None
    if match["english_year"] is not None:
        year = int(match["english_year"])
    part = (match["english_part"] or "").lower().removesuffix(" of")
    return months(year, MONTHS.index(name[:3]) + 1, part or None, today)


def _english_near(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """last week, this month."""
    back = 0 if match["which"].lower() == "this" else 1
    return [unit_back(match["what"].lower(), back, today)]


_READERS: Final[dict[str, Callable[[re.Match[str], date], Iterable[TimeSpan]]]] = {
    "weekend": _named_weekend,
    "vague_ago": _named_vaguely,
    "days_before": _days_before,
    "evening_before": _evening_before,
    "before_last": _named_before_last,
    "half_ago": _half_ago,
    "chinese_month": _chinese_month,
    "near_month": _near_month,
    "week": _named_week,
    "days_ago": _few_days,
    "recent": _recently,
    "ago": _counted_ago,
    "chinese_year": _chinese_year,
    "dotted": _dotted,
    "english_month": _english_month,
    "english_near": _english_near,
}
"""What each form of a stretch means, by the name of its group in `_SPANS`."""


def _vaguely_ago(amount: str, unit: str, today: date) -> TimeSpan:
    """From the most to the least that an amount such as `a few` or 两三 means."""
    least, most = _amount(amount)
    return TimeSpan(ago(most, unit, today).first, ago(least, unit, today).last)


def _amount(amount: str) -> tuple[int, int]:
    """The least and the most that an amount means."""
    if "couple" in amount:
        return 1, 3
    if "few" in amount or amount in ("几", "幾"):
        return 2, 6
    if amount == "several":
        return 3, 9
    return numeral(amount[0]), numeral(amount[1].replace("兩", "两"))

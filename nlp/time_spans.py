"""Stretches of time that a text names: 7月份, 上个月, 两周前, 最近, 去年中秋, last week, "at Christmas". Pure.

`date_words.py` makes words of single days, which a memory holds if it names the day or was said on it. Here a day is
a stretch too, because people tell of it later; a month or a week is not a word of what was said in it. A month or day
without a year means this year's, if it has begun, and last year's.

`Moment` is a stretch of less than a day: 半小时前, "three hours ago", 刚才, 今天早上, "last night". The longer ago, the less
exactly a distance is meant.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Final, NamedTuple

from nlp.date_words import (
    NUMBER_WORDS,
    date_spans,
    month_and_day,
    month_number,
    numeral,
    ranges_of_days,
)
from nlp.holidays import NamedHoliday, holidays_in
from nlp.normal_forms import Span
from nlp.once import Once
from nlp.stems import words_between_bars

# Stretches as they are seen from today


class TimeSpan(NamedTuple):
    """From the first to the last day, both included. `near` says that its name is a word found in any sentence (昨天,
    最近)."""

    first: date
    last: date
    near: bool = False

    def days(self, most: int) -> list[date]:
        """Return its days; none if they are more than `most`."""
        count = (self.last - self.first).days + 1
        if count > most:
            return []
        return [self.first + timedelta(days=number) for number in range(count)]


_DAYS_OF_MONTH = 30
_DAYS_OF_YEAR = 365.25
_MARGIN_OF_MONTH = 10
"""Days before and after the day so many months ago that are meant too."""
_MARGIN_OF_ONE_YEAR = 45
"""The same for a year ago."""
_MARGIN_OF_YEARS = 183
"""The same for several years ago: half a year."""
_BEGINNING: Final = (1, 10)
_MIDDLE: Final = (11, 20)
_END: Final = (21, 31)
_PARTS_OF_MONTH: Final = {
    **dict.fromkeys(words_between_bars("上旬|初|early|beginning|start"), _BEGINNING),
    **dict.fromkeys(words_between_bars("中旬|中|mid|middle"), _MIDDLE),
    **dict.fromkeys(words_between_bars("下旬|底|末|late|end"), _END),
}
"""The first and the last day of the parts of a month."""


def days_of_month(month: int, day: int, years: Iterable[int], today: date) -> Iterator[TimeSpan]:
    """Yield a day of a month in each of these years, as far as it has come; skips a year that has no such day."""
    for year in years:
        try:
            named_day = date(year, month, day)
        except (ValueError, OverflowError):
            continue
        if named_day <= today:
            yield TimeSpan(named_day, named_day)


def months(year: int | None, month: int, part: str | None, today: date) -> Iterator[TimeSpan]:
    """Yield a month or a part of it in `year`, or, if that is None, in this year and in the last one."""
    years = [today.year, today.year - 1] if year is None else [year]
    for named_year in years:
        yield _part_of_month(named_year, month, part)


def _part_of_month(year: int, month: int, part: str | None) -> TimeSpan:
    """Return the days of a part of a month, or of all of it if `part` is None."""
    _weekday, length = monthrange(year, month)
    first_day = 1
    last_day = length
    if part:
        first_day, last_day = _PARTS_OF_MONTH[part]
    return TimeSpan(date(year, month, first_day), date(year, month, min(last_day, length)))


def month_back(today: date, back: int, part: str | None = None) -> TimeSpan:
    """Return the month so many months back, or a part of it."""
    months_before = today.year * 12 + today.month - 1 - back
    year, month_index = divmod(months_before, 12)
    return _part_of_month(year, month_index + 1, part)


def whole_year(year: int) -> TimeSpan:
    """From New Year to the last day of December."""
    return TimeSpan(date(year, 1, 1), date(year, 12, 31))


def unit_back(unit: str, back: int, today: date) -> TimeSpan:
    """Return the week, weekend, month or year so many of them back."""
    if unit == "weekend":
        return weekend(today, back)
    if unit == "week":
        return week(today, back)
    if unit == "month":
        return month_back(today, back)
    return whole_year(today.year - back)


def ago(number: int, unit: str, today: date) -> TimeSpan:
    """Return the stretch so many days, weeks, months or years back: the longer ago, the less exactly it is meant."""
    if unit == "day":
        return days_ago(today, number, number)
    if unit in ("week", "weekend"):
        return unit_back(unit, number, today)
    if unit == "month":
        middle = _DAYS_OF_MONTH * number
        margin = _MARGIN_OF_MONTH
    else:
        middle = round(_DAYS_OF_YEAR * number)
        margin = _MARGIN_OF_ONE_YEAR if number == 1 else _MARGIN_OF_YEARS
    return days_ago(today, middle + margin, middle - margin)


def days_ago(today: date, most: int, least: int) -> TimeSpan:
    """From the most to the least days ago."""
    return TimeSpan(today - timedelta(days=most), today - timedelta(days=least))


def weekend(today: date, back: int) -> TimeSpan:
    """Return the Saturday and the Sunday of the week so many weeks back."""
    sunday = week(today, back).last
    return TimeSpan(sunday - timedelta(days=1), sunday)


def week(today: date, back: int) -> TimeSpan:
    """Return the week so many weeks back, from Monday to Sunday."""
    monday = today - timedelta(days=today.weekday() + 7 * back)
    return TimeSpan(monday, monday + timedelta(days=6))


# Stretches that a text names

RECENT_DAYS: Final = 14
"""What 最近 and `recently` mean at most."""
_FEW_DAYS: Final = 7
_ABOUT_A_YEAR: Final = timedelta(days=340)


_MONTH_NAME: Final = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_NUMBER: Final = r"\d{1,2}|[一二两兩三四五六七八九十]{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_UNITS: Final = {
    "天": "day",
    "日": "day",
    "月": "month",
    "年": "year",
    **dict.fromkeys(words_between_bars("星期|礼拜|禮拜|周|週"), "week"),
    **{unit: unit for unit in words_between_bars("day|week|weekend|month|year")},
}
_VAGUE: Final = r"(?:a\ )?couple(?:\ of)?|(?:a\ |quite\ a\ )?few|several|[两兩二三四五六七八九][三四五六七八九]|[几幾]"
_SPANS: Final = Once(
    lambda: re.compile(
        rf"""
    (?P<weekend>(?P<which_weekend>上上|上|[这這本])[个個]?[周週]末)
  | (?P<vague_ago>(?<![a-z\d一二两兩三四五六七八九十百])(?P<vague>{_VAGUE})
        (?:[个個]?(?P<vague_unit>天|日|月|星期|[礼禮]拜|[周週]|年)
        |\ (?P<vague_english>day|week|weekend|month|year)s)
        (?:[之以]?前(?![往面端]|[后後](?![来來]))|\ (?:ago|back)\b))
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
_SEEN_FROM_TODAY: Final = words_between_bars("near_month|week|weekend|chinese_year|english_near")
"""Forms that may name the stretch in which today lies: 这周, this year."""
_SURE: Final = re.compile(
    r"(?:\b(?:in|of|since|during|last|this|early|mid|late|until|by|from|and|to)[ -]|[,(]\s?)$",
    re.IGNORECASE,
)
"""Before `may` and `march`, and before any month in small letters: what precedes months."""
_A_DAY: Final = re.compile(r"\d(?:st|nd|rd|th)?(?: of)? $", re.I)


def time_spans(text: str, today: date) -> list[TimeSpan]:
    """Return the stretches of time that `text`, written on `today`, names, in order. About 0.1 ms per 1,000
    characters."""
    holidays = list(holidays_in(text))
    spans = list(_spans_of_days(text, today))
    for holiday in holidays:
        begun = [span for span in _holiday_spans(holiday, today) if span.first <= today]
        spans += [span._replace(near=today <= span.last) for span in begun]
    spans += _spans_of_stretches(text, today, holidays)
    return spans


def _spans_of_days(text: str, today: date) -> Iterator[TimeSpan]:
    """Yield the days and the stretches of days that `text` names, each once, in this year and the last one. A day that
    is named by its distance is not a day of last year."""
    stretches = list(ranges_of_days(text))
    for stretch in stretches:
        years = (stretch.year,) if stretch.year else (today.year, today.year - 1)
        for year in years:
            with suppress(ValueError):
                yield TimeSpan(*stretch.in_year(year))

    days: dict[str, Span] = {}
    for day in date_spans(text, today):
        if any(stretch.start <= day.start < stretch.end for stretch in stretches):
            continue
        if day.word not in days or not day.relative:
            days[day.word] = day
    for word, day in days.items():
        month, number = month_and_day(word)
        for span in days_of_month(month, number, (today.year, today.year - 1), today):
            is_of_last_year = span.first <= today - _ABOUT_A_YEAR
            if day.relative and is_of_last_year:  # 昨天 is not a day of last year
                continue
            yield span._replace(near=day.adverb)


def _spans_of_stretches(
    text: str, today: date, holidays: Sequence[NamedHoliday]
) -> Iterator[TimeSpan]:
    """Yield the stretches that `text` names beside days and holidays and that begin by `today`. A
    stretch in the name of a holiday, or beyond the range of dates, is left out."""
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
    """Return `text`, written on `today`, with a blank in place of each day and stretch of time that
    it names."""
    ranges = [(day.start, day.end) for day in date_spans(text, today)]
    ranges += [(stretch.start, stretch.end) for stretch in ranges_of_days(text)]
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
    """Yield the days of a holiday in the year that the text says, else in this year and in the last one."""
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
"""How many weeks or months back a stretch is; a stretch with another word is the present one."""


_YEARS_BACK: Final = {"今": 0, "去": 1, "前": 2}


_HALF_A_YEAR: Final = (213, 152)
"""The most and the least days that half a year ago means."""


def _chinese_month(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """Return the stretches that 7月份 or 去年十月底 can mean."""
    month = numeral(match["month"])
    year = None
    if match["year"] is not None:
        year = int(match["year"])
    elif match["near_year"] is not None:
        year = today.year - _YEARS_BACK[match["near_year"]]
    return months(year, month, match["part"], today)


def _counted_ago(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """Return the stretch of 两周前 or `three months ago`. Return none for 0 of them, and for `3 days ago` in digits,
    which date_words.py reads as a day. It does not read `three days ago`, so that is a stretch of one day here."""
    count = match["count"].lower()
    number = NUMBER_WORDS.get(count) or numeral(count)
    unit = _UNITS[match["unit"] or match["english_unit"].lower()]
    is_day_word = unit == "day" and count.isdigit() and number > 1
    if not number or is_day_word:
        return []
    return [ago(number, unit, today)]


def _dotted(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """17.7.2023."""
    years = [today.year, today.year - 1]
    if match["dotted_year"] is not None:
        years = [int(match["dotted_year"])]
    return days_of_month(int(match["month_number"]), int(match["day_number"]), years, today)


def _english_month(match: re.Match[str], today: date) -> Iterable[TimeSpan]:
    """Return the stretches that in May or late October 2023 can mean; none if it is not sure that a
    month is meant."""
    before = match.string[: match.start("month_name")]
    name = match["month_name"].lower()
    is_doubtful = match["month_name"][0].islower() or name in ("may", "march")
    if _A_DAY.search(before) or (is_doubtful and not _SURE.search(before)):
        return []
    year = None
    if match["english_year"] is not None:
        year = int(match["english_year"])
    part = (match["english_part"] or "").lower().removesuffix(" of")
    return months(year, month_number(name), part or None, today)


_READERS: Final[dict[str, Callable[[re.Match[str], date], Iterable[TimeSpan]]]] = {
    "weekend": lambda match, today: [weekend(today, _BACK.get(match["which_weekend"], 0))],
    "vague_ago": lambda match, today: [_vaguely_ago(match, today)],
    "days_before": lambda match, today: [  # 前两天, 前阵子, the other day
        days_ago(today, 3 if match[0][1:2] in "两兩三" else RECENT_DAYS, 1)._replace(near=True)
    ],
    "evening_before": lambda _match, today: [days_ago(today, 2, 2)],
    "before_last": lambda match, today: [unit_back(match["what_before_last"].lower(), 2, today)],
    "half_ago": lambda match, today: [  # 半年前, a fortnight ago
        days_ago(today, *_HALF_A_YEAR) if re.search("年|year", match[0], re.I) else week(today, 2)
    ],
    "chinese_month": _chinese_month,
    "near_month": lambda match, today: [
        month_back(today, _BACK.get(match["which_month"], 0), match["near_part"])
    ],
    "week": lambda match, today: [week(today, _BACK.get(match["which_week"], 0))],
    "days_ago": lambda _match, today: [days_ago(today, _FEW_DAYS, 0)._replace(near=True)],
    "recent": lambda _match, today: [days_ago(today, RECENT_DAYS, 0)._replace(near=True)],
    "ago": _counted_ago,
    "chinese_year": lambda match, today: [whole_year(today.year - _YEARS_BACK[match[0][0]])],
    "dotted": _dotted,
    "english_month": _english_month,
    "english_near": lambda match, today: [
        unit_back(match["what"].lower(), match["which"].lower() != "this", today)
    ],
}
"""What each form of a stretch means, by the name of its group in `_SPANS`."""


def _vaguely_ago(match: re.Match[str], today: date) -> TimeSpan:
    """From the most to the least that 几个月前 or `a few weeks ago` means."""
    least, most = _amount(match["vague"].lower())
    unit = _UNITS[match["vague_unit"] or match["vague_english"].lower()]
    return TimeSpan(ago(most, unit, today).first, ago(least, unit, today).last)


def _amount(amount: str) -> tuple[int, int]:
    """Return the least and the most that an amount such as 三四, `a few` or `several` means."""
    if "couple" in amount:
        return 1, 3
    if "few" in amount or amount in ("几", "幾"):
        return 2, 6
    if amount == "several":
        return 3, 9
    return numeral(amount[0]), numeral(amount[1].replace("兩", "两"))


# Stretches of less than a day


class Moment(NamedTuple):
    """A stretch from `begin` until `end`, which `text[start:stop]` names. `near` says that these words are found in
    any sentence (刚才, last night)."""

    start: int
    stop: int
    begin: datetime
    end: datetime
    near: bool


_LONGEST: Final = timedelta(hours=36)
"""People tell a greater distance in days."""
_LEAST_MARGIN: Final = timedelta(minutes=10)
_JUST_NOW: Final = timedelta(minutes=60)
"""What 刚才 and `just now` mean at most."""
_FEW: Final = (2, 6)
_CHINESE_NUMBER: Final = r"\d{1,3}|[一二两兩三四五六七八九十]{1,3}"
_ENGLISH_NUMBER: Final = (
    r"\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|thirty|forty(?:-five)?"
)
# From hour to hour; more than 24 is the next morning.
_PARTS_OF_DAY: Final = {
    **dict.fromkeys(words_between_bars("早上|早晨|清晨|早|晨|morning"), (5, 12)),
    "上午": (6, 12),
    "中午": (11, 14),
    **dict.fromkeys(("下午", "afternoon"), (12, 18)),
    "傍晚": (16, 20),
    **dict.fromkeys(words_between_bars("晚上|晚|夜里|夜|evening|night"), (17, 29)),
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
    """Return the stretches of less than a day that `text`, written at `now` (a local time), names, in order, as far
    as they have begun."""
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
    """Return `text` with a blank in place of each of these stretches, which are in order."""
    parts: list[str] = []
    position = 0
    for moment in moments:
        parts.append(text[position : moment.start])
        position = moment.stop
    parts.append(text[position:])
    return " ".join(parts)


def _stretch(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    """Return when the stretch of a match begins and ends, seen from `now`: earlier today, just now,
    a part of a day, or a distance with a margin that grows with it."""
    if match["just"]:
        if match["just"].lower() == "earlier today":
            return _midnight(now, 0), now
        return now - _JUST_NOW, now

    if match["part_of_day"]:
        day = match["day"] or match["day_before"] or match["english_day"].lower()
        part = match["part"] or match["part_before"] or match["english_part"].lower()
        first_hour, last_hour = _PARTS_OF_DAY[part]
        midnight = _midnight(now, _DAYS_BACK[day])
        return midnight + timedelta(hours=first_hour), midnight + timedelta(hours=last_hour)

    # The longer ago, the less exactly people mean it: the margin grows with the distance.
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
    """Return the least and the most time that a distance means: equal for a number, such as 1.5
    hours, and apart for "a few" and "a couple"."""
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
    if any(match[half] for half in words_between_bars("and_half|half_after|number_half|half_last")):
        number += 0.5
    return number * unit, number * unit


def _number(text: str) -> float:
    if text.isdigit():
        return float(text)
    word = text.split()[0].split("-")[0]
    if word in ("半", "half"):
        return 0.5
    return float(NUMBER_WORDS.get(word) or numeral(text.replace("兩", "两")))

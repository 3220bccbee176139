"""The single day that a sentence names, in relation to the day on which it was said. Pure.

A sentence that names several days names none here, unless exactly one is still to come. A sentence about what comes
again (every Friday) names none either, nor does a saying (改天, one day). Where people mean two days by the same words
(next Friday), both are named. `date_words.py` has the words by which days are named, and finds days for the index, in
which the year does not count and a doubtful day costs little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

from nlp.date_words import (
    NUMBER_WORDS,
    WEEKS,
    DayRange,
    clause_around,
    date_spans,
    end_of_month,
    later_month,
    near_day,
    numeral,
    ranges_of_days,
    tense_of,
    weekday_number,
)
from nlp.holidays import (
    HINTS,
    DaysOfYear,
    NamedHoliday,
    holds_one_of,
    holidays_in,
    lunar_days,
)
from nlp.once import Once

_DIGIT: Final = Once(lambda: re.compile("[0-9]|[一二三四五六七八九十]月"))
_TABLE: Final = "|"
"""The sign between the cells of a row, which is not a sentence."""
MOST_CHARS: Final = 600
"""Characters of a sentence; in a longer text, which may be code or a table, no day is looked for."""
_MOST_DAYS: Final = 4
"""Days that are looked for in a sentence: a sentence with so many is a list or a calendar."""
_WEEK: Final = timedelta(days=7)
_DAY: Final = timedelta(days=1)
_NIGHT_ENDS: Final = 5
"""The hour up to which tomorrow may be the day that has begun."""
_PLAN_DAYS: Final = 90
"""Days ahead, at most, of a plan for a day without a year."""


class ExactDay(NamedTuple):
    """The days from `first` to `last`, or, in `other`, the day that may be meant instead. `told`: the text itself says
    which day of the calendar it is. `rough`: it lies about there. `is_plan`: it was still to come when it was said."""

    first: date
    last: date
    other: date | None = None
    told: bool = False
    rough: bool = False
    is_plan: bool = False

    @property
    def is_long(self) -> bool:
        """Whether these are more than two days: a week is now, and a weekend today."""
        return (self.last - self.first).days > 1


def exact_day(sentence: str, said: datetime) -> ExactDay | None:
    """Return the only day that a sentence names, or None if it names no day or several."""
    return only_day(named_days(sentence, said), said)


def only_day(days: list[ExactDay], said: datetime) -> ExactDay | None:
    """Return the only one of these days, or the only one that was still to come; else None."""
    if len(days) > 1:
        days = [day for day in days if day.last > said.date()]
    return days[0] if len(days) == 1 else None


def named_days(sentence: str, said: datetime) -> list[ExactDay]:
    """Return the days that a sentence names, each once; none for a saying. Of a day that it names in two ways, as in
    "next Wednesday (24 June)", the date counts."""
    if len(sentence) > MOST_CHARS or _TABLE in sentence:
        return []
    try:
        plain = sentence.replace("’", "'")
        if _MOVES().search(plain):
            plain = _FORMER_DAY().sub("", plain)
        named: dict[object, ExactDay] = {}
        for day in _days_in(plain, said):
            named.setdefault(day[:4], day)  # 今天教师节我要去 has one day
    except (ValueError, OverflowError):
        return []  # beyond the range of dates
    days = list(named.values())
    if days and _NO_DAY().search(sentence.lower()):
        return []
    dates = {day.first for day in days if day.told}
    return [day for day in days if day.told or dates.isdisjoint((day.first, day.other))]


class _Mention:
    """A place in a sentence that was said at a time."""

    def __init__(self, sentence: str, said: datetime, start: int, end: int) -> None:
        self.day: Final = said.date()
        self.is_night: Final = said.hour < _NIGHT_ENDS
        self.before: Final = sentence[:start]
        self._after: Final = sentence[end:]
        self._clause: Final = clause_around(sentence, start, end)

    @property
    def is_past(self) -> bool | None:
        """Whether the clause tells of what is over, or None if it tells of both."""
        if _LEADS_TO().search(self.before) or _SOON().search(self._clause):
            return False
        if _OF_SAYING().match(self._after):
            return True
        clause = _PRESENT().sub(" ", self._clause)
        is_future, is_past = tense_of(clause)
        is_future = is_future or _MORE_FUTURE().search(clause) is not None
        is_past = is_past or _MORE_PAST().search(clause) is not None
        return None if is_future and is_past else is_past

    @property
    def is_planned(self) -> bool:
        """Whether the clause says that something is still to come."""
        is_future, is_past = tense_of(_PRESENT().sub(" ", self._clause))
        return is_future and not is_past

    @property
    def is_usual(self) -> bool:
        return _USUALLY().search(self._clause) is not None

    @property
    def is_doubtful(self) -> bool:
        """Whether it is not clear which of the days of a name is meant."""
        return self.is_past is None or self.is_usual

    def monday(self, weeks: int) -> date:
        return self.day - timedelta(days=self.day.weekday()) + weeks * _WEEK

    def nearest(self, weekday: int) -> date | None:
        """Return the day of a weekday alone: the last such day if something is told as past, else the next. Return
        None if it is doubtful which day is meant."""
        ahead = (weekday - self.day.weekday()) % 7
        if not ahead or self.is_doubtful:
            return None
        return self.day + timedelta(days=ahead - 7 if self.is_past else ahead)

    def at(self, day: date, *, rough: bool = False) -> ExactDay:
        return ExactDay(day, day, rough=rough, is_plan=day > self.day)

    def either(self, day: date, other: date) -> ExactDay:
        return ExactDay(day, day, other=other, is_plan=max(day, other) > self.day)

    def span(self, first: date, last: date) -> ExactDay:
        """Several days: a plan, unless they are over, or something is told as past."""
        is_plan = first > self.day or (last >= self.day and self.is_past is False)
        return ExactDay(first, last, is_plan=is_plan)

    def told(self, day: date, *, is_plan: bool) -> ExactDay:
        return ExactDay(day, day, told=True, is_plan=is_plan)


_Reader = Callable[[re.Match[str], _Mention], ExactDay | None]
"""A function that returns the day which a match names in what was said, or None."""


def _days_in(sentence: str, said_at: datetime) -> Iterator[ExactDay]:
    """Yield the days that a sentence names, at most one for each place; an earlier rule wins over a later one."""
    taken: list[tuple[int, int]] = []
    lowered = sentence.lower()
    has_digit = _DIGIT().search(sentence) is not None
    stretches = list(ranges_of_days(sentence)) if has_digit else []
    for stretch in stretches[:_MOST_DAYS]:
        taken.append((stretch.start, stretch.end))
        yield from _told_days(stretch, _Mention(sentence, said_at, stretch.start, stretch.end))

    for form in _forms_in(lowered):
        for match in form.pattern().finditer(lowered):
            if len(taken) > _MOST_DAYS:
                return
            if _overlaps(taken, *match.span()):
                continue
            taken.append(match.span())
            day = form.read(match, _Mention(lowered, said_at, *match.span()))
            if day is not None:
                yield day

    for holiday in islice(holidays_in(sentence), _MOST_DAYS):
        if not _overlaps(taken, holiday.start, holiday.end):
            taken.append((holiday.start, holiday.end))
            saying = _Mention(sentence, said_at, holiday.start, holiday.end)
            yield from _days_of_holiday(holiday, sentence, saying)

    # Every date that is told with its month has a digit.
    if not has_digit:
        return
    for span in islice(date_spans(sentence, said_at.date()), _MOST_DAYS):
        if not span.relative and not _overlaps(taken, span.start, span.end):
            saying = _Mention(sentence, said_at, span.start, span.end)
            year = re.match(r"\d{4}", sentence[span.start : span.end])
            told = DayRange(span.start, span.end, span.word, span.word, year and int(year[0]))
            yield from _told_days(told, saying)


def _forms_in(lowered: str) -> Iterator[_Form]:
    """Yield the forms that a sentence in small letters may have."""
    if is_chinese(lowered):
        forms = _CHINESE_FORMS()
    elif holds_one_of(lowered, _ENGLISH_HINTS):
        forms = _ENGLISH_FORMS()
    else:
        return
    for form in forms:
        if holds_one_of(lowered, form.hints):
            yield form


def may_name_far_day(text: str) -> bool:
    """Return whether a text may name a day that is more than two weeks away."""
    return holds_one_of(text.lower(), _FAR_HINTS)


def is_chinese(sentence: str) -> bool:
    """Return whether a sentence has a Chinese character. A pattern of them would take 2 ms to compile."""
    return not sentence.isascii() and any("\u3400" <= char <= "\u9fff" for char in sentence)


def _overlaps(taken: list[tuple[int, int]], start: int, end: int) -> bool:
    return any(first < end and start < last for first, last in taken)


def _days_of_holiday(holiday: NamedHoliday, sentence: str, saying: _Mention) -> Iterator[ExactDay]:
    """Yield the day of a holiday such as 除夕 or Christmas Eve: the last one if the sentence tells of something past, and
    the next one otherwise. Yield nothing if the sentence names a year, or does not say whether it tells of the past."""
    has_year = holiday.year is not None or holiday.year_from_now is not None
    distance = _distance_of(holiday, sentence, saying)
    if has_year or saying.is_doubtful or distance is None:
        return
    name = sentence[holiday.start : holiday.end]
    if name.isascii() and not _IS_A_DAY().search(sentence[: holiday.start]):
        return  # Christmas presents
    # People wish a happy new year on any of the first days, and before.
    if name == "拜年" or _WISH().match(sentence, holiday.end):
        return
    day = _nearest_of(holiday.holiday.days_in, saying, distance)
    if day is not None:
        yield day


def _nearest_of(days_in: DaysOfYear, saying: _Mention, distance: timedelta) -> ExactDay | None:
    """Return the day at this distance from a day that comes each year. It is the last such day up to the saying if
    something is told as past, else the next one. What is said on such a day is of that day, and not a plan. Return None
    if the Chinese calendar is not known then."""
    years = range(saying.day.year - 1, saying.day.year + 3)
    days = sorted(day + distance for year in years for day in days_in(year))
    if saying.is_past:
        nearest = [day for day in days if day <= saying.day][-1:]
    else:
        nearest = [day for day in days if day >= saying.day][:1]
    if not nearest:
        return None
    if nearest == [saying.day] and not saying.is_past:
        return saying.told(saying.day, is_plan=False)
    return saying.at(nearest[0])


def _distance_of(holiday: NamedHoliday, sentence: str, saying: _Mention) -> timedelta | None:
    """Return how far from a holiday the day is: `the day after Christmas`, 国庆前两天. None if no single day is named, as
    in `after Christmas`."""
    before = _BEFORE_HOLIDAY().search(sentence[: holiday.start])
    match = before or _AFTER_HOLIDAY().match(sentence[holiday.end :])
    if match is None:
        return 0 * _DAY
    way = _part(match, "way")
    if not way:
        return _DAY  # 中秋第二天
    back = way in ("before", "前")
    unit = _part(match, "unit")
    if not unit:
        return 0 * _DAY if back else None  # what is done before it has that day
    number = _number(match["count"]) or 1
    return _later(saying.day, -number if back else number, unit) - saying.day


def _told_days(told: DayRange, saying: _Mention) -> Iterator[ExactDay]:
    """Yield a day or a stretch that the text names with its month: the next one, a plan if nothing is told as past or
    usual. If none is soon enough, yield the day of the saying instead, not as a plan."""
    is_plan = saying.is_past is False and not saying.is_usual
    if saying.before.endswith(("明年", "明年的")):
        told = told._replace(year=saying.day.year + 1)
    for year in (told.year or saying.day.year, told.year or saying.day.year + 1):
        try:
            first, last = told.in_year(year)
        except ValueError:
            continue  # 29 February
        if first > saying.day and (told.year or (first - saying.day).days <= _PLAN_DAYS):
            yield ExactDay(first, last, told=True, is_plan=is_plan)
            return
    yield saying.told(saying.day, is_plan=False)


def _month_day(first_of_month: date, number: int) -> date | None:
    """Return the day of this number in a month, or None if the month has no such day."""
    if not 1 <= number <= end_of_month(first_of_month).day:
        return None
    return first_of_month.replace(day=number)


def _later(day: date, number: int, unit: str) -> date:
    """Return the day so many days, weeks or months later; in a shorter month its last day."""
    if "month" in unit or "月" in unit:
        first = later_month(day, number)
        return min(end_of_month(first), first + timedelta(days=day.day - 1))
    name = unit.removesuffix("s") if unit.isascii() else unit[-1]
    return day + timedelta(days=number * _UNIT_DAYS[name])


def _number(text: str) -> int:
    """Return the number of 3, 三, 两, three or `a`, or 0 for any other text."""
    return NUMBER_WORDS.get(text.lower()) or numeral(text)


def _ordinal(text: str) -> int:
    """Return the number of `twenty-first`, or 0 for any other text."""
    forms = enumerate(_ORDINALS.split("|"), 1)
    numbers = [number for number, form in forms if re.fullmatch(form, text)]
    return sum(numbers)


def _part(match: re.Match[str], name: str) -> str:
    """Return what a group of the form matched, in small letters; empty if the form has no such group."""
    return (match.groupdict().get(name) or "").lower()


def _counted(
    day: date, count: str, unit: str, saying: _Mention, *, back: bool = False
) -> ExactDay | None:
    """Return the day so many units after a day, or with `back` before it, or None if `count` is not a number."""
    number = _number(count)
    if not number:
        return None
    later = _later(day, -number if back else number, unit)
    return saying.at(later, rough="month" in unit or "月" in unit)


def _near(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the day of 昨天, tomorrow, the day after tomorrow, tonight."""
    days = near_day(match[0])
    if days == 0:
        return saying.told(saying.day, is_plan=saying.is_planned)
    day = saying.day + days * _DAY
    if days > 0 and saying.is_night:
        return saying.either(day - _DAY, day)
    return saying.at(day)


def _weekday(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the day or the days of 下周三, 周三, 周一到周三, On Sunday, Monday to Wednesday, Tuesday of next
    week, or None if it is not clear which."""
    weekday = weekday_number(match["day"])
    if _NO_WEEKDAY().search(saying.before):
        return None
    which = _part(match, "which")
    first = saying.nearest(weekday)
    if which:
        first = saying.monday(WEEKS[which.lower()]) + weekday * _DAY
    if first is None:
        return None
    if _part(match, "until"):
        days = (weekday_number(_part(match, "until")) - weekday) % 7
        has_begun = not which and saying.day <= first - _WEEK + days * _DAY
        return None if has_begun else saying.span(first, first + days * _DAY)
    return saying.at(first)


def _lunar(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the day of 正月初五, 大年初二, 农历八月十五, 腊月二十三, or None if the Chinese calendar has no such day, or if
    it is not said whether it is past."""
    name = _part(match, "month") or "正"
    month = _NAMED_MONTHS.get(name) or numeral(name)
    number = numeral(match["number"].removeprefix("初"))
    if not (1 <= month <= 12 and 1 <= number <= 30) or saying.is_doubtful:
        return None
    return _nearest_of(lunar_days(month, number), saying, 0 * _DAY)


def _next_weekday(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the day of next Friday, last Monday, this coming Sunday, the Friday after next; both
    days where people mean either."""
    which = _part(match, "which")
    ahead = (weekday_number(match["day"]) - saying.day.weekday()) % 7
    coming = saying.day + (ahead or 7) * _DAY
    days_gone = saying.day + (ahead - 7) * _DAY
    if which == "next":
        is_this_week = coming < saying.monday(1)
        return saying.either(coming, coming + _WEEK) if is_this_week else saying.at(coming)
    if which == "after next":
        return saying.at(coming + _WEEK)
    if which == "last":
        is_this_week = days_gone >= saying.monday(0)
        return saying.either(days_gone - _WEEK, days_gone) if is_this_week else saying.at(days_gone)
    return saying.at(days_gone if which.endswith("past") else coming)


def _weekend(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the days of 周末, 下周末, this weekend, the weekend after next, or None if it is not clear which."""
    which = _part(match, "which")
    weeks = WEEKS.get(which, 0)
    if not which:
        if saying.is_doubtful:
            return None
        weeks = -1 if saying.is_past else 0
    if which == "next" and saying.day.weekday() < _FRIDAY:
        return None  # this one or the one after it
    saturday = saying.monday(weeks) + 5 * _DAY
    return saying.span(saturday, saturday + _DAY)


def _whole(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the days of 下周, 上上个星期, next week, the week after next, 下个月, next month."""
    which = WEEKS[_part(match, "which")]
    if "month" in match[0] or "月" in match[0]:
        first = later_month(saying.day, which)
        return saying.span(first, end_of_month(first))
    monday = saying.monday(which)
    return saying.span(monday, monday + 6 * _DAY)


def _part_of_month(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the rough day of 月底, 下个月初, the end of the month."""
    first = later_month(saying.day, WEEKS[_part(match, "which") or "this"])
    part = match["part"].lower()
    if part in ("初", "beginning", "start"):
        return saying.at(first, rough=True)
    if part in ("中", "middle"):
        return saying.at(first + 14 * _DAY, rough=True)
    return saying.at(end_of_month(first), rough=True)


def _numbered(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the day of 下个月3号, 十五号, on the 5th, the 12th of next month, or None if it is not clear
    which, or that month has no such day."""
    number = _ordinal(_part(match, "ordinal")) or _number(match["number"])
    if _part(match, "which"):
        named = _month_day(later_month(saying.day, WEEKS[_part(match, "which")]), number)
        return None if named is None else saying.at(named)
    if saying.is_doubtful or number == saying.day.day:
        return None
    for months in (0, -1 if saying.is_past else 1):
        day = _month_day(later_month(saying.day, months), number)
        if day is not None and (day < saying.day) == saying.is_past:
            return saying.at(day)
    return None


def _numbered_stretch(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the days of 15-17号, 下个月3号到5号, the 15th to the 17th, or None if it is not clear which they are, or
    some of them are over."""
    first = _numbered(match, saying)
    until = _number(match["until"])
    if first is None:
        return None
    last = _month_day(first.first, until)
    is_next_month = not _part(match, "which") and first.first.month != saying.day.month
    has_begun = is_next_month and until >= saying.day.day
    if last is None or last <= first.first or has_begun:
        return None
    return saying.span(first.first, last)


def _distance(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the day of 三天后, 两周前, 半个月后, 还有三天, in three days, a fortnight ago, ten days to go; None
    for a time to come, unless the clause tells of what is to come."""
    back = _part(match, "back") in ("前", "ago")
    if not back and saying.is_past is not False:
        return None  # 三天后他又来了, I read it in three days
    if match["count"] == "半":
        return saying.at(saying.day + timedelta(days=-15 if back else 15), rough=True)
    return _counted(saying.day, match["count"], match["unit"], saying, back=back)


def _from_day(match: re.Match[str], saying: _Mention) -> ExactDay | None:
    """Return the day of three weeks from Saturday, a week tomorrow, Friday week, or None if it is not clear which."""
    name = match["day"].lower()
    day: date | None = saying.day
    if name == "tomorrow":
        day = saying.day + _DAY
    elif name not in ("now", "today"):
        day = saying.nearest(weekday_number(name))
    if day is None:
        return None
    return _counted(day, _part(match, "count") or "a", match["unit"], saying)


_FRIDAY: Final = 4
_NAMED_MONTHS: Final = {"正": 1, "冬": 11, "腊": 12, "臘": 12}
"""Months of the Chinese calendar that have a name."""
_UNIT_DAYS: Final = {
    "day": 1, "sleep": 1, "天": 1, "日": 1, "week": 7, "周": 7, "週": 7, "期": 7, "拜": 7, "fortnight": 14,
}  # fmt: skip
_ORDINALS: Final = (
    "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|thirteenth|"
    "fourteenth|fifteenth|sixteenth|seventeenth|eighteenth|nineteenth|twentieth|twenty[- ]first|"
    "twenty[- ]second|twenty[- ]third|twenty[- ]fourth|twenty[- ]fifth|twenty[- ]sixth|"
    "twenty[- ]seventh|twenty[- ]eighth|twenty[- ]ninth|thirtieth|thirty[- ]first"
)


class _Form(NamedTuple):
    """A form of days: its pattern, with the groups for which `read` asks, and `hints`, some of which are in each
    sentence that has the form."""

    hints: tuple[str, ...]
    pattern: Once[re.Pattern[str]]
    read: _Reader


def _form(hints: str, pattern: str, read: _Reader) -> _Form:
    return _Form(tuple(hints.split("|")), Once(lambda: re.compile(pattern)), read)


_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b"
)


def _chinese_forms() -> tuple[_Form, ...]:
    """Return the forms in which Chinese sentences name a day; an earlier form wins."""
    which = "(?P<which>上上|上|[这這本]|下下|下)"
    week = "(?:[周週]|星期|[礼禮]拜)"
    weeks = "周|週|期|拜"
    weekday = "[一二三四五六日天]"
    han = "[一二三四五六七八九十]"
    count = rf"(?<![\d一二三四五六七八九十百第几幾])(?P<count>\d{{1,3}}|[两兩]|{han}{{1,3}})"
    unit = f"(?P<unit>天|[个個]?{week}|[个個]月)"
    number = rf"(?P<number>\d{{1,2}}|{han}{{1,3}})"
    to_number = rf"[日号號]?\s?[-–—~～到至]{{1,2}}\s?(?P<until>\d{{1,2}}|{han}{{1,3}})[日号號]"
    until = f"(?:[到至](?:[下上这這本][个個]?)?{week}?(?P<until>{weekday}))?"

    # A number with such a word counts things: 3号线, 三号楼.
    no_thing = "(?![线線楼樓店门門院馆館机機桌位床选選车車厅廳台码碼球电電舱艙口])"

    near = "(?<!大)大?[前后後]天(?!性)|[昨今明][天日晚早晨夜儿兒]|(?<![日节節睡饭飯以之提考行])[前后][晚夜](?!半)"
    no_more = "[二三四五六]|一(?![早大起定])|(?<=六)[日天]"
    # 周六（18号）: the date says which day it is.
    no_date = r"(?![\s,，（(]{0,2}(?:\d{1,2}月\d{1,2}日|(?:\d{1,2}月)?\d{1,2}[号號]))"
    not_weekly = f"(?<![每上下这這本个個]){week}(?P<day>{weekday}){until}(?!综合|綜合|[次个個围圍常月]|{no_more}){no_date}"
    days_left = f"(?:[还還][有剩]|再[过過]|[离離距][^，。]{{1,10}}[还還]?有){count}{unit}(?=[就才到开開，。！]|$)"
    month_end = r"(?<![\d一二三四五六七八九十岁歲年每])(?<!每[个個])月(?P<part>[底末])"
    begins = r"(?<![\d一二三四五六七八九十第月./路街道巷弄村驿-])(?<!月的)"
    day_of_month = f"{begins}{number}[号號]{no_thing}"
    days_of_month = f"{begins}{number}{to_number}{no_thing}"

    # A month that is not of the Chinese calendar by its name is so by the word 农历 or by a day such as 初五.
    calendar = "[农農阴陰旧舊][历曆]的?"
    month = f"(?<![闰閏])(?P<month>[正冬腊臘]|{han}{{1,2}})月"
    first_days = f"初{han}"
    # 三月初一起去 and 2027年初三个人 tell of the beginning of a month or a year, and 那年初二 may tell of a class.
    no_count = "(?![二三四五六七八九十个個位名天次周週点點])(?!(?<=初一)[起定直些般样樣共家])"
    no_year = r"(?<![\d〇零一二三四五六七八九十几幾两兩年那今去明前后後半每])年"
    lunar_number = f"(?P<number>{first_days}|[廿二三]?{han}{{1,2}})"

    # The order counts: an earlier form wins.
    return (
        _form("历|曆", f"{calendar}{month}{lunar_number}", _lunar),
        _form("正|冬|腊|臘", f"(?<![闰閏])(?P<month>[正冬腊臘])月{lunar_number}", _lunar),
        _form("月初", f"(?<![上下这這本个個]){month}(?P<number>{first_days}){no_count}", _lunar),
        _form("大年初", f"大年(?P<number>{first_days})", _lunar),
        _form("年初", f"{no_year}(?P<number>{first_days}){no_count}", _lunar),
        _form("天|昨|今|明|晚|夜", near, _near),
        _form(
            weeks,
            f"{which}[个個]?{week}(?P<day>{weekday}){until}(?!次|{no_more})",
            _weekday,
        ),
        _form(weeks, not_weekly, _weekday),
        _form("末", f"(?<!每)(?<!每[个個]){which}?[个個]?[周週]末(?!愉快|快[乐樂])", _weekend),
        _form(weeks, f"{which}[个個]?{week}(?![末一二三四五六日天])", _whole),
        _form("月", f"{which}[个個]?月的?(?P<part>[底末中]|初(?!{han}))", _part_of_month),
        _form("月", month_end, _part_of_month),
        _form("月", f"{which}[个個]?月的?{number}{to_number}", _numbered_stretch),
        _form("月", f"{which}[个個]?月的?{number}[号號日]", _numbered),
        _form("号|號|日", days_of_month, _numbered_stretch),
        _form("号|號", day_of_month, _numbered),
        _form("月", rf"(?<!每){which}[个個]?月(?![\d一二三四五六七八九十饼餅亮初])", _whole),
        _form("半", "(?P<count>半)(?P<unit>[个個]月)[之以]?(?P<back>[前后後])", _distance),
        _form("前|后|後", f"{count}{unit}[之以]?(?P<back>[前后後])(?![面来來])", _distance),
        _form("有|剩|再过|再過", days_left, _distance),
    )


def _english_forms() -> tuple[_Form, ...]:
    """Return the forms in which English sentences name a day; an earlier form wins."""
    count = r"\b(?P<count>\d{1,3}|" + "|".join(sorted(NUMBER_WORDS, key=len, reverse=True)) + ")"
    unit = "(?P<unit>(?:day|week|fortnight|month)s?)"
    weekday = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    day = f"(?P<day>{weekday})"
    short_day = r"(?P<day>mon|tues?|wed|thu(?:rs?)?|fri)\b(?![-'’])"
    which = r"\b(?P<which>this|next|last)"

    nth = rf"the (?:(?P<number>\d{{1,2}})(?:st|nd|rd|th)|(?P<ordinal>{_ORDINALS}))\b"
    no_noun = (
        r"(?=\s*(?:$|[.,;:!?)–—-]|(?:at|and|so|with|if|for|to|we|i|you|it|he|she|they|but|or|because|cos|in|when|as"
        r"|morning|evening|afternoon|night|is|was)\b))"
    )

    to_nth = r"(?: ?[-–] ?| (?:to|through|till|until) )(?:the )?(?P<until>\d{1,2})(?:st|nd|rd|th)"
    near = (
        r"\b(?:(?:the )?day (?:after tomorrow|before yesterday)|the night before last|last night|yesterday|today|tonight"
        r"|this (?:morning|afternoon|evening)|tomorrow)\b"
    )

    # Saturday, 18 April: the date says which day it is.
    no_date = rf"(?!,? (?:the )?\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}|,? {_MONTH} \d)"
    from_to = rf"\b(?:this )?{day}(?: (?:to|through|till|until) (?P<until>{weekday}))?\b(?! (?:school|times|roast|best)){no_date}"
    which_weekday = rf"\b(?P<which>next|last|this past|this coming|past|coming) {day}\b"
    days_left = (
        rf"{count} (?:more )?(?P<unit>(?:day|sleep|week)s?) (?:left )?(?:until|till|to go)\b"
    )
    weeks = "week|fortnight"
    which_weekend = r"\b(?P<which>this coming|this past|this|next|last) weekend\b|\bthe weekend\b"

    # The order counts: an earlier form wins.
    return (
        _form(
            f"{weeks}|from",
            rf"{count} {unit} (?:from |on )?(?P<day>now|today|tomorrow|{weekday})\b",
            _from_day,
        ),
        _form(weeks, rf"\b(?P<day>{weekday}|tomorrow|today) (?P<unit>week|fortnight)\b", _from_day),
        _form("today|tonight|tomorrow|yesterday|night|this ", near, _near),
        _form("in ", rf"\bin {count} {unit}\b(?:['’]? time)?(?! (?:or|and|to|flat)\b)", _distance),
        _form("ago", rf"{count} {unit} (?P<back>ago)\b", _distance),
        _form("until|till|to go", days_left, _distance),
        _form("week", rf"\b{day},? (?:of )?{which} week\b", _weekday),
        _form("week", rf"{which} week,? (?:on )?{day}\b", _weekday),
        _form("after next", rf"\b(?:the )?{day} (?P<which>after next)\b", _next_weekday),
        _form("next|last|past|coming", which_weekday, _next_weekday),
        _form("next|last", rf"\b(?P<which>next|last) {short_day}", _next_weekday),
        _form("day the ", rf"\b{weekday},? {nth}{no_noun}", _numbered),
        _form("day", from_to, _weekday),
        _form(" mon| tue| wed| thu| fri", rf"\b(?:on|by|until|till|this) {short_day}", _weekday),
        _form("weekend", r"\bthe weekend (?P<which>after next|before last)\b", _weekend),
        _form("weekend", which_weekend, _weekend),
        _form("the week", r"\bthe week (?P<which>after next|before last)\b", _whole),
        _form("week", rf"{which} week\b", _whole),
        _form(
            "month",
            r"\b(?P<part>beginning|start|middle|end) of (?P<which>the|this|next|last) month\b",
            _part_of_month,
        ),
        _form("the ", rf"\b{nth}{to_nth}(?: of {which} month\b|{no_noun})", _numbered_stretch),
        _form("month", rf"\b{nth} of {which} month\b", _numbered),
        _form("month", rf"{which} month,? on {nth}", _numbered),
        _form("the ", rf"\b(?:on|by|until|till|from|is|it's|for) {nth}{no_noun}", _numbered),
        _form("month", rf"{which} month\b", _whole),
    )


_HINTS: Final = (
    "day|week|month|night|tomorrow| ago|morning|evening|afternoon| sat| sun| mon| tue| wed| thu| fri|"
    "on the |by the |is the |it's the |till the |until the |from the |for the |sleeps|st to |nd to |rd to |th to "
    "|st through|nd through|rd through|th through"
)
_ENGLISH_HINTS: Final = _HINTS.split("|")
"""Each English sentence that has a form has some of these parts."""
_FAR: Final = (
    "week|month|january|february|march|april|may |june|july|august|september|october|november|december|days"
    "|月|周|週|星期|号|號|后|後"
)
_FAR_HINTS: Final = (*_FAR.split("|"), *HINTS)
_CHINESE_FORMS: Final = Once(_chinese_forms)
_ENGLISH_FORMS: Final = Once(_english_forms)

_NO_DAY: Final = Once(
    lambda: re.compile(
        r"明天[会會]更好|明天和意外|改天|三天打[鱼魚]|三天[两兩]头|今天不学习|活在今天|[没沒]有明天|不知道明天|昨日重[现現]|明日[之黄黃]|今日事"
        r"|有朝一日|有一天|哪天|某天|哪一天|[过過][两兩几幾]天|[这這][两兩几幾]天|昨天的(?:自己|我)|明天的(?:自己|我)|昨天今天|今天明天"
        r"|\b(?:one|any|some) of these days\b|\b(?:one|some ?|any) ?day\b(?! (?:ago|from|before|after|left|to))|\bthe other day\b"
        r"|month of sundays|\bno tomorrow\b|tomorrow(?:['’]s| is| never| me\b)|\b(?:of|better|about) tomorrow\b|born yesterday"
        r"|yesterday['’]s|like (?:it was |only )?yesterday|monday morning quarterback|never on a|here today|gone tomorrow"
        r"|it['’]?s friday|into (?:the middle of )?next week|from sunday|any given|case of the mondays",
        re.IGNORECASE,
    )
)
"""Sayings with words of days that name no day."""
_MOVES: Final = Once(
    lambda: re.compile(
        r"[改挪调調前迟遲][到至成]|\b(?:moved|changed|rescheduled|shifted|postponed|forward) (?:to|from)\b",
        re.IGNORECASE,
    )
)
"""In each text that `_FORMER_DAY` matches, and found a hundred times as fast."""
NEW_DAY: Final = (
    r"(?:大?[今明后後]天|[今明][早晚]|(?:下+|[这這本])?[个個]?(?:[周週]|星期|[礼禮]拜)[一二三四五六日天末]"
    r"|下+[个個]?(?:[周週]|月|星期|[礼禮]拜)|月[底末]|[\d一二三四五六七八九十]{1,3}(?:月|[号號]))"
)
NEW_ENGLISH_DAY: Final = (
    r"(?:(?:the|next|this|coming) ){0,2}(?:\w{2,6}day\b|tomorrow|tonight|weekend|week|month|\d{1,2}(?:st|nd|rd|th)\b"
    rf"|\d{{1,2}} {_MONTH}|{_MONTH} \d)"
)
_FORMER_DAY: Final = Once(
    lambda: re.compile(
        rf"[^,，;；。!！每]{{1,80}}(?=(?:改|挪|[调調]|提前|推[迟遲])[到至成]{NEW_DAY}"
        rf"|\b(?:moved|changed|rescheduled|shifted|postponed|brought forward) to {NEW_ENGLISH_DAY})"
        rf"|\b(?:moved|changed|rescheduled|shifted|postponed) from [^,;.]{{1,40}} (?=to {NEW_ENGLISH_DAY})",
        re.IGNORECASE,
    )
)
"""What a clause says before the new day of what moved: 明天的会改到后天了."""
_WISH: Final = Once(
    lambda: re.compile("[节節]?[日假]?[期]?(?:快[乐樂]|愉快|安康|吉祥|好(?=$|[呀啊哦！!，,。~ ]))")
)
"""What follows the name of a holiday in a wish: 圣诞快乐, 过年好."""
_USUALLY: Final = Once(
    lambda: re.compile(
        r"每|一般|通常|[总總][是会會]|老是|[经經]常|常常|平[时時]|[习習][惯慣]|往往|向[来來]|都[会會]|[从從][来來]|以前|有[时時]"
        r"|偶[尔爾]"
        r"|\b(?:(?:every|each|most)(?! \w+ years)|usually|always|often|normally|generally|typically|never"
        r"|sometimes|tend to|used to|whenever)\b",
        re.IGNORECASE,
    )
)
"""A clause with any of these tells of what comes again."""
_LEADS_TO: Final = Once(
    lambda: re.compile(
        r"\b(?:for|by|until|till|before|to|come)(?: the)? $|(?:[到截在]|[订訂约約报報]了)$",
        re.IGNORECASE,
    )
)
"""Before a day that is still to come, whatever the tense."""
_SOON: Final = Once(
    lambda: re.compile(
        "(?:快|要|该|該|可以|[终終]于能|(?:[还還][有剩]|再[过過])[^，。,]{1,3}(?:天|[周週]|星期|[礼禮]拜|月)[^，。,]{0,3}就"
        "|不[去来來用上])[^，。,]{0,8}了"
    )
)
"""要…了 and 还有十天就…了 tell of what is to come, although they have 了."""
_PRESENT: Final = Once(
    lambda: re.compile(
        r"\b(?:i['’]?m|you['’]re|we['’]re|they['’]re|(?:he|she|it|that|who)['’]s|am|is|are|be|being|get|gets|getting|so|really|too|very"
        r"|i['’]ve|we['’]ve|they['’]ve|have|has) (?:\w+ ){0,2}?(?:[a-z]{2,}ed|got|made|said|told|met|bought|been|taken|given)\b"
        r"|\bhow (?:it|that|things) went\b"
        r"|\b(?:scared|excited|tired|worried|supposed|invited|interested|married|bored|stressed|terrified|used to)\b",
        re.IGNORECASE,
    )
)
"""Participles that do not tell of a day that is over."""
_MORE_FUTURE: Final = Once(lambda: re.compile("可以|终于能|終於能|得[去上在]|[等待]"))
_MORE_PAST: Final = Once(
    lambda: re.compile(
        r"[去前]年|\blast year\b"
        r"|\b(?:lost|won|broke|fell|left|ran|sat|slept|drank|wrote|drove|flew|sang|began|found|forgot|heard|kept|knew|led|paid|rang|rode"
        r"|sent|sold|stood|stole|swam|taught|thought|threw|wore|woke|became|built|caught|chose|dreamt|fought|grew|hid|hurt|spoke|couldn['’]t"
        r"|wasn['’]t|weren['’]t|since)\b",
        re.IGNORECASE,
    )
)
_BEFORE_HOLIDAY: Final = Once(
    lambda: re.compile(
        rf"(?:\b(?P<count>the|\d{{1,2}}|{'|'.join(NUMBER_WORDS)}) (?P<unit>day|week|fortnight)s? )?\b(?P<way>before|after) $",
        re.IGNORECASE,
    )
)
_AFTER_HOLIDAY: Final = Once(
    lambda: re.compile(
        r"[节節]?(?:[之以]?(?P<way>[前后後])"
        r"(?:(?P<count>\d{1,2}|[一二两兩三四五六七八九十]{1,2})(?P<unit>[天日]|[个個]?(?:[周週]|星期)))?|的?第二[天日])"
    )
)
"""How far from a holiday a day is, before its English name and after its Chinese name."""
_OF_SAYING: Final = Once(
    lambda: re.compile("(?:[跟和对對][^，。]{1,3}?)?[说說讲講提聊问問](?:的|[过過]|起|到)")
)
"""After a day on which something was said."""
_IS_A_DAY: Final = Once(
    lambda: re.compile(
        r"(?:^|[.,;:!?] ?|\b(?:on|at|for|over|by|until|till|before|after|this|is|come|since|and|from|during|last) )$",
        re.IGNORECASE,
    )
)
"""Before the English name of a holiday where it is the day itself."""
_NO_WEEKDAY: Final = Once(
    lambda: re.compile(
        r"\b(?:easter|black|good|ash|palm|maundy|cyber|giving|shrove|bowl|casual|girl|man|taco|bloody|ruby|blue|manic|super"
        r"|every|each|most|a|other) $|(?:\d{1,2}[号號]|月\d{1,2}日)[\s（(]{0,2}$"
        rf"|\b(?:{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH})[\s(]{{1,3}}$",
        re.IGNORECASE,
    )
)
"""Before a weekday that is a part of another name, or of what comes again, or that belongs to a date."""

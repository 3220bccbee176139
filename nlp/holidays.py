"""Holidays by their names, in English and Chinese, and the days on which they fall: "at Christmas", 去年中秋. Pure.

A holiday means the day itself and the days around it, because people speak of it before and afterwards. Names that
mostly mean something else (十一, `May Day`) are not here, or only together with a word such as 假期.

Sources: the Gregorian computus in the form of Meeus, Jones and Butcher (Easter); the formulas of the solar terms 清明
and 冬至 for 1900 to 2100, compared with computed longitudes of the sun.

Lunar holidays need the Chinese calendar from 1900 to 2100: which day is the 15th of the eighth month, and the other
way round.

A year begins with the day of a new moon in January or February, and has 12 or 13 months of 29 or 30 days. A leap
month has the number of the month before it. Which months are long and which is a leap month follows from the sun and
the moon in the time zone of China, so it is a table.

Sources: GB/T 33661-2017 (the rules of the calendar). The lengths were compared with published tables, and from 1929
with computed new moons and solstices. They differ in three months: the new moons of 28 September 2057, 4 September
2089 and 7 August 2097 are within three minutes of midnight. The last two are here as they were computed. The new moon
of 2057 is ten seconds before midnight, which cannot be computed so exactly today, so it is here as in the tables.
Earlier years are here as they were used at that time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Final, TypeAlias

from nlp.once import Once

# The Chinese calendar

FIRST_YEAR: Final = 1900
_FIRST_DAY: Final = date(1900, 1, 31)
_YEARS: Final = """
816d2 00752 00ea5 5164a 0064b 00a9b 41556 0056a 00b59 21752 00752 61b25 00b25 00a4b 514ab 002ad 0056b 20b69
00da9 71d92 00e92 00d25 51a4d 00a56 002b6 415b5 006d4 00ea9 21e92 00e92 60d26 0052b 00a57 512b6 00b5a 006d4
30ec9 00749 71693 00a93 0052b 60a5b 00aad 0056a 41b55 00ba4 00b49 21a93 00a95 7152d 00536 00aad 515aa 005b2
00da5 31d4a 00d4a 80a95 00a97 00556 60ab5 00ad5 006d2 40ea5 00ea5 0064a 30c97 00a9b 7155a 0056a 00b69 51752
00b52 00b25 4164b 00a4b 814ab 002ad 0056d 60b69 00da9 00d92 41d25 00d25 a1a4d 00a56 002b6 605b5 006d5 00ea9
51e92 00e92 00d26 30a56 00a57 814d6 0035a 006d5 516c9 00749 00693 4152b 0052b 00a5b 2155a 0056a 71b55 00ba4
00b49 51a93 00a95 0052d 40aad 00ab5 915aa 005d2 00da5 61d4a 00d4a 00c95 4152e 00556 00ab5 215b2 006d2 60ea5
00725 0064b 50c97 00cab 0055a 30ad6 00b69 b1752 00b52 00b25 61a4b 00a4b 004ab 5055b 005ad 00b6a 21b52 00d92
71d25 00d25 00a55 514ad 004b6 005b5 30daa 00ec9 81e92 00e92 00d26 60a56 00a57 004d6 406d5 00755 00749 30e93
00693 7152b 0052b 00a5b 5155a 0056a 00b65 4174a 00b4a 81a95 00a95 0052d 60aad 00ab5 005aa 40ba5 00da5 00d4a
31c95 00c96 7194e 00556 00ab5 515b2 006d2 00ea5 40e4a 0068b 80c97 004ab 0055b 60ad6 00b6a 00752 41725 00b45
00a8b 2149b 004ab
"""
"""For each year the number of its leap month (0: none), then in hexadecimal a bit for each month in their order, from
the lowest: 1 is a month of 30 days, 0 a month of 29. sandbox/worker/realm/calendar.js has the same table, because
triggers run in a process that knows nothing of this package; a test holds both equal."""


@dataclass(frozen=True, slots=True)
class LunarMonth:
    """A month of the Chinese calendar: its number, whether it is a leap month, its first day and its length in days."""

    number: int
    is_leap: bool
    first: date
    days: int


@dataclass(frozen=True, slots=True)
class LunarDate:
    """A day of the Chinese calendar. Its year is the one in which the Chinese year begins."""

    year: int
    month: int
    day: int
    is_leap: bool = False


def months_of(year: int) -> tuple[LunarMonth, ...]:
    """Return the months of the Chinese year that begins in `year`, in their order; none outside of the table."""
    years = _years()
    index = year - FIRST_YEAR
    if not 0 <= index < len(years):
        return ()
    return years[index]


def day_of(lunar: LunarDate) -> date | None:
    """Return the day on which a day of the Chinese calendar falls, or None outside of the table. In a year without
    the leap month it falls in the ordinary month of that number. The 30th of a month of 29 days is its 29th."""
    months = [month for month in months_of(lunar.year) if month.number == lunar.month]
    if not months:
        return None
    month = months[-1] if lunar.is_leap else months[0]
    return month.first + timedelta(days=min(lunar.day, month.days) - 1)


def lunar_date_of(day: date) -> LunarDate | None:
    """Return the date of a day in the Chinese calendar, or None outside of the table."""
    for year in (day.year, day.year - 1):
        for month in months_of(year):
            distance = (day - month.first).days
            if 0 <= distance < month.days:
                return LunarDate(year, month.number, distance + 1, month.is_leap)
    return None


@cache
def _years() -> tuple[tuple[LunarMonth, ...], ...]:
    """Return the lunar months of each year of the table, with the day on which each begins."""
    years: list[tuple[LunarMonth, ...]] = []
    new_year = _FIRST_DAY
    for code in _YEARS.split():
        leap_month = int(code[0], 16)
        long_months = int(code[1:], 16)
        months = _months(leap_month, long_months, first=new_year)
        years.append(months)
        last_month = months[-1]
        new_year = last_month.first + timedelta(days=last_month.days)
    return tuple(years)


def _months(leap_month: int, long_months: int, first: date) -> tuple[LunarMonth, ...]:
    """Compute the months of a year that begins on `first`. `leap_month` is the number of its leap month, or 0;
    `long_months` has a bit for each month, which is 1 if the month has 30 days."""
    numbers = [(number, False) for number in range(1, 13)]
    if leap_month:
        numbers.insert(leap_month, (leap_month, True))
    months: list[LunarMonth] = []
    for index, (number, is_leap) in enumerate(numbers):
        days = 29 + (long_months >> index & 1)
        months.append(LunarMonth(number, is_leap, first, days))
        first += timedelta(days=days)
    return tuple(months)


# Holidays by their names

DaysOfYear: TypeAlias = Callable[[int], Sequence[date]]
"""A function that gives the days of a year on which a holiday begins: usually one."""


@dataclass(frozen=True, slots=True)
class Holiday:
    """A holiday: its names as a regular expression, its day in each year, and how many days before and after that day
    belong to it."""

    names: str
    days_in: DaysOfYear
    before: int = 1
    after: int = 1

    def stretches(self, year: int) -> Iterator[tuple[date, date]]:
        """Yield its first and last day, each time it comes in `year`."""
        for day in self.days_in(year):
            yield day - timedelta(days=self.before), day + timedelta(days=self.after)


@dataclass(frozen=True, slots=True)
class NamedHoliday:
    """A holiday that a text names between two places. Its year, if the text says one: a number, or one counted from
    this year (0 is this year, -1 the last one)."""

    start: int
    end: int
    holiday: Holiday
    year: int | None = None
    year_from_now: int | None = None


def holidays_in(text: str) -> Iterator[NamedHoliday]:
    """Yield the holidays that `text` names, in order, without holidays that are still to come (next Christmas)."""
    if not holds_one_of(text.lower(), HINTS):
        return
    for match in _NAMES().finditer(text):
        words = (match["before"] or match["zh_before"] or match["behind"] or "").lower()
        if words.startswith(("next", "下", "明", "coming")):
            continue
        digits = re.search(r"\d{4}", words)
        year = int(digits[0]) if digits is not None else None
        yield NamedHoliday(
            match.start(),
            match.end(),
            _holiday_of(match),
            year=year,
            year_from_now=_year_from_now(words),
        )


def holds_one_of(text: str, hints: Iterable[str]) -> bool:
    """Return whether `text` holds any of these. `map` takes a third of the time of a generator."""
    return any(map(text.__contains__, hints))


def _holiday_of(match: re.Match[str]) -> Holiday:
    """Return the holiday whose group has matched: `h0` is the first holiday of the table."""
    names = [name for name, value in match.groupdict().items() if name[0] == "h" and value]
    return HOLIDAYS[int(names[0][1:])]


def _year_from_now(words: str) -> int | None:
    """Return how many years from today's year the words beside a holiday mean, or None if they do not say it."""
    if words.startswith("前年"):
        return -2
    if words.startswith("去年") or "last year" in words:
        return -1
    if words.startswith("今年") or "this year" in words:
        return 0
    return None


# --- days -------------------------------------------------------------------------------------------------------------


def _fixed(month: int, day: int) -> DaysOfYear:
    return lambda year: [date(year, month, day)]


def lunar_days(month: int, day: int) -> DaysOfYear:
    """Return the rule for a day of the Chinese calendar. The twelfth month is mostly in January of the next year."""

    def days_in(year: int) -> list[date]:
        days = [day_of(LunarDate(lunar_year, month, day)) for lunar_year in (year - 1, year)]
        return [falls for falls in days if falls is not None and falls.year == year]

    return days_in


def _weekday(month: int, weekday: int, number: int) -> DaysOfYear:
    """Return the rule for the day of this number among the days with a weekday (0 is Monday) in a month."""

    def days_in(year: int) -> list[date]:
        first = date(year, month, 1)
        return [first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (number - 1))]

    return days_in


def _moved(days_in: DaysOfYear, days: int) -> DaysOfYear:
    """Return the rule for the day so many days after those of another rule."""
    return lambda year: [day + timedelta(days=days) for day in days_in(year)]


def _easter(year: int) -> list[date]:
    """Return Easter Sunday of a year, by the anonymous Gregorian algorithm."""
    century, in_century = divmod(year, 100)
    leap_centuries, rest = divmod(century, 4)
    shift = (8 * century + 13) // 25
    moon = (19 * (year % 19) + century - leap_centuries - shift + 15) % 30
    weekday = (32 + 2 * rest + 2 * (in_century // 4) - moon - in_century % 4) % 7
    late = (year % 19 + 11 * moon + 22 * weekday) // 451
    month, day = divmod(moon + weekday - 7 * late + 114, 31)
    return [date(year, month, day + 1)]


def _clear_and_bright(year: int) -> list[date]:
    """清明, when the sun is 15 degrees past the March equinox."""
    constant = 4.81 if year >= 2000 else 5.59
    return [date(year, 4, _term_day(year, constant) + (year == 2100))]


def _winter_solstice(year: int) -> list[date]:
    """冬至, the winter solstice in the time zone of China."""
    constant = 21.94 if year >= 2000 else 22.60
    return [date(year, 12, _term_day(year, constant) + _SOLSTICE_SHIFTS.get(year, 0))]


def _term_day(year: int, constant: float) -> int:
    """Return the day of the month of a solar term, by its constant for the century."""
    in_century = year % 100
    return int(in_century * 0.2422 + constant) - in_century // 4


_SOLSTICE_SHIFTS: Final = {1918: -1, 1947: 1, 1951: 1, 1980: 1, 1984: 1, 2021: -1, 2100: 1}
"""The years in which the formula is a day off, because the solstice is near midnight."""
_THURSDAY: Final = 3
_SUNDAY: Final = 6
_THANKSGIVING: Final = _weekday(11, _THURSDAY, 4)

_NO_NUMBER: Final = r"(?<![\d一二三四五六七八九十第周週期拜])"
_NUMBER_ENDS: Final = r"(?![\d一二三四五六七八九十])"
_NO_FAMILY_NAME: Final = "(?<![李王张張刘劉陈陳])"

# --- names ------------------------------------------------------------------------------------------------------------

HOLIDAYS: Final = (
    Holiday(r"\bnew year['’]?s eve\b|跨年(?!度)", _fixed(12, 31)),
    Holiday(
        r"\b(?:chinese|lunar) new year(?:['’]?s)?\b|\bspring festival\b|春[节節]|[过過]年|大年初一|正月初一|拜年",
        *(lunar_days(1, 1), 2, 7),
    ),
    Holiday("除夕|大?年三十|年夜[饭飯]", _moved(lunar_days(1, 1), -1)),
    Holiday(r"\bnew year(?:['’]?s)?(?: day)?\b(?! old)|元旦", _fixed(1, 1)),
    Holiday(
        r"\blantern festival\b|元宵[节節]|正月十五|(?<![吃包煮买買])元宵(?![馅餡粉汤湯])",
        lunar_days(1, 15),
    ),
    Holiday(r"\bvalentine['’]?s?(?: day)?\b|(?<!白色)(?<!七夕)情人[节節]", _fixed(2, 14)),
    Holiday(r"\bwomen['’]?s day\b|[妇婦]女[节節]|三八[节節]|女神[节節]", _fixed(3, 8)),
    Holiday(r"白色情人[节節]|\bwhite day\b", _fixed(3, 14)),
    Holiday(r"\bst\.? patrick['’]?s(?: day)?\b", _fixed(3, 17)),
    Holiday(r"\bapril fools?['’]?s?(?: day)?\b|愚人[节節]", _fixed(4, 1)),
    Holiday(
        r"\bqing ?ming(?: festival)?\b|\btomb[ -]sweeping(?: day)?\b|清明(?!上河)[节節]?",
        _clear_and_bright,
        after=2,
    ),
    Holiday(r"\beaster\b(?! island)|[复復]活[节節]", _easter, before=2),
    Holiday(
        f"[劳勞][动動][节節]|{_NO_NUMBER}五一{_NUMBER_ENDS}(?:[劳勞][动動][节節]|[长長]假|假期)?",
        _fixed(5, 1),
        after=4,
    ),
    Holiday("青年[节節]", _fixed(5, 4)),
    Holiday(r"\bmother['’]?s day\b|母[亲親][节節]", _weekday(5, _SUNDAY, 2)),
    Holiday(
        rf"\bchildren['’]?s day\b|[儿兒]童[节節]|{_NO_NUMBER}六一{_NUMBER_ENDS}(?:[儿兒]童[节節])?",
        _fixed(6, 1),
    ),
    Holiday(r"\bdragon boat(?: festival)?\b|端午[节節]?", lunar_days(5, 5)),
    Holiday(r"\bfather['’]?s day\b|父[亲親][节節]", _weekday(6, _SUNDAY, 3)),
    Holiday(r"\bindependence day\b|\bfourth of july\b", _fixed(7, 4)),
    Holiday(r"\bqixi\b(?: festival)?|七夕(?:情人)?[节節]?", lunar_days(7, 7)),
    Holiday(r"\bghost festival\b|中元[节節]|鬼[节節]", lunar_days(7, 15)),
    Holiday(
        r"\bmid[- ]?autumn(?:['’]?s)?(?: (?:festival|day))?\b|\bmoon festival\b|中秋[节節]?",
        lunar_days(8, 15),
    ),
    Holiday(r"教[师師][节節]|\bteachers?['’]?s? day\b", _fixed(9, 10)),
    Holiday(
        rf"\bnational day\b|{_NO_FAMILY_NAME}[国國][庆慶](?:[节節]|[长長]假|假期|黄金周)?|十一(?:[长長]假|假期|黄金周)",
        *(_fixed(10, 1), 1, 6),
    ),
    Holiday(r"\bdouble ninth(?: festival)?\b|重[阳陽][节節]?", lunar_days(9, 9)),
    Holiday(r"\bhalloween\b|万圣[节夜]|萬聖[節夜]", _fixed(10, 31)),
    Holiday(
        r"\bsingles?['’]?s? day\b|\bdouble (?:eleven|11)\b|[双雙](?:十一|11)(?!月)|光棍[节節]",
        _fixed(11, 11),
    ),
    Holiday(r"\bthanksgiving\b(?: day)?|感恩[节節]", _THANKSGIVING, after=3),
    Holiday(r"\bblack friday\b|黑色星期五", _moved(_THANKSGIVING, 1)),
    Holiday(r"\bdouble (?:twelve|12)\b|[双雙](?:十二|12)(?!月)", _fixed(12, 12)),
    Holiday(r"\bwinter solstice\b|\bdongzhi\b|冬至", _winter_solstice),
    Holiday(r"\b(?:christmas|xmas) eve\b|平安夜", _fixed(12, 24)),
    Holiday(
        r"\bchristmas(?: day|time)?\b|\bx-?mas\b|[圣聖][诞誕][节節夜]?(?!树|樹|老人)",
        _fixed(12, 25),
        after=2,
    ),
    Holiday(r"\bboxing day\b", _fixed(12, 26)),
    Holiday(r"[腊臘]八[节節]?(?!蒜|粥)", lunar_days(12, 8)),
)
"""Earlier ones win over later ones, so the longer name stands first. Written for this project."""

_ENGLISH_HINTS: Final = """
new year, festival, valentine, women, patrick, april fool, qing, tomb, easter, mother, child, dragon, father, of july,
independence, qixi, autumn, teacher, national, ninth, halloween, single, double, thanksgiving, black friday, solstice,
dongzhi, christmas, xmas, x-mas, boxing, white day
"""
_CHINESE_HINTS: Final = """
节 節 跨年 过年 過年 初一 拜年 除夕 三十 年夜 元旦 正月 元宵 清明 五一 六一 端午 七夕 中秋 国庆 國慶 國庆 国慶
十一 十二 双1 雙1 重阳 重陽 万圣 萬聖 黑色 冬至 平安夜 圣诞 聖誕 腊八 臘八
"""
HINTS: Final = (*(hint.strip() for hint in _ENGLISH_HINTS.split(",")), *_CHINESE_HINTS.split())
"""Every name has some of these in lower case: looking for them is thirty times as fast as trying all names."""
_BEFORE: Final = r"(?:(?:last|this|past|next|coming)(?: year['’]s)? (?:the )?|\d{4} )"
_CHINESE_BEFORE: Final = r"(?:\d{4}年?的?|[今去前明]年的?|[上下](?:一)?[个個]|[上下]次)"
_BEHIND: Final = r"(?:,? (?:of |in )?\d{4}\b|,? (?:last|this|next) year\b)"
_NAMES: Final = Once(
    lambda: re.compile(
        rf"(?P<before>\b{_BEFORE})?(?P<zh_before>{_CHINESE_BEFORE})?(?:"
        + "|".join(f"(?P<h{number}>{holiday.names})" for number, holiday in enumerate(HOLIDAYS))
        + rf")(?:那[几幾]?天|[当當][天晚日]|那[晚时時]|期[间間]|的?[时時][候]?|晚上)?(?P<behind>{_BEHIND})?",
        re.IGNORECASE
        | re.ASCII,  # a Chinese character beside an English name is not part of its word
    )
)
"""Compiled at first use, because it takes some milliseconds."""

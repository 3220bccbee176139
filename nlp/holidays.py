"""Holidays by their names, in English and Chinese, and the days on which they fall: "at Christmas", 去年中秋. Pure.

A holiday stands for the day itself and for the days around it, because people speak of it before and afterwards. Names
that mostly mean something else (十一, `May Day`) are not here, or only together with a word such as 假期.

Sources: the Gregorian computus in the form of Meeus, Jones and Butcher (Easter); the formulas of the solar terms
清明 and 冬至 for 1900 to 2100, compared with computed longitudes of the sun; nlp/lunar_calendar.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, TypeAlias

from nlp.lunar_calendar import LunarDate, day_of
from nlp.once import Once

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
        """The first and the last day of it, each time it comes in `year`."""
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
    """The holidays that `text` names, in order, without those that are still to come (next Christmas)."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
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


def _holiday_of(match: re.Match[str]) -> Holiday:
    """The holiday whose group has matched: `h0` is the first one of the table."""
    names = [name for name, value in match.groupdict().items() if name[0] == "h" and value]
    return HOLIDAYS[int(names[0][1:])]


def _year_from_now(words: str) -> int | None:
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


def _lunar(month: int, day: int) -> DaysOfYear:
    """A day of the Chinese calendar. The twelfth month is mostly in January of the next year."""

    def days_in(year: int) -> list[date]:
        days = [day_of(LunarDate(lunar_year, month, day)) for lunar_year in (year - 1, year)]
        return [falls for falls in days if falls is not None and falls.year == year]

    return days_in


def _new_years_eve(year: int) -> list[date]:
    """除夕, the day before the first day of the Chinese year."""
    return [day - timedelta(days=1) for day in _lunar(1, 1)(year)]


def _weekday(month: int, weekday: int, number: int) -> DaysOfYear:
    """The day of this number among those with a weekday (0 is Monday) in a month."""

    def days_in(year: int) -> list[date]:
        first = date(year, month, 1)
        return [first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (number - 1))]

    return days_in


def _day_after(days_in: DaysOfYear) -> DaysOfYear:
    return lambda year: [day + timedelta(days=1) for day in days_in(year)]


def _easter(year: int) -> list[date]:
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
    """The day of the month of a solar term, by its constant for the century."""
    in_century = year % 100
    return int(in_century * 0.2422 + constant) - in_century // 4


_SOLSTICE_SHIFTS: Final = {1918: -1, 1947: 1, 1951: 1, 1980: 1, 1984: 1, 2021: -1, 2100: 1}
"""The years in which the formula is a day off, because the solstice is near midnight."""
_THURSDAY: Final = 3
_SUNDAY: Final = 6
_THANKSGIVING: Final = _weekday(11, _THURSDAY, 4)

_NO_NUMBER: Final = r"(?<![\d一二三四五六七八九十第])"
_NUMBER_ENDS: Final = r"(?![\d一二三四五六七八九十])"
_NO_FAMILY_NAME: Final = "(?<![李王张張刘劉陈陳])"

# --- names ------------------------------------------------------------------------------------------------------------

HOLIDAYS: Final = (
    Holiday(r"\bnew year['’]?s eve\b|跨年(?!度)", _fixed(12, 31)),
    Holiday(
        r"\b(?:chinese|lunar) new year(?:['’]?s)?\b|\bspring festival\b|春[节節]|[过過]年|大年初一|正月初一|拜年",
        *(_lunar(1, 1), 2, 7),
    ),
    Holiday("除夕|大?年三十|年夜[饭飯]", _new_years_eve),
    Holiday(r"\bnew year(?:['’]?s)?(?: day)?\b(?! old)|元旦", _fixed(1, 1)),
    Holiday(
        r"\blantern festival\b|元宵[节節]|正月十五|(?<![吃包煮买買])元宵(?![馅餡粉汤湯])",
        _lunar(1, 15),
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
    Holiday(r"\bdragon boat(?: festival)?\b|端午[节節]?", _lunar(5, 5)),
    Holiday(r"\bfather['’]?s day\b|父[亲親][节節]", _weekday(6, _SUNDAY, 3)),
    Holiday(r"\bindependence day\b|\bfourth of july\b", _fixed(7, 4)),
    Holiday(r"\bqixi\b(?: festival)?|七夕(?:情人)?[节節]?", _lunar(7, 7)),
    Holiday(r"\bghost festival\b|中元[节節]|鬼[节節]", _lunar(7, 15)),
    Holiday(
        r"\bmid[- ]?autumn(?:['’]?s)?(?: (?:festival|day))?\b|\bmoon festival\b|中秋[节節]?",
        _lunar(8, 15),
    ),
    Holiday(r"教[师師][节節]|\bteachers?['’]?s? day\b", _fixed(9, 10)),
    Holiday(
        rf"\bnational day\b|{_NO_FAMILY_NAME}[国國][庆慶](?:[节節]|[长長]假|假期|黄金周)?|十一(?:[长長]假|假期|黄金周)",
        *(_fixed(10, 1), 1, 6),
    ),
    Holiday(r"\bdouble ninth(?: festival)?\b|重[阳陽][节節]?", _lunar(9, 9)),
    Holiday(r"\bhalloween\b|万圣[节夜]|萬聖[節夜]", _fixed(10, 31)),
    Holiday(
        r"\bsingles?['’]?s? day\b|\bdouble (?:eleven|11)\b|[双雙](?:十一|11)(?!月)|光棍[节節]",
        _fixed(11, 11),
    ),
    Holiday(r"\bthanksgiving\b(?: day)?|感恩[节節]", _THANKSGIVING, after=3),
    Holiday(r"\bblack friday\b|黑色星期五", _day_after(_THANKSGIVING)),
    Holiday(r"\bdouble (?:twelve|12)\b|[双雙](?:十二|12)(?!月)", _fixed(12, 12)),
    Holiday(r"\bwinter solstice\b|\bdongzhi\b|冬至", _winter_solstice),
    Holiday(r"\b(?:christmas|xmas) eve\b|平安夜", _fixed(12, 24)),
    Holiday(
        r"\bchristmas(?: day|time)?\b|\bx-?mas\b|[圣聖][诞誕][节節夜]?(?!树|樹|老人)",
        _fixed(12, 25),
        after=2,
    ),
    Holiday(r"\bboxing day\b", _fixed(12, 26)),
    Holiday(r"[腊臘]八[节節]?(?!蒜|粥)", _lunar(12, 8)),
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
_HINTS: Final = (*(hint.strip() for hint in _ENGLISH_HINTS.split(",")), *_CHINESE_HINTS.split())
"""Every name has one of these in lower case: looking for them is thirty times as fast as trying all names."""
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

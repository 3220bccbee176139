"""The Chinese calendar from 1900 to 2100: which day is the 15th of the eighth month, and the other way round. Pure.

A year begins with the day of a new moon in January or February, and has 12 or 13 months of 29 or 30 days. A leap month
has the number of the month before it. Which months are long and which is a leap month follows from the sun and the moon
in the time zone of China, so it is a table.

Sources: GB/T 33661-2017 (the rules of the calendar). The lengths were compared with published tables, and from 1929
with computed new moons and solstices. They differ in three months: the new moons of 28 September 2057, 4 September
2089 and 7 August 2097 are within three minutes of midnight. The last two stand here as they were computed. That of 2057
is ten seconds before midnight, less than anybody can know today, and stands as in the tables. Earlier years stand as
they were used at that time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Final

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
the lowest: 1 is a month of 30 days, 0 one of 29. sandbox/worker/realm/calendar.js has the same table, because triggers
run in a process that knows nothing of this package; a test holds both equal."""


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
    """The months of the Chinese year that begins in `year`, in their order; none outside of the table."""
    years = _years()
    index = year - FIRST_YEAR
    if not 0 <= index < len(years):
        return ()
    return years[index]


def day_of(lunar: LunarDate) -> date | None:
    """The day on which a day of the Chinese calendar falls; None outside of the table. In a year without the leap month
    it falls in the ordinary month of that number. The 30th of a month of 29 days is its 29th."""
    months = [month for month in months_of(lunar.year) if month.number == lunar.month]
    if not months:
        return None
    month = months[-1] if lunar.is_leap else months[0]
    return month.first + timedelta(days=min(lunar.day, month.days) - 1)


def lunar_date_of(day: date) -> LunarDate | None:
    """The day of the Chinese calendar that a day is; None outside of the table."""
    for year in (day.year, day.year - 1):
        for month in months_of(year):
            distance = (day - month.first).days
            if 0 <= distance < month.days:
                return LunarDate(year, month.number, distance + 1, month.is_leap)
    return None


@cache
def _years() -> tuple[tuple[LunarMonth, ...], ...]:
    """The months of each year of the table."""
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
    """The months of a year that begins on `first`. `leap_month`: the number of its leap month, or 0; `long_months`: a
    bit for each month, which is 1 where the month has 30 days."""
    numbers = [(number, False) for number in range(1, 13)]
    if leap_month:
        numbers.insert(leap_month, (leap_month, True))
    months: list[LunarMonth] = []
    for index, (number, is_leap) in enumerate(numbers):
        days = 29 + (long_months >> index & 1)
        months.append(LunarMonth(number, is_leap, first, days))
        first += timedelta(days=days)
    return tuple(months)

"""Stretches of days as they are seen from today: a week, a month or a year, so many of them back. Pure.

time_spans.py reads from a text which of them it names.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from typing import Final, NamedTuple


class TimeSpan(NamedTuple):
    """From the first to the last day, both included. `near`: it is named by a word that stands in any sentence (昨天,
    最近)."""

    first: date
    last: date
    near: bool = False

    def days(self, most: int) -> list[date]:
        """The days of it; none if they are more than `most`."""
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
_PARTS: Final = {
    **dict.fromkeys(("上旬", "初", "early", "beginning", "start"), _BEGINNING),
    **dict.fromkeys(("中旬", "中", "mid", "middle"), _MIDDLE),
    **dict.fromkeys(("下旬", "底", "末", "late", "end"), _END),
}
"""The first and the last day of the parts of a month."""


def days_of_month(month: int, day: int, years: Iterable[int], today: date) -> Iterator[TimeSpan]:
    """A day of a month in each of these years, as far as it has come; a year that has no such day is left out."""
    for year in years:
        try:
            named_day = date(year, month, day)
        except (ValueError, OverflowError):
            continue
        if named_day <= today:
            yield TimeSpan(named_day, named_day)


def months(year: int | None, month: int, part: str | None, today: date) -> Iterator[TimeSpan]:
    """A month or a part of it in a year; None: in this year and in the last one."""
    years = [today.year, today.year - 1] if year is None else [year]
    for named_year in years:
        yield _part_of_month(named_year, month, part)


def _part_of_month(year: int, month: int, part: str | None) -> TimeSpan:
    """The days of a part of a month; None: of all of it."""
    _weekday, length = monthrange(year, month)
    first_day = 1
    last_day = length
    if part:
        first_day, last_day = _PARTS[part]
    return TimeSpan(date(year, month, first_day), date(year, month, min(last_day, length)))


def month_back(today: date, back: int, part: str | None = None) -> TimeSpan:
    """The month so many months back, or a part of it."""
    months_before = today.year * 12 + today.month - 1 - back
    year, month_index = divmod(months_before, 12)
    return _part_of_month(year, month_index + 1, part)


def whole_year(year: int) -> TimeSpan:
    """From New Year to the last day of December."""
    return TimeSpan(date(year, 1, 1), date(year, 12, 31))


def unit_back(unit: str, back: int, today: date) -> TimeSpan:
    """The week, weekend, month or year so many of them back."""
    if unit == "weekend":
        return weekend(today, back)
    if unit == "week":
        return week(today, back)
    if unit == "month":
        return month_back(today, back)
    return whole_year(today.year - back)


def ago(number: int, unit: str, today: date) -> TimeSpan:
    """What lies so many days, weeks, months or years back: the longer ago, the less exactly it is meant."""
    if unit == "day":
        return days_ago(today, number, number)
    if unit == "week":
        return week(today, number)
    if unit == "weekend":
        return weekend(today, number)
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
    """The Saturday and the Sunday of the week so many weeks back."""
    sunday = week(today, back).last
    return TimeSpan(sunday - timedelta(days=1), sunday)


def week(today: date, back: int) -> TimeSpan:
    """The week so many weeks back, from Monday to Sunday."""
    monday = today - timedelta(days=today.weekday() + 7 * back)
    return TimeSpan(monday, monday + timedelta(days=6))

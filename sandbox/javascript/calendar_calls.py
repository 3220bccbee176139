"""The names of the realm's functions about days, and which days they take. Pure. See worker/realm/calendar.js."""

from __future__ import annotations

MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""The most days that each month has."""
MOST_LUNAR_DAYS = 30
DAY_FUNCTIONS = frozenset(("on_day", "days_until", "on_lunar_day"))
"""Functions whose first arguments are a month, from 1, and a day."""
CALENDAR_FUNCTIONS = DAY_FUNCTIONS | {"lunar"}


def most_days(function: str, month: int) -> int:
    """Return the most days of a month, as a function of the realm takes them; 0 for a wrong month."""
    if not 1 <= month <= 12:
        return 0
    return MOST_LUNAR_DAYS if function == "on_lunar_day" else MONTH_DAYS[month - 1]

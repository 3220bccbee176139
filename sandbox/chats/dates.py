"""Dates in the forms of chat programs, as milliseconds since 1970. Pure.

A number of milliseconds, or of seconds where it can only be that; `2023/6/19 14:20:00` of NextChat; and the forms of
SillyTavern's `send_date` over the years: ISO 8601, `June 19, 2023 2:20pm`,
`2023-06-04 @14h 05m 12s 123ms` and `2023-6-4@14h5m12s`. The last three are local time.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import datetime, tzinfo
from itertools import product

from languages import MessageError

_HUMANIZED = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})\s*@\s*(\d{1,2})h\s*(\d{1,2})m\s*+(?:(\d{1,2})s)?\s*(?:(\d{1,3})ms)?"
)
_SHOWN_DIGITS = 20
_MOST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, where Python's dates end."""
_FIRST_SECONDS = 100_000_000
_FIRST_MS = 100_000_000_000
"""A number from the first to the second is in seconds: as milliseconds it is in 1970 to 1973, before there were chats, as
seconds in 1973 to 5138."""


class DateError(MessageError):
    """Not a date; the message follows the name of the field."""


def milliseconds(value: object, zone: tzinfo | None) -> int:
    """Return the milliseconds since 1970 of a number of milliseconds or of seconds, or of a text with such a number or a
    date that chat programs write. `zone`: the zone of local time, None for the system's. Raises DateError."""
    if isinstance(value, str):
        text = value.strip()
        # Eight digits are a day: as a number they would be in 1970.
        if re.fullmatch(r"(?!\d{8}$)-?\d+(\.\d+)?", text) and len(text) < 20:
            return _number(float(text))
        try:
            moment = instant(_parsed(text), zone)
            return round(moment.timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            raise DateError(
                "{text!r} is not a date; give an ISO time such as 2026-07-17T09:00 or milliseconds since 1970",
                text,
            ) from error

    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise DateError(
            "{value!r} is not a date; give milliseconds since 1970, or ISO such as 2026-07-17T09:00",
            value,
        )

    return _number(value)


def milliseconds_in(name: str, value: object, zone: tzinfo | None) -> int:
    """Return the milliseconds of the field `name` of a message. Raises DateError also for a moment before there were
    chats, which in another field than `timestamp` counts something else, such as the seconds of an answer."""
    time_ms = milliseconds(value, zone)
    if time_ms < _FIRST_MS and name != "timestamp":
        raise DateError(
            "{value!r} is not a date; give milliseconds since 1970, or ISO such as 2026-07-17T09:00",
            value,
        )
    return time_ms


def _number(number: float) -> int:
    """Return the milliseconds of a number of seconds, or of milliseconds if it is too large or too small for seconds of a
    chat. Raises DateError beyond the year 9999."""
    time_ms = round(number)
    if _FIRST_SECONDS <= number < _FIRST_MS:
        time_ms = round(number * 1000)
    if abs(time_ms) > _MOST_MS:
        shown = str(time_ms)[:_SHOWN_DIGITS]
        raise DateError("{number} is beyond the year 9999; give milliseconds since 1970", shown)
    return time_ms


def instant(moment: datetime, zone: tzinfo | None) -> datetime:
    """Make a time aware: `moment`, read in `zone` (None for the system's) where it has no offset."""
    if moment.tzinfo is not None:
        return moment
    if zone is None:
        return moment.astimezone()
    return moment.replace(tzinfo=zone)


_NAMED_MONTHS = ("%B %d %Y", "%b %d %Y")


_CLOCKS = ("%I:%M %p", "%I:%M:%S %p", "%H:%M", "%H:%M:%S")


def _parsed(text: str) -> datetime:
    """Parse a text in a form above. Raises ValueError."""
    match = _HUMANIZED.fullmatch(text)
    if match is not None:
        year, month, day, hour, minute, second, ms = (int(part or 0) for part in match.groups())
        return datetime(year, month, day, hour, minute, second, ms * 1000)  # noqa: DTZ001 - its zone is the caller's
    # `June 19, 2023 2:20pm` as `June 19 2023 2:20 pm`.
    without_marks = re.sub(r"[.,]|(?=[ap]m$)", " ", text, flags=re.IGNORECASE)
    spelled = " ".join(without_marks.split())
    for day_form, clock_form in product(_NAMED_MONTHS, _CLOCKS):
        with suppress(ValueError):
            return datetime.strptime(spelled, f"{day_form} {clock_form}")  # noqa: DTZ007
    with suppress(ValueError):
        return datetime.strptime(text, "%Y/%m/%d %H:%M:%S")  # noqa: DTZ007
    return datetime.fromisoformat(text)

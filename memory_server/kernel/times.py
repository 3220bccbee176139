"""Times as text. Inside, a time is an `int` of milliseconds since 1970-01-01 UTC (model.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import merge
from typing import Generic, NamedTuple, Protocol, TypeVar
from zoneinfo import ZoneInfo

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.text import shown

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_COPIES_OF_ZONES = ("posix", "right/")
"""Beginnings of the names of zones that the system's folder has in a second form."""


def iso(time_ms: int) -> str:
    """Write milliseconds since 1970 as JavaScript's `toISOString` writes them: `2026-06-20T04:00:00.000Z`."""
    return moment_of(time_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(time_ms: int | None) -> str | None:
    """Write a time as `iso` does, or None for an unknown time."""
    if time_ms is None:
        return None
    return iso(time_ms)


def moment_of(time_ms: int) -> datetime:
    """Return the instant as an aware datetime in UTC."""
    return EPOCH + time_ms * _MILLISECOND


def local(time_ms: int, zone: tzinfo | None) -> datetime:
    """Return the instant on a clock in `zone` (the system's by default); in UTC at the ends of the calendar, where
    other zones have no date."""
    moment = moment_of(time_ms)
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return moment


def milliseconds(moment: datetime) -> int:
    """Return the milliseconds since 1970 of a datetime; without a zone it is taken for UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // _MILLISECOND


FIRST_MS = milliseconds(datetime.min.replace(tzinfo=UTC))
LAST_MS = milliseconds(datetime.max.replace(tzinfo=UTC))
"""The ends of the calendar: the years 1 and 9999."""


def within_calendar(time_ms: int) -> int:
    """Return the time, or the end of the calendar beyond which it is."""
    return min(max(time_ms, FIRST_MS), LAST_MS)


_CLOCKS_DIFFER_MS = 5 * 60_000
"""The difference up to which two clocks both count as right: the bound of Kerberos (RFC 4120, section 3.2.3)."""


class DatedItem(Protocol):
    @property
    def at_ms(self) -> int: ...


D = TypeVar("D", bound=DatedItem)


class _PlacedItem(NamedTuple, Generic[D]):
    """`at_ms` is the time of `value`, or the time of the value before it in its sequence if its own time cannot be
    right."""

    at_ms: int
    value: D


def merged(sequences: Iterable[Sequence[D]], now_ms: int) -> list[D]:
    """Merge sequences, oldest first, into one. Each keeps its order, because its numbers are right even if a clock was
    wrong. Across sequences the times decide. A time well after `now_ms`, or before an earlier time of its sequence, is
    ignored: its value comes right after the value before it, and at the beginning of a sequence right before the first
    value whose time counts."""
    placed = [_placed(sequence, now_ms + _CLOCKS_DIFFER_MS) for sequence in sequences]
    in_order = merge(*placed, key=lambda place: (place.at_ms, place.value.at_ms))
    return [place.value for place in in_order]


def _placed(sequence: Sequence[D], until_ms: int) -> list[_PlacedItem[D]]:
    """Return each value with the time at which it is merged: its own, unless that is after `until_ms` or before an
    earlier one of the sequence; then the latest time until there."""
    places: list[_PlacedItem[D]] = []
    # A sequence may be the end of a longer one, so what is at its beginning need not be old.
    latest_ms = next((value.at_ms for value in sequence if value.at_ms <= until_ms), FIRST_MS)
    for value in sequence:
        if value.at_ms <= until_ms:
            latest_ms = max(latest_ms, value.at_ms)
        places.append(_PlacedItem(latest_ms, value))
    return places


MINUTE_MS = 60_000


DAY_MS = 86_400_000


def zone_named(name: str) -> ZoneInfo:
    """Return the IANA time zone of this name. Raise InvalidInput if it does not exist."""
    if not is_zone(name):
        raise InvalidInput(
            "`{value}` is not an IANA time zone; write for example `Asia/Shanghai`.", shown(name)
        )
    return ZoneInfo(name)


def is_zone(name: str) -> bool:
    """Return whether this is an IANA time zone. It is looked up by its name: a list of all zones reads 600 files, which
    would take a hook longer than its search."""
    if name.startswith(_COPIES_OF_ZONES):
        return False
    try:
        ZoneInfo(name)
    # KeyError: the zone does not exist; OSError: it is a folder of zones.
    except (
        KeyError,
        ValueError,
        OSError,
    ):
        return False
    return True


def clock_from(start_ms: int | None) -> Callable[[], int]:
    """Return a clock in milliseconds since 1970: the real clock, or a clock that starts at `start_ms` and runs on."""
    if start_ms is None:
        return lambda: time.time_ns() // 1_000_000
    started = time.monotonic_ns()
    return lambda: start_ms + (time.monotonic_ns() - started) // 1_000_000

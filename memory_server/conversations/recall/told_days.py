"""Which memories tell of the days that a question names: 周四下午去打疫苗, said on Tuesday, for `what is on Thursday?`.

What was said on a day is found by the stretches of `words.RecallQuery`; this is about what was told *for* a day. Both
selections ask here, for the memories that hold a word of these days. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta, tzinfo
from operator import or_

from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.messages import said_in
from memory_server.kernel.times import local
from memory_server.kernel.values import dataclass
from nlp.date_words import NamedDays, asked_days, told_days, words_of_days

_LOOKED_AT_CHARS = 2_000
"""Characters of a message that are looked at."""
_SEARCH_CHARS = 200_000
"""Characters of messages that a search looks at: some 50 ms."""
_LEAST_CHARS = 100
"""What a message takes of them at least: a short one costs time too."""
_NIGHT_HOURS = 4
"""Until this hour people call the day before today."""


@dataclass(frozen=True, slots=True)
class AskedDays:
    """The days that a question names, the index words of which a memory holds one if it tells of them, and the zone in
    which a day begins; None: the system's."""

    days: NamedDays
    words: tuple[str, ...]
    zone: tzinfo | None = None


def days_asked(question: str, now: datetime, zone: tzinfo | None) -> AskedDays | None:
    """The days of which a question asks at `now`, a local time; None: it names none."""
    days = _named_at(now, asked_days, question)
    if not days:
        return None
    return AskedDays(days, tuple(sorted(words_of_days(days))), zone)


def telling(newest_first: Iterable[tuple[int, ShortTermMemory]], asked: AskedDays) -> set[int]:
    """The numbers of the memories that tell of one of these days, seen from the day on which each of their messages was
    said; the newest, as far as the characters of a search go."""
    numbers: set[int] = set()
    chars = 0
    for number, memory in newest_first:
        if not memory.time_ms:
            continue  # its time is not known, so `Thursday` in it means no day
        for message in memory.messages or said_in(memory.text):
            text = message.content[:_LOOKED_AT_CHARS]
            chars += max(len(text), _LEAST_CHARS)
            if chars > _SEARCH_CHARS:
                return numbers
            said = local(message.time_ms or memory.time_ms, asked.zone)
            if asked.days.has(_named_at(said, told_days, text)):
                numbers.add(number)
                break
    return numbers


def _named_at(at: datetime, named: Callable[[str, date], NamedDays], text: str) -> NamedDays:
    """The days that a text of this time names; none at an end of the calendar, if it leads beyond it."""
    today = at.date()
    try:
        days = named(text, today)
        if at.hour >= _NIGHT_HOURS:
            return days
        return NamedDays(*map(or_, days, named(text, today - timedelta(days=1))))
    except (OverflowError, OSError, ValueError):
        return NamedDays()

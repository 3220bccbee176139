"""Which memories tell of the days that a question names: 周四下午去打疫苗, said on Tuesday, for `what is on Thursday?`.

What was said on a day is found by the stretches of `words.RecallQuery`; this is about what was told *for* a day. Both
selections ask here, for the memories that hold a word of these days. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo

from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.messages import said_in
from memory_server.kernel.times import local
from memory_server.kernel.values import dataclass
from nlp.named_days import NamedDays, asked_days, told_days, words_of_days

_MOST_CHARS = 200_000
"""Characters of the memories that are looked at in one search, the newest first: some 0.2 s."""
_LOOKED_AT_CHARS = 2_000
"""Characters of a message that are looked at."""
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
    days = asked_days(question, now.date())
    if now.hour < _NIGHT_HOURS:
        days = _both(days, asked_days(question, now.date() - timedelta(days=1)))
    if not days:
        return None
    return AskedDays(days, tuple(sorted(words_of_days(days))), zone)


def telling(newest_first: Iterable[tuple[int, ShortTermMemory]], asked: AskedDays) -> set[int]:
    """Return the numbers of the memories that tell of these days, as far back as a search may look."""
    numbers: set[int] = set()
    chars_left = _MOST_CHARS
    for number, memory in newest_first:
        chars_left -= len(memory.text)
        if chars_left < 0:
            break
        if _tells_of(memory, asked):
            numbers.add(number)
    return numbers


def _tells_of(memory: ShortTermMemory, asked: AskedDays) -> bool:
    """Whether a memory tells of one of these days, seen from the day on which each of its messages was said."""
    if not memory.time_ms:
        return False  # its time is not known, so `Thursday` in it means no day
    for message in memory.messages or said_in(memory.text):
        text = message.content[:_LOOKED_AT_CHARS]
        try:
            said = local(message.time_ms or memory.time_ms, asked.zone)
            told = told_days(text, said.date())
            if told and said.hour < _NIGHT_HOURS:
                told = _both(told, told_days(text, said.date() - timedelta(days=1)))
        except (OverflowError, OSError, ValueError):
            continue  # it was said at an end of the calendar
        if asked.days.has(told):
            return True
    return False


def _both(days: NamedDays, others: NamedDays) -> NamedDays:
    return NamedDays(days.days | others.days, days.weekly | others.weekly, days.gone | others.gone)

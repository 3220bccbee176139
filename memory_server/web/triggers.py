"""What a trigger waits for, as a sentence: the words that it looks for, and the days and hours at which it fires by
itself. The sandbox reads the words from the code; the times are found by running it at each day and hour to come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from memory_server.conversations.model import LongTermMemory
from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.recorded_recall import RecordedRecall
from memory_server.kernel.times import milliseconds
from memory_server.web.speech import Speech, strong
from sandbox import Fired
from sandbox.locale import _

if TYPE_CHECKING:
    from memory_server.web.view import View

log = logging.getLogger(__name__)
_DAYS, _SHOWN_WORDS, _WAIT_SECONDS = 366, 5, 0.3


@dataclass(frozen=True, slots=True)
class Times:
    """When a trigger fires though nobody says anything: the first day and the last one in a row, from the first of
    them on; or the hours of a day."""

    days: tuple[datetime, datetime] | None = None
    hours: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Watching:
    """A trigger, and when it fired, fires by itself and failed; milliseconds since 1970."""

    memory: LongTermMemory
    times: Times
    last_ms: int | None
    next_ms: int | None
    failed_ms: int | None


@dataclass(frozen=True, slots=True)
class Told:
    """A trigger with the sentence that says when it comes up; `next`: the day or moment, empty if it is not known."""

    row: Watching
    sentence: str
    next: str


async def watching(view: View, memories: Sequence[LongTermMemory], recalls: Sequence[RecordedRecall]) -> list[Watching]:
    """When each trigger fired, fires and failed; `recalls`: newest first."""
    last, failed = dict[str, int](), dict[str, int]()
    for recall in recalls:
        for item in recall.came:
            if item.tier == "trigger":
                last.setdefault(item.id, recall.at_ms)
        for name in recall.failed:
            failed.setdefault(name, recall.at_ms)
    times = await _times(view, tuple(memory.trigger for memory in memories))
    rows = list[Watching]()
    for memory in memories:
        own = times.get(memory.trigger, Times())
        failed_ms = failed.get(memory.name)
        # A failure of before the last change says nothing about the trigger as it is.
        is_old = failed_ms is not None and failed_ms <= (memory.updated_ms or memory.created_ms)
        rows.append(
            Watching(
                memory=memory,
                times=own,
                last_ms=last.get(memory.name),
                next_ms=_next_ms(view.speech, own),
                failed_ms=None if is_old else failed_ms,
            )
        )
    return rows


async def told(view: View, rows: Sequence[Watching]) -> list[Told]:
    """Each trigger as a sentence. The words that triggers look for are asked of the sandbox, and kept."""
    words = view.site.made.words
    unread = [row.memory.trigger for row in rows if words.get(row.memory.trigger) is None]
    if unread:
        try:
            read = await view.call.memories.services.runner.words_of(unread)
        except MemoryServerError as error:
            log.info("the words of triggers are not known: %s", error)
        else:
            for code, own in zip(unread, read, strict=True):
                words.put(code, own)
    told_rows = list[Told]()
    for row in rows:
        said = sentence(view.speech, words.get(row.memory.trigger) or (), row.times)
        told_rows.append(Told(row, view.capital(view.say(said)), _when(view.speech, row)))
    return told_rows


def _when(speech: Speech, row: Watching) -> str:
    if row.next_ms is None:
        return ""
    return speech.moment(row.next_ms) if row.times.hours else speech.date(row.next_ms, weekday=True)


def sentence(speech: Speech, words: Sequence[str], times: Times) -> str:
    """When it comes up: 说到 …, 或者 6 月 26 日到 28 日."""
    parts = list[str]()
    if words:
        between = "、" if speech.zh else ", "
        more = ("……" if speech.zh else "…") if len(words) > _SHOWN_WORDS else ""
        said = strong(between.join(words[:_SHOWN_WORDS]) + more)
        parts.append(_("When {words} is said", said) if len(words) == 1 else _("When you speak of {words}", said))
    if times.days is not None:
        first, end = (speech.date(milliseconds(day)) for day in times.days)
        day = strong(first)
        parts.append(_("on {day}", day) if first == end else _("from {day} to {end}", day, strong(end)))
    elif times.hours is not None:
        parts.append(_("from {day} to {end}", *(strong(f"{hour}:00") for hour in times.hours)))
    if not parts:
        return _("When its condition holds")
    return parts[0] if len(parts) == 1 else _("{words}, or {times}", *parts)


def _next_ms(speech: Speech, times: Times) -> int | None:
    if times.days is not None:
        return max(speech.now_ms, milliseconds(times.days[0]))
    if times.hours is not None:
        now = speech.local(speech.now_ms)
        begin = now.replace(hour=times.hours[0], minute=0, second=0, microsecond=0)
        return milliseconds(begin if begin >= now else begin + timedelta(days=1))
    return None


async def _times(view: View, codes: tuple[str, ...]) -> Mapping[str, Times]:
    """When they fire by themselves, as far as that is known by now; the rest is found meanwhile."""
    dated = tuple(sorted({code for code in codes if "Date" in code}))
    today = view.speech.local(view.speech.now_ms).replace(hour=12, minute=0, second=0, microsecond=0)
    if not dated:
        return {}
    key = view.conversation.id, today, dated
    task = view.site.made.firings.get(key)
    if task is None:
        task = asyncio.create_task(_firings(view, dated, today))
        view.site.made.firings.put(key, task)
    done, _pending = await asyncio.wait([task], timeout=_WAIT_SECONDS)
    return task.result() if done and not task.cancelled() else {}


async def _firings(view: View, codes: Sequence[str], today: datetime) -> dict[str, Times]:
    """Run them at noon of each day, and at each hour of today, with an empty chat."""
    context = {"messages": [], "conversation_id": view.conversation.id, "participants": {}}

    async def fires(now: datetime) -> list[bool]:
        ran = await view.call.memories.services.runner.evaluate(codes, context, now=now, seed=0)
        return [isinstance(ran.get(number), Fired) for number in range(len(codes))]

    try:
        days = [today + timedelta(days=number) for number in range(_DAYS)]
        by_day = [await fires(day) for day in days]
        by_hour = [await fires(today.replace(hour=hour)) for hour in range(24)]
    except MemoryServerError as error:
        log.info("the next firings of triggers are not known: %s", error)
        return {}
    found: dict[str, Times] = {}
    for number, code in enumerate(codes):
        hits = [row[number] for row in by_day]
        hours = [row[number] for row in by_hour]
        if any(hits) and not all(hits):
            first = hits.index(True)
            end = next((at for at in range(first, _DAYS) if not hits[at]), _DAYS) - 1
            found[code] = Times(days=(days[first], days[end]))
        elif any(hours) and not all(hours):
            begin = next(hour for hour in range(24) if hours[hour] and not hours[hour - 1])
            length = next(step for step in range(1, 25) if not hours[(begin + step) % 24])
            found[code] = Times(hours=(begin, (begin + length) % 24))
    return found

"""What a trigger waits for, as a sentence: the words that it looks for, and the days and hours at which it fires by
itself. The sandbox reads the words from the code; the times are found by running it at each day and hour to come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from languages import _, joined
from memory_server.conversations.trigger_search import trigger_context
from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.recorded_recall import RecordedRecall
from memory_server.kernel.times import milliseconds
from memory_server.kernel.values import frozen
from memory_server.lore import LongTermMemory
from memory_server.web.speech import Speech, strong
from sandbox import Fired

if TYPE_CHECKING:
    from memory_server.web.view import View

log = logging.getLogger(__name__)
_DAYS = 366
"""Days to come at whose noon a trigger is run."""
_SHOWN_WORDS = 5
"""Words of a trigger that its sentence names."""
_NAMES_OF_TIME = ("Date", "on_day", "days_until", "lunar")
"""Without one of these names the code of a trigger cannot read the time."""
_WAIT_SECONDS = 0.3
"""How long a page waits for the times at which triggers fire."""


@frozen
class Times:
    """When a trigger fires though nothing is said: the first day and the last day in a row, from the first of them
    on; or the hours of a day."""

    days: tuple[datetime, datetime] | None = None
    hours: tuple[int, int] | None = None


@frozen
class TriggerRow:
    """A trigger, and when it fired, fires by itself and failed; milliseconds since 1970."""

    memory: LongTermMemory
    times: Times
    last_ms: int | None
    next_ms: int | None
    failed_ms: int | None


@frozen
class TriggerSentence:
    """A trigger with the sentence that says when it comes up; `next`: the day or moment, empty if it is not known."""

    row: TriggerRow
    sentence: str
    next: str


async def watching(
    view: View, memories: Sequence[LongTermMemory], recalls: Sequence[RecordedRecall]
) -> list[TriggerRow]:
    """Return for each trigger when it last fired, when it fires next, and when it failed since its
    last change. `recalls`: newest first."""
    fired_ms: dict[str, int] = {}
    failures_ms: dict[str, int] = {}
    for recall in recalls:
        for item in recall.came:
            if item.tier == "trigger":
                fired_ms.setdefault(item.id, recall.at_ms)
        for name in recall.failed:
            failures_ms.setdefault(name, recall.at_ms)

    times = await _times(view, tuple(memory.trigger for memory in memories))
    rows: list[TriggerRow] = []
    for memory in memories:
        own_times = times.get(memory.trigger, Times())
        failed_ms = failures_ms.get(memory.name)
        if failed_ms is not None and failed_ms <= (memory.updated_ms or memory.created_ms):
            failed_ms = (
                None  # a failure of before the last change says nothing about the trigger as it is
            )

        rows.append(
            TriggerRow(
                memory=memory,
                times=own_times,
                last_ms=fired_ms.get(memory.name),
                next_ms=_next_ms(view.speech, own_times),
                failed_ms=failed_ms,
            )
        )

    return rows


async def told(view: View, rows: Sequence[TriggerRow]) -> list[TriggerSentence]:
    """Write each trigger as a sentence. The words that triggers look for are asked of the sandbox, and kept."""
    words = view.site.made.words
    unread = [row.memory.trigger for row in rows if words.get(row.memory.trigger) is None]
    if unread:
        try:
            words_of_unread = await view.call.memories.services.runner.words_of(unread)
        except MemoryServerError as error:
            log.info("the words of triggers are not known: %s", error)
        else:
            for code, own_words in zip(unread, words_of_unread, strict=True):
                words.put(code, own_words)
    told_rows: list[TriggerSentence] = []
    for row in rows:
        text = sentence(view.speech, words.get(row.memory.trigger) or (), row.times)
        told_rows.append(TriggerSentence(row, view.capital(text), _when(view.speech, row)))
    return told_rows


def _when(speech: Speech, row: TriggerRow) -> str:
    """Write when a trigger fires next: with the time if it is bound to hours; empty if that is not known."""
    if row.next_ms is None:
        return ""
    if row.times.hours:
        return speech.moment(row.next_ms)
    return speech.date(row.next_ms, weekday=True)


def sentence(speech: Speech, words: Sequence[str], times: Times) -> str:
    """Say when it comes up: 说到 …, 或者 6 月 26 日到 28 日."""
    words_part = _words_part(speech, words)
    times_part = _times_part(speech, times)
    if words_part and times_part:
        return _("{words}, or {times}", words_part, times_part)
    return words_part or times_part or _("When its condition is met")


def _words_part(speech: Speech, words: Sequence[str]) -> str:
    """Say the words that bring it; empty if it waits for none."""
    if not words:
        return ""
    shown = joined(", ", words[:_SHOWN_WORDS])
    if len(words) > _SHOWN_WORDS:
        shown += "……" if speech.zh else "…"
    if len(words) == 1:
        return _("When {words} is said", strong(shown))
    return _("When you speak of {words}", strong(shown))


def _times_part(speech: Speech, times: Times) -> str:
    """Say the days or hours at which it fires by itself; empty without days and hours."""
    if times.days is not None:
        first_day, last_day = times.days
        begin = speech.date(milliseconds(first_day))
        end = speech.date(milliseconds(last_day))
        if begin == end:
            return _("on {day}", strong(begin))
        return _("from {day} to {end}", strong(begin), strong(end))
    if times.hours is not None:
        first_hour, end_hour = times.hours
        return _("from {day} to {end}", strong(f"{first_hour}:00"), strong(f"{end_hour}:00"))
    return ""


def _next_ms(speech: Speech, times: Times) -> int | None:
    """Return when it fires next by itself: now, if its days have begun, or when its hours begin. Return None if it has
    neither."""
    if times.days is not None:
        return max(speech.now_ms, milliseconds(times.days[0]))
    if times.hours is not None:
        now = speech.local(speech.now_ms)
        begin = now.replace(hour=times.hours[0], minute=0, second=0, microsecond=0)
        if begin < now:
            begin += timedelta(days=1)
        return milliseconds(begin)
    return None


async def _times(view: View, codes: tuple[str, ...]) -> Mapping[str, Times]:
    """Return by code when each fires by itself, or nothing yet if finding that takes longer than `_WAIT_SECONDS`: it
    goes on, and a later page gets it. The result is kept for the conversation and the day; a failure is not."""
    dated = tuple(sorted({code for code in codes if any(name in code for name in _NAMES_OF_TIME)}))
    today = view.speech.local(view.speech.now_ms).replace(
        hour=12, minute=0, second=0, microsecond=0
    )
    if not dated:
        return {}
    key = view.conversation.id, today, dated
    task = view.site.made.firings.get(key)
    if task is None or _has_failed(task):
        task = asyncio.create_task(_firings(view, dated, today))
        task.add_done_callback(_log_failure)
        view.site.made.firings.put(key, task)
    await asyncio.wait([task], timeout=_WAIT_SECONDS)
    if not task.done() or _has_failed(task):
        return {}
    times: Mapping[str, Times] = task.result()
    return times


def _log_failure(task: asyncio.Task[Any]) -> None:
    if _has_failed(task):
        log.info("the next firings of triggers are not known: %r", task)


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _firings(view: View, codes: Sequence[str], today: datetime) -> dict[str, Times]:
    """Run the triggers at noon of each day, and at each hour of today, with an empty chat. Return when each fires.
    Raise MemoryServerError if they cannot run."""
    context = trigger_context((), view.conversation.id, {})

    async def fires(now: datetime) -> list[bool]:
        verdicts = await view.call.memories.services.runner.evaluate(
            codes, context, now=now, seed=0
        )
        return [isinstance(verdicts.get(number), Fired) for number in range(len(codes))]

    # Without messages only conditions on time can be true.
    days = [today + timedelta(days=number) for number in range(_DAYS)]
    by_day = [await fires(day) for day in days]
    by_hour = [await fires(today.replace(hour=hour)) for hour in range(24)]
    return {
        code: _times_of(
            days, [fired[number] for fired in by_day], [fired[number] for fired in by_hour]
        )
        for number, code in enumerate(codes)
    }


def _times_of(
    days: Sequence[datetime], fires_on: Sequence[bool], fires_at: Sequence[bool]
) -> Times:
    """Return the first days in a row on which a trigger fires, or else the hours of today at which it does; neither,
    if it always or never fires."""
    if any(fires_on) and not all(fires_on):
        first = fires_on.index(True)
        last = first
        while last + 1 < len(days) and fires_on[last + 1]:
            last += 1
        return Times(days=(days[first], days[last]))
    if any(fires_at) and not all(fires_at):
        begin = next(hour for hour in range(24) if fires_at[hour] and not fires_at[hour - 1])
        end = (begin + 1) % 24
        while fires_at[end]:
            end = (end + 1) % 24
        return Times(hours=(begin, end))
    return Times()

"""What a trigger waits for, as a sentence: the words that it looks for, and the days and hours at which it fires by
itself. The words are read from the code; the times are found by running it at each day and hour to come."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from memory_server.conversations.model import LongTermMemory
from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.recorded_recall import RecordedRecall
from memory_server.web.speech import Speech, strong
from sandbox.locale import _
from sandbox.verdicts import Fired

if TYPE_CHECKING:
    from memory_server.web.view import View

log = logging.getLogger(__name__)
_PLAIN = re.compile(r"[\w '’-]+")
_DAYS, _SHOWN_WORDS, _WAIT_SECONDS = 366, 5, 0.3


@dataclass(frozen=True, slots=True)
class Times:
    """When a trigger fires though nobody says anything: the first day and the last one in a row, from the first of
    them on; or the hours of a day."""

    days: tuple[datetime, datetime] | None = None
    hours: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Watching:
    """A trigger as a sentence, its text, and when it fired, fires and failed; milliseconds since 1970."""

    memory: LongTermMemory
    sentence: str
    last_ms: int | None
    next_ms: int | None
    next: str
    failed_ms: int | None


def words_of(code: str) -> list[str]:
    """The texts that a trigger gives to match_keys, in order; expressions as they are written."""
    from sandbox.javascript import syntax

    source, found = syntax.parse(code), list[str]()
    for node in syntax.walk(source.root):
        if syntax.called(node) in syntax.KEY_FUNCTIONS:
            for argument in syntax.arguments(node)[1:2]:
                for item in syntax.walk(argument):
                    if item.type == "string":
                        with contextlib.suppress(ValueError):
                            text = source.of(item)
                            found.append(json.loads(f'"{text[1:-1]}"'))
                    elif item.type == "regex":
                        parts = source.of(item).rstrip("dgimsuvy").strip("/").split("|")
                        found += [part for part in parts if _PLAIN.fullmatch(part)]
    return list(dict.fromkeys(word for word in found if word.strip()))


async def watching(view: View, memories: Sequence[LongTermMemory], recalls: Sequence[RecordedRecall]) -> list[Watching]:
    """Each trigger as a sentence; `recalls`: newest first."""
    last, failed = dict[str, int](), dict[str, int]()
    for recall in recalls:
        for item in recall.came:
            if item.tier == "trigger":
                last.setdefault(item.id, recall.at_ms)
        for name in recall.failed:
            failed.setdefault(name, recall.at_ms)
    times = await _times(view, tuple(memory.trigger for memory in memories))
    return [
        Watching(
            memory,
            view.capital(view.say(sentence(view.speech, memory.trigger, found := times.get(memory.trigger, Times())))),
            last.get(memory.name),
            after := _next_ms(view.speech, found),
            ""
            if after is None
            else view.speech.moment(after)
            if found.hours
            else view.speech.date(after, weekday=True),
            # A failure of before the last change says nothing about the trigger as it is.
            when if (when := failed.get(memory.name, -1)) > (memory.updated_ms or memory.created_ms) else None,
        )
        for memory in memories
    ]


def sentence(speech: Speech, code: str, times: Times) -> str:
    """When it comes up: 说到 …, 或者 6 月 26 日到 28 日."""
    words, parts = words_of(code), list[str]()
    between = "、" if speech.zh else ", "
    if words:
        more = ("……" if speech.zh else "…") if len(words) > _SHOWN_WORDS else ""
        said = strong(between.join(words[:_SHOWN_WORDS]) + more)
        parts.append(_("When {words} is said", said) if len(words) == 1 else _("When you speak of {words}", said))
    if times.days is not None:
        first, end = (speech.date(round(day.timestamp() * 1000)) for day in times.days)
        day = strong(first)
        parts.append(_("on {day}", day) if first == end else _("from {day} to {end}", day, strong(end)))
    elif times.hours is not None:
        parts.append(_("from {day} to {end}", *(strong(f"{hour}:00") for hour in times.hours)))
    if not parts:
        return _("When its condition holds")
    return parts[0] if len(parts) == 1 else _("{words}, or {times}", *parts)


def _next_ms(speech: Speech, times: Times) -> int | None:
    if times.days is not None:
        return max(speech.now_ms, round(times.days[0].timestamp() * 1000))
    if times.hours is not None:
        now = speech.local(speech.now_ms)
        begin = now.replace(hour=times.hours[0], minute=0, second=0, microsecond=0)
        return round((begin if begin >= now else begin + timedelta(days=1)).timestamp() * 1000)
    return None


async def _times(view: View, codes: tuple[str, ...]) -> Mapping[str, Times]:
    """When they fire by themselves, as far as that is known by now; the rest is found meanwhile."""
    dated = tuple(sorted({code for code in codes if "Date" in code}))
    today = view.speech.local(view.speech.now_ms).replace(hour=12, minute=0, second=0, microsecond=0)
    if not dated:
        return {}
    known, key = view.site.known, f"times {today} {hash(dated)}"
    if key not in known:
        for old in [name for name in known if name.startswith("times ")]:
            del known[old]
        known[key] = asyncio.create_task(_found(view, dated, today))
    task: asyncio.Task[Mapping[str, Times]] = known[key]
    done, _pending = await asyncio.wait([task], timeout=_WAIT_SECONDS)
    return task.result() if done else {}


async def _found(view: View, codes: Sequence[str], today: datetime) -> dict[str, Times]:
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

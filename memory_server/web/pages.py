"""The first page, subjects, all exchanges, Find, and the record of recalls: what it remembers, and why it came up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from starlette.responses import JSONResponse, Response

from memory_server.conversations.model import LongTermMemory, ShortTermMemory
from memory_server.kernel.items import Item, Sought
from memory_server.kernel.recalls import Line
from memory_server.kernel.times import DAY_MS
from memory_server.memories import forgetting
from memory_server.web.charts import Strip, strip
from memory_server.web.receipts import ShownRecall, at_ms, receipt
from memory_server.web.speech import days_between, whence
from memory_server.web.subjects import LOOKED_AT, Subject, best_sentences, holding, subjects
from memory_server.web.triggers import Watching, watching
from memory_server.web.view import View
from sandbox.locale import _

PAGE = 30
"""Rows of a list on one page."""
_CARDS, _TRIGGERS, _LATELY = 6, 5, 3
_MOST_DOTS = 120
"""Days of the strip; of a longer time, a dot is a week."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A row of the record: when, by whom, how many memories came, and which triggers and notes."""

    line: Line
    at_ms: int
    who: str
    came: int
    spoke: Sequence[str]


def asked_of(view: View, lines: Sequence[Line]) -> list[Asked]:
    rows = list[Asked]()
    for line in lines:
        spoke = [item["id"] for item in line.get("came", ()) if item.get("tier") in ("trigger", "note")]
        who = view.say(whence(line, view.site.user_home))
        rows.append(Asked(line, at_ms(line), who, len(line.get("came", ())) - len(spoke), spoke))
    return rows


async def recorded(view: View, conversation_id: str | None = None) -> list[Line]:
    """The recalls that are on record, newest first."""
    kept = view.call.memories.recalls
    return [] if kept is None else (await asyncio.to_thread(kept.found, conversation_id))[::-1]


async def home(view: View) -> Response:
    """`/`: what it remembers."""
    every = await view.conversation.short_term.memories()
    memories = _within(view, every)
    shelf, _unread = await view.conversation.long_term.with_shared()
    lines = [line for line in await recorded(view, view.conversation.id) if _of_folder(view, line)]
    gone = await view.conversation.archive.entries()
    counts = await view.call.memories.knowledge.overview()
    kinds = Counter[str]()
    for place, figures in counts.items():
        kinds[place.partition("/")[0]] += figures.count
    seen = await _overview(view, memories)
    newest = memories[-1] if memories else None
    said_in = next(
        (line for line in lines if newest and newest.session and line.get("session") == newest.session), None
    )
    triggers = await watching(view, [each.memory for each in shelf.memories], lines)
    return await view.page(
        "home.html",
        memories=memories,
        days=seen.days,
        newest=newest,
        source=None if said_in is None else whence(said_in, view.site.user_home),
        subjects=seen.subjects,
        cards=seen.cards,
        triggers=sorted(triggers, key=_soonest)[:_TRIGGERS],
        watching=len(triggers),
        gone=gone,
        gone_until=min((entry.at_ms for entry in gone), default=0) + view.site.keep_ms,
        kinds=kinds,
        lately=asked_of(view, lines[:_LATELY]),
        strips=seen.strips,
        weekly=seen.weekly,
        folders=Counter(one.folder for one in every if one.folder).most_common(PAGE),
        people=[place.partition("/")[2] for place in counts if place.startswith("sessions/")],
        findings=view.site.known.get("findings", ()),
    )


@dataclass(frozen=True, slots=True)
class _Overview:
    """What a conversation is about, and on how many days something was said."""

    subjects: Sequence[Subject]
    cards: Sequence[Subject]
    days: int
    strips: Sequence[Strip]
    weekly: bool


async def _overview(view: View, memories: Sequence[ShortTermMemory]) -> _Overview:
    """The same until the conversation changes, the day ends, or somebody reads another language."""
    name, today = view.conversation.id, view.speech.date(view.speech.now_ms)
    key = f"overview {name} {view.speech.language} {view['folder']}"
    version = await view.call.conversations.version(name), today
    known = view.site.known.get(key)
    if known is not None and known[0] == version:
        seen: _Overview = known[1]
        return seen
    short, _long = await view.conversation.insight.patterns(top=LOOKED_AT)

    def found() -> _Overview:
        every = subjects(memories, short.words)
        cards = [replace(one, quotes=best_sentences(memories, one.word)) for one in every[:_CARDS]]
        days = [view.speech.local(memory.time_ms) for memory in memories]
        return _Overview(every, cards, len({day.date() for day in days}), *_strips(view, days))

    seen = await asyncio.to_thread(found)
    view.site.known[key] = version, seen
    return seen


def _soonest(trigger: Watching) -> tuple[bool, int, int]:
    return trigger.next_ms is None and trigger.last_ms is None, -(trigger.last_ms or 0), trigger.next_ms or 0


def _within(view: View, memories: Sequence[ShortTermMemory]) -> list[ShortTermMemory]:
    """Those of the folder that the reader chose; all where none is chosen."""
    return [one for one in memories if view["folder"] in ("", one.folder)]


def _of_folder(view: View, line: Line) -> bool:
    return view["folder"] in ("", line.get("folder", line.get("cwd")))


def _strips(view: View, days: Sequence[datetime]) -> tuple[list[Strip], bool]:
    """The strip for a desk and for a phone, and whether a dot is a week."""
    speech, now = view.speech, view.speech.local(view.speech.now_ms)
    first = min((*days, now))
    every = days_between(first, now)
    weekly = len(every) > _MOST_DOTS
    counts = Counter(day.date() for day in days)
    cells, month = list[tuple[int, str, str | None]](), None
    for number, day in enumerate(every):
        if weekly and (len(every) - 1 - number) % 7:
            continue
        span = every[max(0, number - 6) : number + 1] if weekly else [day]
        count = sum(counts[one.date()] for one in span)
        begins = speech.month(day) if (day.year, day.month) != month else None
        month = day.year, day.month
        title = f"{speech.date(round(day.timestamp() * 1000))}: {view.say(speech.exchanges(count))}"
        cells.append((count, title, begins))
    today = view.say(_("today"))
    return [strip(cells, 917, 1, today), strip(cells, 350, 1 if len(cells) < 20 else 2, today)], weekly


async def all_subjects(view: View) -> Response:
    """`/subjects`: every word that several memories share."""
    memories = _within(view, await view.conversation.short_term.memories())
    short, _long = await view.conversation.insight.patterns(top=5 * LOOKED_AT)
    found = await asyncio.to_thread(subjects, memories, short.words)
    return await view.page("subjects.html", subjects=found, total=len(memories))


async def subject(view: View) -> Response:
    """`/subject`: the memories of one word, newest first; without a word, all of them."""
    memories = _within(view, await view.conversation.short_term.memories())
    word, page = view["word"], number(view["page"])
    found = sorted(holding(memories, word), key=lambda one: one.time_ms) if word else memories
    rows = found[::-1][page * PAGE : (page + 1) * PAGE]
    more = view.link("subject", word=word, page=page + 1) if len(found) > (page + 1) * PAGE else ""
    return await view.page("subject.html", word=word, rows=rows, total=len(found), more=more)


def number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0


async def find(view: View) -> Response:
    """`/find`: one search over all families, also among what was forgotten."""
    sought, found = view["q"].strip(), list[Item]()
    if sought:
        found, _words = await forgetting.find(view.call.memories.engines, [sought], Sought(archived=None))
    live, gone = [one for one in found if not one.archived], [one for one in found if one.archived]
    return await view.page("find.html", sought=sought, found=live[:PAGE], gone=gone[:5], total=len(live))


async def recalls(view: View) -> Response:
    """`/recalls`: the record as a timeline, with one receipt open."""
    lines = await recorded(view, None if view["folder"] else view.conversation.id)
    lines = [line for line in lines if _of_folder(view, line)]
    week = [line for line in lines if at_ms(line) > view.speech.now_ms - 7 * DAY_MS]
    opened, page = view["open"], number(view["page"])
    shown = lines[page * PAGE : (page + 1) * PAGE]
    chosen = next((line for line in lines if line["id"] == opened), None) if opened else None
    if chosen is None and not opened and not page:
        chosen = next((line for line in shown if "came" in line), None)
    elif chosen is not None and chosen not in shown:
        shown = [chosen]
    return await view.page(
        "recalls.html",
        rows=asked_of(view, shown),
        opened=None if chosen is None else chosen["id"],
        receipt=None if chosen is None else await opened_receipt(view, chosen),
        asked=len(week),
        quiet=sum("came" not in line for line in week),
        total=len(lines),
        more=view.link("recalls", page=page + 1) if len(lines) > (page + 1) * PAGE else "",
    )


async def opened_receipt(view: View, line: Line) -> ShownRecall:
    """A line with the texts of its memories as they are now."""
    known: dict[str, ShortTermMemory] = {}
    triggers: dict[str, LongTermMemory] = {}
    items = (*line.get("came", ()), *line.get("near", ()))
    for name in {line["conversation"], *(item["kept_in"] for item in items if "kept_in" in item)}:
        conversation = view.call.conversations.get(name)
        known |= {memory.id: memory for memory in await conversation.short_term.memories()}
        shelf, _unread = await conversation.long_term.with_shared()
        triggers |= {each.memory.name: each.memory for each in shelf.memories}
    return receipt(line, known, triggers, view.speech)


async def version(view: View) -> Response:
    """`/version`: how many changes the conversation has had, for the script."""
    return JSONResponse({"version": await view.call.conversations.version(view.conversation.id)})

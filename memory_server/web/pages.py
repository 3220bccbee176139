"""The first page, subjects, all exchanges, Find, and the record of recalls: what it remembers, and why it came up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from starlette.responses import JSONResponse, Response

from memory_server.conversations.changes import Added
from memory_server.conversations.model import LongTermMemory, ShortTermMemory
from memory_server.conversations.recall.filters import CommonWord
from memory_server.kernel.items import Item, Sought
from memory_server.kernel.recorded_recall import RecordedRecall
from memory_server.kernel.times import DAY_MS, milliseconds
from memory_server.memories import forgetting
from memory_server.web.charts import Strip, strip
from memory_server.web.receipts import ShownRecall, receipt
from memory_server.web.speech import days_between, whence
from memory_server.web.subjects import LOOKED_AT, Subject, best_sentences, holding, subjects
from memory_server.web.triggers import Watching, told, watching
from memory_server.web.view import View
from sandbox.locale import _

PAGE = 30
"""Rows of a list on one page."""
_CARDS, _TRIGGERS, _LATELY = 6, 5, 3
_COMMITS = 16
"""The newest changes among which the last storing is looked for."""
_MOST_DOTS = 120
"""Days of the strip; of a longer time, a dot is a week."""
_MOST_WEEKS = 260
"""Five years: with more dots none could be told from the next."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A row of the record, and who asked."""

    recall: RecordedRecall
    who: str


def asked_of(view: View, recalls: Sequence[RecordedRecall]) -> list[Asked]:
    return [Asked(recall, view.say(whence(recall, view.site.user_home))) for recall in recalls]


async def recorded(view: View, conversation_id: str | None = None) -> list[RecordedRecall]:
    """The recalls that are on record, newest first."""
    record = view.call.memories.recalls
    if record is None:
        return []
    return (await asyncio.to_thread(record.found, conversation_id))[::-1]


async def home(view: View) -> Response:
    """`/`: what it remembers."""
    every = await view.conversation.short_term.memories()
    memories = await asyncio.to_thread(_within, view, every)
    shelf, _unread = await view.conversation.long_term.with_shared()
    recalls = [recall for recall in await recorded(view, view.conversation.id) if _of_folder(view, recall)]
    gone = await view.conversation.archive.entries()
    counts = await view.call.memories.knowledge.overview()
    kinds = Counter[str]()
    for place, figures in counts.items():
        kinds[place.partition("/")[0]] += figures.count
    seen = await _overview(view, memories)
    newest = memories[-1] if memories else None
    asked_in_same_session = _of_session(recalls, None if newest is None else newest.session)
    triggers = await watching(view, [each.memory for each in shelf.memories], recalls)
    return await view.page(
        "home.html",
        memories=memories,
        days=seen.days,
        newest=newest,
        stored_ms=seen.stored_ms,
        source=None if asked_in_same_session is None else whence(asked_in_same_session, view.site.user_home),
        subjects=seen.subjects,
        cards=seen.cards,
        triggers=await told(view, sorted(triggers, key=_soonest)[:_TRIGGERS]),
        watching=len(triggers),
        gone=gone,
        gone_until=min((entry.at_ms for entry in gone), default=0) + view.site.keep_ms,
        kinds=kinds,
        lately=asked_of(view, recalls[:_LATELY]),
        strips=seen.strips,
        weekly=seen.weekly,
        folders=Counter(one.folder for one in every if one.folder).most_common(PAGE),
        people=[place.partition("/")[2] for place in counts if place.startswith("sessions/")],
        findings=() if view.site.made.examination is None else view.site.made.examination.findings,
    )


@dataclass(frozen=True, slots=True)
class _Overview:
    """What a conversation is about, and on how many days something was said. `stored_ms`: when a memory was stored
    last, which may be long after it was said; None: that is not known."""

    subjects: Sequence[Subject]
    cards: Sequence[Subject]
    days: int
    strips: Sequence[Strip]
    weekly: bool
    stored_ms: int | None


async def _overview(view: View, memories: Sequence[ShortTermMemory]) -> _Overview:
    """The same until the conversation changes, the day ends, or the reader has another language."""
    key = view.conversation.id, view.speech.language, view["folder"]
    version = await view.call.conversations.version(view.conversation.id), view.speech.date(view.speech.now_ms)
    made = view.site.made.overviews.get(key)
    if made is not None and made[0] == version:
        overview: _Overview = made[1]
        return overview
    short, _long = await view.conversation.insight.patterns(top=LOOKED_AT)
    stored_ms = await _stored_ms(view)
    overview = await asyncio.to_thread(_overview_of, view, memories, short.words, stored_ms)
    view.site.made.overviews.put(key, (version, overview))
    return overview


async def _stored_ms(view: View) -> int | None:
    """When a memory was stored last, as far as the newest changes tell."""
    for commit in await view.conversation.archive.history(limit=_COMMITS):
        if any(isinstance(change, Added) for change in commit.changes):
            return commit.at_ms
    return None


def _overview_of(
    view: View, memories: Sequence[ShortTermMemory], words: Sequence[CommonWord], stored_ms: int | None
) -> _Overview:
    every = subjects(memories, words)
    cards = [replace(card, quotes=best_sentences(memories, card.word)) for card in every[:_CARDS]]
    moments = [view.speech.local(memory.time_ms) for memory in memories]
    days = len({moment.date() for moment in moments})
    strips, weekly = _strips(view, moments)
    return _Overview(every, cards, days, strips, weekly, stored_ms)


def _soonest(trigger: Watching) -> tuple[bool, int, int]:
    return trigger.next_ms is None and trigger.last_ms is None, -(trigger.last_ms or 0), trigger.next_ms or 0


def _within(view: View, memories: Sequence[ShortTermMemory]) -> list[ShortTermMemory]:
    """Those of the folder that the reader chose; all where none is chosen."""
    folder = view["folder"]
    return [memory for memory in memories if memory.folder == folder] if folder else list(memories)


def _of_folder(view: View, recall: RecordedRecall) -> bool:
    return view["folder"] in ("", recall.folder or recall.cwd)


def _of_session(recalls: Sequence[RecordedRecall], session: str | None) -> RecordedRecall | None:
    """The newest recall of a session; None where the session is not known."""
    if not session:
        return None
    return next((recall for recall in recalls if recall.session == session), None)


def _strips(view: View, moments: Sequence[datetime]) -> tuple[list[Strip], bool]:
    """The strip for a desk and for a phone, and whether a dot is a week. It begins `_MOST_WEEKS` ago at the earliest,
    however long ago something was said."""
    speech, now = view.speech, view.speech.local(view.speech.now_ms)
    first = max(min((*moments, now)), speech.local(speech.now_ms - 7 * _MOST_WEEKS * DAY_MS))
    every = days_between(first, now)
    weekly = len(every) > _MOST_DOTS
    counts = Counter(moment.date() for moment in moments)
    cells, month = list[tuple[int, str, str | None]](), None
    for number, day in enumerate(every):
        if weekly and (len(every) - 1 - number) % 7:
            continue
        span = every[max(0, number - 6) : number + 1] if weekly else [day]
        count = sum(counts[one.date()] for one in span)
        begins = speech.month(day) if (day.year, day.month) != month else None
        month = day.year, day.month
        title = f"{speech.date(milliseconds(day))}: {view.say(speech.exchanges(count))}"
        cells.append((count, title, begins))
    today = view.say(_("today"))
    return [strip(cells, 917, 1, today), strip(cells, 350, 1 if len(cells) < 20 else 2, today)], weekly


async def all_subjects(view: View) -> Response:
    """`/subjects`: every word that several memories share."""
    memories = await asyncio.to_thread(_within, view, await view.conversation.short_term.memories())
    short, _long = await view.conversation.insight.patterns(top=5 * LOOKED_AT)
    found = await asyncio.to_thread(subjects, memories, short.words)
    return await view.page("subjects.html", subjects=found, total=len(memories))


async def subject(view: View) -> Response:
    """`/subject`: the memories of one word, newest first; without a word, all of them."""
    memories = await view.conversation.short_term.memories()
    word, page = view["word"], number(view["page"])
    of_word = await asyncio.to_thread(_of_word, view, memories, word)
    rows = of_word[::-1][page * PAGE : (page + 1) * PAGE]
    more = view.link("subject", word=word, page=page + 1) if len(of_word) > (page + 1) * PAGE else ""
    return await view.page("subject.html", word=word, rows=rows, total=len(of_word), more=more)


def _of_word(view: View, memories: Sequence[ShortTermMemory], word: str) -> list[ShortTermMemory]:
    """The memories of the chosen folder that have a word, oldest first; all of them without a word."""
    within = _within(view, memories)
    return sorted(holding(within, word), key=lambda memory: memory.time_ms) if word else within


def number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0


async def find(view: View) -> Response:
    """`/find`: one search over all families, also among what was forgotten."""
    from nlp.index_terms import seen_form

    # A word of which nothing can be seen cannot be looked for, and may have been pasted with the others.
    words = [word for word in view["q"].split() if seen_form(word)]
    sought = " ".join(words)
    found = list[Item]()
    if sought:
        found, _words = await forgetting.find(view.call.memories.engines, [sought], Sought(archived=None))
    live = [item for item in found if not item.archived]
    gone = [item for item in found if item.archived]
    return await view.page("find.html", sought=sought, found=live[:PAGE], gone=gone[:5], total=len(live))


async def recalls(view: View) -> Response:
    """`/recalls`: the record as a timeline, with one receipt open."""
    recalls = await recorded(view, None if view["folder"] else view.conversation.id)
    recalls = [recall for recall in recalls if _of_folder(view, recall)]
    week = [
        recall for recall in recalls if recall.at_ms > view.speech.now_ms - 7 * DAY_MS and not recall.begins_session
    ]
    page = number(view["page"])
    shown = recalls[page * PAGE : (page + 1) * PAGE]
    opened = _opened(view, recalls, shown)
    if opened is not None and opened not in shown:
        shown = [opened]
    return await view.page(
        "recalls.html",
        rows=asked_of(view, shown),
        opened=None if opened is None else opened.id,
        receipt=None if opened is None else await opened_receipt(view, opened),
        asked=len(week),
        quiet=sum(recall.is_quiet for recall in week),
        total=len(recalls),
        more=view.link("recalls", page=page + 1) if len(recalls) > (page + 1) * PAGE else "",
    )


def _opened(view: View, recalls: Sequence[RecordedRecall], shown: Sequence[RecordedRecall]) -> RecordedRecall | None:
    """The recall whose receipt is open: the one that the address names, or else the newest to which something came."""
    if view["open"]:
        return next((recall for recall in recalls if recall.id == view["open"]), None)
    if number(view["page"]):
        return None
    return next((recall for recall in shown if not recall.is_quiet), None)


async def opened_receipt(view: View, recall: RecordedRecall) -> ShownRecall:
    """A recall with the texts of its memories as they are now."""
    items = (*recall.came, *recall.near)
    ids = {item.id for item in items}
    memories = dict[str, ShortTermMemory]()
    triggers = dict[str, LongTermMemory]()
    names = {recall.conversation, *(item.conversation for item in items)}
    for name in names:
        conversation = view.call.conversations.get(name)
        every = await conversation.short_term.memories()
        memories |= await asyncio.to_thread(_with_ids, every, ids)
        shelf, _unread = await conversation.long_term.with_shared()
        triggers |= {row.memory.name: row.memory for row in shelf.memories}
    return receipt(recall, memories, triggers, view.speech)


def _with_ids(memories: Sequence[ShortTermMemory], ids: Collection[str]) -> dict[str, ShortTermMemory]:
    return {memory.id: memory for memory in memories if memory.id in ids}


async def version(view: View) -> Response:
    """`/version`: how many changes the conversation has had, for the script."""
    return JSONResponse({"version": await view.call.conversations.version(view.conversation.id)})

"""The first page, subjects, all exchanges, Find, and the record of recalls: what it remembers, and why it came up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Generic, TypeVar

from starlette.responses import JSONResponse, Response

from languages import _
from memory_server.conversations.changes import Added
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.filters import CommonWord
from memory_server.kernel.items import Item, ItemFilter
from memory_server.kernel.recorded_recall import RecordedRecall
from memory_server.kernel.times import DAY_MS, milliseconds
from memory_server.kernel.values import frozen
from memory_server.lore import LongTermMemory
from memory_server.memories import forgetting
from memory_server.memories.reasons import StoredNow
from memory_server.web.charts import Day, Strip, strip
from memory_server.web.receipts import ShownRecall, receipt
from memory_server.web.speech import days_between
from memory_server.web.subjects import LOOKED_AT, Subject, best_sentences, holding, subjects
from memory_server.web.triggers import TriggerRow, told, watching
from memory_server.web.view import View

R = TypeVar("R")

PAGE = 30
"""Rows of a list on one page."""
_CARDS = 6
"""Subjects with quotes on the first page."""
_TRIGGERS = 5
"""Triggers on the first page."""
_LATELY = 3
"""Recalls on the first page."""
_MOST_GONE = 5
"""Forgotten memories that a search shows beside the others."""
_COMMITS = 16
"""The newest changes among which the last storing is looked for."""
_MOST_DOTS = 120
"""Days of the strip; of a longer time, a dot is a week."""
_MOST_WEEKS = 260
"""Five years: with more dots none could be told from the next."""
_DESK = 917
"""Pixels of the strip on a desk."""
_PHONE = 350
"""Pixels of the strip on a phone."""
_ONE_ROW = 20
"""Dots that a phone shows in one row."""


@frozen
class RowsOfPage(Generic[R]):
    """The rows of a list on the page that the address names, and the link to the next page; empty without one."""

    rows: Sequence[R]
    more: str


def rows_of_page(
    view: View, all_rows: Sequence[R], path: str, length: int = PAGE, **parameters: str
) -> RowsOfPage[R]:
    """Return the part of a list that the address names. `path` and `parameters` are the address of the list."""
    page = number(view["page"])
    end = (page + 1) * length
    more = ""
    if len(all_rows) > end:
        more = view.link(path, page=page + 1, **parameters)
    return RowsOfPage(all_rows[end - length : end], more)


async def recorded(view: View, conversation_id: str | None = None) -> list[RecordedRecall]:
    """Read the recalls that are on record, newest first."""
    record = view.call.memories.recalls
    if record is None:
        return []
    oldest_first = await asyncio.to_thread(record.found, conversation_id)
    return oldest_first[::-1]


async def home(view: View) -> Response:
    """Return the first page: what the conversation remembers, its triggers, recalls and archive,
    and what else is kept."""
    all_memories = await view.conversation.short_term.memories()
    memories = await asyncio.to_thread(_of_chosen_folder, view, all_memories)
    newest = memories[-1] if memories else None
    overview = await _overview(view, memories)
    all_recalls = await recorded(view, view.conversation.id)
    recalls = [recall for recall in all_recalls if _of_folder(view, recall)]
    shelf, _unread = await view.conversation.long_term.with_shared()
    triggers = await watching(view, [row.memory for row in shelf.all], recalls)
    archived = await view.conversation.archive.entries()
    oldest_archived_ms = min((entry.at_ms for entry in archived), default=0)
    knowledge_figures = await view.call.memories.knowledge.overview()
    kinds: Counter[str] = Counter()
    people: list[str] = []
    for place, figures in knowledge_figures.items():
        kind, _slash, owner = place.partition("/")
        kinds[kind] += figures.count
        if place.startswith("sessions/"):
            people.append(owner)

    folders = Counter(memory.folder for memory in all_memories if memory.folder)
    examination = view.site.made.examinations.get(view.speech.language)
    return await view.page(
        "home.html",
        memories=memories,
        days=overview.days,
        newest=newest,
        stored_ms=overview.stored_ms,
        source=_source_of(view, recalls, newest),
        subjects=overview.subjects,
        cards=overview.cards,
        # Only what is shown is put into words, which asks the sandbox.
        triggers=await told(view, sorted(triggers, key=_soonest)[:_TRIGGERS]),
        watching=len(triggers),
        gone=archived,
        gone_until=oldest_archived_ms + view.site.keep_ms,
        kinds=kinds,
        lately=recalls[:_LATELY],
        strips=overview.strips,
        weekly=overview.weekly,
        folders=folders.most_common(PAGE),
        people=people,
        findings=() if examination is None else examination.findings,
    )


@frozen
class _Overview:
    """What a conversation is about, and on how many days something was said. `stored_ms`: when a memory was stored
    last, which may be long after it was said, or None if that is not known."""

    subjects: Sequence[Subject]
    cards: Sequence[Subject]
    days: int
    strips: Sequence[Strip]
    weekly: bool
    stored_ms: int | None


async def _overview(view: View, memories: Sequence[ShortTermMemory]) -> _Overview:
    """Return the overview, which stays the same until the conversation changes, the day ends, or the reader has
    another language."""
    key = (view.conversation.id, view.speech.language, view["folder"])
    change_count = await view.call.conversations.version(view.conversation.id)
    version = (change_count, view.speech.date(view.speech.now_ms))
    versioned = view.site.made.overviews.get(key)
    if versioned is not None and versioned[0] == version:
        stored_overview: _Overview = versioned[1]
        return stored_overview
    short, _long = await view.conversation.insight.patterns(top=LOOKED_AT)
    stored_ms = await _stored_ms(view)
    overview = await asyncio.to_thread(_overview_of, view, memories, short.words, stored_ms)
    view.site.made.overviews.put(key, (version, overview))
    return overview


async def _stored_ms(view: View) -> int | None:
    """Return when a memory was stored last, as far as the newest changes tell."""
    for commit in await view.conversation.archive.history(limit=_COMMITS):
        if any(isinstance(change, Added) for change in commit.changes):
            return commit.at_ms
    return None


def _overview_of(
    view: View,
    memories: Sequence[ShortTermMemory],
    words: Sequence[CommonWord],
    stored_ms: int | None,
) -> _Overview:
    """Compute the overview of `memories`: their subjects by `words`, cards with sentences of the
    first subjects, and strips of the days on which something was said."""
    shown_subjects = subjects(memories, words)
    cards = [
        replace(card, quotes=best_sentences(memories, card.word))
        for card in shown_subjects[:_CARDS]
    ]
    moments = [view.speech.local(memory.time_ms) for memory in memories]
    dates = {moment.date() for moment in moments}
    strip_days = _strip_days(view, moments)
    return _Overview(
        subjects=shown_subjects,
        cards=cards,
        days=len(dates),
        strips=_strips(strip_days.days),
        weekly=strip_days.are_weeks,
        stored_ms=stored_ms,
    )


def _soonest(trigger: TriggerRow) -> tuple[bool, int, int]:
    """Return the order on the first page: what fired last, then what fires next, then all others."""
    has_no_time = trigger.next_ms is None and trigger.last_ms is None
    return has_no_time, -(trigger.last_ms or 0), trigger.next_ms or 0


def _of_chosen_folder(view: View, memories: Sequence[ShortTermMemory]) -> list[ShortTermMemory]:
    """Return the memories of the folder that the reader chose, or all without a choice."""
    folder = view["folder"]
    if not folder:
        return list(memories)
    return [memory for memory in memories if memory.folder == folder]


def _of_folder(view: View, recall: RecordedRecall) -> bool:
    return view["folder"] in ("", recall.folder or recall.cwd)


def _source_of(
    view: View, recalls: Sequence[RecordedRecall], memory: ShortTermMemory | None
) -> str | None:
    """Say who asked last in the session of a memory, and in which folder. Return None if that is not known."""
    if memory is None or not memory.session:
        return None
    for recall in recalls:
        if recall.session == memory.session:
            return view.whence(recall)
    return None


@frozen
class _StripDays:
    """The dots of the strip, oldest first, and whether each is a week."""

    days: Sequence[Day]
    are_weeks: bool


def _strip_days(view: View, moments: Sequence[datetime]) -> _StripDays:
    """Return the days from the first moment until today. They begin `_MOST_WEEKS` ago at the earliest, however long
    ago something was said."""
    speech = view.speech
    now = speech.local(speech.now_ms)
    earliest = speech.local(speech.now_ms - 7 * _MOST_WEEKS * DAY_MS)
    first_moment = min((*moments, now))
    all_days = days_between(max(first_moment, earliest), now)
    # A long time has a dot for each week, or the dots would be too small.
    are_weeks = len(all_days) > _MOST_DOTS
    days_of_dot = 7 if are_weeks else 1
    exchanges_by_date = Counter(moment.date() for moment in moments)
    dots: list[Day] = []
    month_before: tuple[int, int] | None = None
    for number, day in enumerate(all_days):
        days_after = len(all_days) - 1 - number
        if days_after % days_of_dot != 0:
            continue  # a dot is at its last day, and the last dot at today
        first_number = max(0, number + 1 - days_of_dot)
        count = sum(
            exchanges_by_date[moment.date()] for moment in all_days[first_number : number + 1]
        )
        title = f"{speech.date(milliseconds(day))}: {speech.exchanges(count)}"
        month = (day.year, day.month)
        begins_month = month != month_before
        dots.append(Day(count, title, speech.month(day) if begins_month else None))
        month_before = month

    return _StripDays(dots, are_weeks)


def _strips(days: Sequence[Day]) -> list[Strip]:
    """Draw the strip for a desk and for a phone."""
    today = _("today")
    phone_rows = 1 if len(days) < _ONE_ROW else 2
    return [strip(days, _DESK, 1, today), strip(days, _PHONE, phone_rows, today)]


async def all_subjects(view: View) -> Response:
    """`/subjects`: every word that several memories share."""
    all_memories = await view.conversation.short_term.memories()
    memories = await asyncio.to_thread(_of_chosen_folder, view, all_memories)
    short, _long = await view.conversation.insight.patterns(top=5 * LOOKED_AT)
    shown_subjects = await asyncio.to_thread(subjects, memories, short.words)
    return await view.page("subjects.html", subjects=shown_subjects, total=len(memories))


async def subject(view: View) -> Response:
    """Return the page `/subject`: the memories of a word, newest first; without a word, all of
    them."""
    memories = await view.conversation.short_term.memories()
    word = view["word"]
    oldest_first = await asyncio.to_thread(_of_word, view, memories, word)
    page = rows_of_page(view, oldest_first[::-1], "subject", word=word)
    return await view.page(
        "subject.html", word=word, rows=page.rows, total=len(oldest_first), more=page.more
    )


def _of_word(view: View, memories: Sequence[ShortTermMemory], word: str) -> list[ShortTermMemory]:
    """Return the memories of the chosen folder that have a word, oldest first; all of them without a word."""
    within = _of_chosen_folder(view, memories)
    if not word:
        return within
    return sorted(holding(within, word), key=lambda memory: memory.time_ms)


def number(text: str) -> int:
    """Parse the number of a page in an address; 0, the first, for anything else."""
    if text.isascii() and text.isdecimal() and len(text) < 7:
        return int(text)
    return 0


async def find(view: View) -> Response:
    """Return the page `/find`: one search over all families, also in the archive; nothing without a
    word that can be seen."""
    from nlp.index_terms import seen_form

    # A word of which nothing can be seen cannot be looked for, and may have been pasted with the others.
    words = [word for word in view["q"].split() if seen_form(word)]
    sought = " ".join(words)
    items: list[Item] = []
    if sought:
        items, _words = await forgetting.find(
            view.call.memories.engines, [sought], ItemFilter(archived=None)
        )
    live = [item for item in items if not item.archived]
    archived = [item for item in items if item.archived]
    return await view.page(
        "find.html", sought=sought, found=live[:PAGE], gone=archived[:_MOST_GONE], total=len(live)
    )


async def recalls(view: View) -> Response:
    """Return the page `/recalls`: the record of this conversation, or of a folder in all of them,
    with one receipt open."""
    # A folder is worked on in several conversations.
    conversation_id = None if view["folder"] else view.conversation.id
    all_recalls = await recorded(view, conversation_id)
    recalls = [recall for recall in all_recalls if _of_folder(view, recall)]
    week_ago_ms = view.speech.now_ms - 7 * DAY_MS
    asked_this_week = [
        recall for recall in recalls if recall.at_ms > week_ago_ms and not recall.begins_session
    ]
    page = rows_of_page(view, recalls, "recalls")
    shown = page.rows
    opened = _opened(view, recalls, shown)
    opened_id: str | None = None
    shown_receipt: ShownRecall | None = None
    if opened is not None:
        opened_id = opened.id
        shown_receipt = await opened_receipt(view, opened)
        # A recall that the address names may be on another page.
        if opened not in shown:
            shown = [opened]

    return await view.page(
        "recalls.html",
        rows=shown,
        opened=opened_id,
        receipt=shown_receipt,
        asked=len(asked_this_week),
        quiet=sum(recall.is_quiet for recall in asked_this_week),
        total=len(recalls),
        more=page.more,
    )


def _opened(
    view: View, recalls: Sequence[RecordedRecall], shown: Sequence[RecordedRecall]
) -> RecordedRecall | None:
    """Return the recall whose receipt is open: the recall that the address names, or else, on the
    first page, the newest to which something came. Return None if none exists."""
    if view["open"]:
        return next((recall for recall in recalls if recall.id == view["open"]), None)
    if number(view["page"]):
        return None
    return next((recall for recall in shown if not recall.is_quiet), None)


async def opened_receipt(view: View, recall: RecordedRecall) -> ShownRecall:
    """Return a recall with the texts of its memories as they are now."""
    items = (*recall.came, *recall.near)
    conversation_ids = {recall.conversation} | {item.conversation for item in items}
    now = StoredNow(view.conversation.day_notes)
    triggers: dict[str, LongTermMemory] = {}
    for conversation_id in conversation_ids:
        conversation = view.call.conversations.get(conversation_id)
        all_memories = await conversation.short_term.memories()
        await asyncio.to_thread(now.add, all_memories)
        shelf, _unread = await conversation.long_term.with_shared()
        triggers |= {row.memory.name: row.memory for row in shelf.all}
    return receipt(recall, now, triggers, view.speech)


async def version(view: View) -> Response:
    """`/version`: how many changes the conversation has had, for the script."""
    return JSONResponse({"version": await view.call.conversations.version(view.conversation.id)})

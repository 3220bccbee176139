"""What people say they will do on a day is a plan until the end of that day: which plans are open, which come by
themselves today, and how a plan is called. Pure; nlp/exact_days.py finds the days.

What is said today of a later day is a plan. A plan for a day that is doubtful (`next Friday` on a Monday) or not
exact (月底) is in lists of plans, and does not come by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from datetime import date, timedelta, tzinfo
from itertools import islice
from typing import TypeVar

from languages import _, n_, spoken
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall.passages import chunks_of
from memory_server.kernel.messages import Message, said_in
from memory_server.kernel.times import DAY_MS, local
from memory_server.kernel.values import dataclass, frozen
from memory_server.lore import ChatState, firing_key
from nlp.day_notes import day_text
from nlp.exact_days import ExactDay, may_name_far_day
from nlp.plans import AskedPlans, is_before_noon, told_plans

_LOOKED_AT = 2_000
"""Memories in which plans are looked for, and so many older ones that may name a far day: some 60 ms each."""
_SKIMMED = 20_000
"""Memories of which a look at some words says whether they may name a far day: some 3 us each."""
_MOST_CHARS = 2_000
"""Characters of a message in which a plan is looked for: a longer message is pasted, and tells of others."""
_MOST_OF_MESSAGE = 5
"""Plans that are read of a message."""
_LONGEST = timedelta(days=7)
"""A plan for more days does not come by itself."""
PLANNED_AHEAD_MS = 100 * DAY_MS
"""How long before a time most plans for it are said."""

M = TypeVar("M")


@frozen
class Plan:
    """A message of a memory that names a `day` which was to come when it was said, on the day `said`. `is_early`: it
    names a time before noon. `kept_in`: the conversation that keeps it."""

    memory: ShortTermMemory
    message: Message
    day: ExactDay
    said: date
    is_early: bool
    kept_in: str = ""

    @property
    def last(self) -> date:
        """The last day of it, or the later of two days that may be meant."""
        return max(self.day.last, self.day.other or self.day.last)

    @property
    def first(self) -> date:
        return min(self.day.first, self.day.other or self.day.first)

    def is_due(self, today: date) -> bool:
        """Return whether it comes by itself today."""
        day = self.day
        is_sure = not day.rough and day.other is None and day.last - day.first < _LONGEST
        if not is_sure or not self.said < min(day.first, today):
            return False
        return day.first <= today <= day.last or self.is_on_the_eve(today)

    def is_on_the_eve(self, today: date) -> bool:
        """Return whether today is the day before it, and it begins before noon."""
        return self.is_early and today == self.day.first - timedelta(days=1)

    def key(self, today: date) -> str:
        """By what the state of a chat knows that it came: once on its day, once on the day before it."""
        day = min(today, self.day.first)
        return firing_key(f"plan\0{self.memory.id}\0{self.day.first}\0{day}", self.kept_in)


def plans_of(memory: ShortTermMemory, zone: tzinfo | None, kept_in: str = "") -> Iterator[Plan]:
    """Yield the plans that the user tells in a memory, in the order in which they are told, one for each day of a
    message; none for a memory without a time. Long messages and code are passed over."""
    if not memory.time_ms:
        return  # its time is not known, so `Thursday` in it means no day
    for message in memory.messages or said_in(memory.text):
        text = message.content
        if message.role != "user" or len(text) > _MOST_CHARS:
            continue

        said_at = local(message.time_ms or memory.time_ms, zone)
        days: set[date] = set()
        for chunk in chunks_of(text, longest=_MOST_CHARS):
            sentence = text[chunk.start : chunk.end].strip()
            told_here = () if chunk.code else told_plans(sentence, said_at)
            for part, day in told_here:
                if day.first not in days and len(days) < _MOST_OF_MESSAGE:
                    days.add(day.first)
                    yield Plan(memory, message, day, said_at.date(), is_before_noon(part), kept_in)


def plan_candidates(
    candidates: Iterable[M], memory_of: Callable[[M], ShortTermMemory]
) -> Iterator[M]:
    """Yield the candidates in which plans are looked for: the first ones, and later ones that may name a far day."""
    further = 0
    for number, candidate in enumerate(islice(candidates, _SKIMMED)):
        if number >= _LOOKED_AT:
            if further == _LOOKED_AT or not may_name_far_day(memory_of(candidate).text):
                continue
            further += 1
        yield candidate


def open_day(memory: ShortTermMemory, asked: AskedPlans, zone: tzinfo | None) -> date | None:
    """Return the first of the days asked for on which a memory has a plan that is not over, or None."""
    days = [
        max(plan.first, asked.first)
        for plan in plans_of(memory, zone)
        if plan.last >= asked.first and plan.first <= asked.last
    ]
    return min(days, default=None)


def fell_within(
    memory: ShortTermMemory, spans: Iterable[tuple[date, date]], zone: tzinfo | None
) -> bool:
    """Return whether a memory tells of a plan that fell within any of these stretches of days."""
    plans = list(plans_of(memory, zone))
    return any(plan.first <= last and plan.last >= first for first, last in spans for plan in plans)


@dataclass(slots=True)
class DayOfPlans:
    """What a conversation has of plans that come by themselves on a day of `zone`; `count` of its memories were looked
    through. It is made once a day, and later only the new memories are looked through."""

    day: date
    zone: tzinfo | None
    count: int = 0
    plans: list[Plan] = field(default_factory=list)

    @staticmethod
    def of(state: ConversationState, day: date, zone: tzinfo | None) -> DayOfPlans:
        """Return the plans that `state` keeps for this day. Put a new value in their place if they are of another day
        or zone, or if memories were removed since."""
        stored: DayOfPlans | None = state.due
        total = len(state.short_term)
        if stored is None or (stored.day, stored.zone) != (day, zone) or total < stored.count:
            stored = DayOfPlans(day, zone)
            state.due = stored
        return stored

    def taken(self, state: ConversationState) -> list[ShortTermMemory]:
        """Return the memories of `state` that were not looked through yet; from now on they count as looked through."""
        new_count = len(state.short_term) - self.count
        self.count = len(state.short_term)
        return list(islice(reversed(state.short_term.values()), min(new_count, _SKIMMED)))

    def look_through(self, memories: Iterable[ShortTermMemory], kept_in: str) -> None:
        """Find the plans for this day in `memories`. Blocking."""
        for memory in plan_candidates(memories, lambda memory: memory):
            plans = plans_of(memory, self.zone, kept_in)
            self.plans += [plan for plan in plans if plan.is_due(self.day)]

    def present(self, state: ConversationState) -> list[Plan]:
        """Return the plans whose memories still exist and have the same text."""
        plans: list[Plan] = []
        for plan in self.plans:
            memory = state.short_term.get(plan.memory.id)
            if memory is not None and memory.text == plan.memory.text:
                plans.append(replace(plan, memory=memory))
        return plans


def not_shown(plans: Iterable[Plan], chats: Iterable[ChatState], today: date) -> tuple[Plan, ...]:
    """Return the plans that did not come in any of these chats yet."""
    shown_keys = set[str]().union(*(chat.firings for chat in chats))
    return tuple(plan for plan in plans if plan.key(today) not in shown_keys)


def plan_text(memory: ShortTermMemory, now_ms: int, zone: tzinfo | None) -> str:
    """Describe the plan that a memory tells of: `a plan for 24 June, which was 3 days ago`; empty if it tells of no
    plan."""
    today = local(now_ms, zone).date()
    plans = list(plans_of(memory, zone))
    if not plans:
        return ""

    # A plan that is over is named only if no other plan is left.
    open_plans = [plan for plan in plans if plan.last >= today]
    plan = min(open_plans or plans, key=lambda plan: plan.first)
    day = day_text(plan.day._replace(is_plan=False), today, is_chinese=spoken() == "zh")

    days_over = (today - plan.last).days
    days_ahead = (plan.first - today).days
    if days_over > 0:
        return n_(
            "a plan for {day}, which was {count} day ago",
            "a plan for {day}, which was {count} days ago",
            days_over,
            day,
        )

    if days_ahead <= 0:
        if plan.day.is_long:
            return _("a plan for {day}, which is now", day)
        return _("a plan for {day}, which is today", day)
    return n_(
        "a plan for {day}, in {count} day", "a plan for {day}, in {count} days", days_ahead, day
    )

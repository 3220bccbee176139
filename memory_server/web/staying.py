"""Whether a memory will stay: when it was used, when it will have faded, and the curve of both."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from languages import _
from memory_server.conversations.changes import Commit, Reinforced, change_id
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.retention import worth
from memory_server.kernel.times import DAY_MS, within_calendar
from memory_server.kernel.values import dataclass
from memory_server.web.charts import Curve, curve

if TYPE_CHECKING:
    from memory_server.web.view import View

_COMMITS = (8, 16, 32, 64, 128, 256, 512)
"""How far back the uses of a memory are looked for. The first pages are small, for a commit of an import takes long to
read; they grow, for each is read from the newest commit on."""
_MOST_USES = 100
"""Uses of a memory that its curve shows."""
_MOMENTS, _STEPS = 200, 160
"""Moments at which is looked whether a memory has faded, and steps of its curve."""
_WIDTHS = (620, 350)
"""Pixels of the curve on a desk and on a phone."""


@dataclass(frozen=True, slots=True)
class Use:
    """A moment at which a memory was used: its score before and after."""

    at_ms: int
    before: float
    after: float


async def uses_of(view: View, shown: ShortTermMemory) -> list[Use]:
    """When it was used, oldest first; at most the last `_MOST_USES` times."""
    newest_first = list[Use]()
    before: str | None = None
    score_left = shown.score
    for limit in _COMMITS:
        if score_left <= 0:
            break
        commits = await view.conversation.archive.history(before=before, limit=limit)
        newest_first += await asyncio.to_thread(_uses_in, commits, shown.id)
        if newest_first:
            score_left = newest_first[-1].before
        if not commits or commits[-1].at_ms < shown.time_ms:
            break
        before = change_id(view.conversation.id, commits[-1].version)
    return newest_first[:_MOST_USES][::-1]


def _uses_in(commits: Sequence[Commit], memory_id: str) -> list[Use]:
    """The uses of a memory in these commits, in the order of the commits."""
    uses = list[Use]()
    for commit in commits:
        for change in commit.changes:
            if isinstance(change, Reinforced) and change.id == memory_id:
                uses.append(Use(at_ms=commit.at_ms, before=change.before, after=change.after))
    return uses


@dataclass(frozen=True, slots=True)
class Stay:
    """Whether a memory will stay: when it will have faded, whether it has, and its curves for a desk and a phone."""

    fades_ms: int
    has_faded: bool
    curves: Sequence[Curve]


def stay(view: View, shown: ShortTermMemory, uses: Sequence[Use], *, with_curves: bool) -> Stay:
    """Whether the memory on the page will stay, with its curves if the page draws them."""
    parameters = view.call.memories.services.parameters
    now_ms = view.speech.now_ms
    limit = parameters.retention.min_relevance

    def has_faded(at_ms: int) -> bool:
        return worth(shown, at_ms, parameters.recall) < limit

    last_ms = within_calendar(shown.time_ms + parameters.retention.max_age_ms)
    curves: list[Curve] = []
    if with_curves:
        curves = [_curve(view, shown, uses, width) for width in _WIDTHS]
    return Stay(fading_ms(now_ms, last_ms, has_faded), has_faded(now_ms), curves)


def fading_ms(now_ms: int, last_ms: int, has_faded: Callable[[int], bool]) -> int:
    """The first day, counted from now, on which it has faded; `last_ms` if there is none before. It is looked for at
    `_MOMENTS` moments at most, however far away `last_ms` is: each step is longer than the one before, and then the
    day is found within the step, because what has faded stays so."""
    days = max(0, last_ms - now_ms) // DAY_MS

    def has_faded_on(day: int) -> bool:
        return has_faded(now_ms + day * DAY_MS)

    begin = 0
    for end in sorted({round(days * (step / (_MOMENTS - 1)) ** 3) for step in range(_MOMENTS)}):
        if has_faded_on(end):
            within_step = bisect_left(range(begin, end), True, key=has_faded_on)
            return now_ms + (begin + within_step) * DAY_MS
        begin = end
    return last_ms


def _curve(view: View, shown: ShortTermMemory, uses: Sequence[Use], width: int) -> Curve:
    speech = view.speech
    parameters = view.call.memories.services.parameters
    start_ms = min(shown.time_ms, speech.now_ms)
    span_ms = max(speech.now_ms - start_ms, 3 * DAY_MS)
    end_ms = speech.now_ms + max(DAY_MS, span_ms // 3)

    def worth_at(at_ms: int, score: float) -> tuple[int, float]:
        return at_ms, worth(replace(shown, score=score), at_ms, parameters.recall)

    points: list[tuple[int, float]] = []
    score = uses[0].before if uses else shown.score
    pending = deque(uses)
    moments = {start_ms + (end_ms - start_ms) * step // _STEPS for step in range(_STEPS + 1)}
    for moment_ms in sorted(moments | {speech.now_ms}):
        while pending and pending[0].at_ms <= moment_ms:
            use = pending.popleft()
            used_ms = max(start_ms, use.at_ms)
            points += [worth_at(used_ms, use.before), worth_at(used_ms, use.after)]
            score = use.after
        points.append(worth_at(moment_ms, score))
    labels = [(_("just said, clearest"), speech.date(start_ms))]
    for number, use in enumerate(uses):
        label = _("used, brighter") if number == 0 else _("used again")
        labels.append((label, speech.date(use.at_ms)))
    turns = [(max(start_ms, use.at_ms), worth_at(use.at_ms, use.after)[1]) for use in uses]
    return curve(
        made_ms=start_ms,
        uses=turns,
        now_ms=speech.now_ms,
        worth=points,
        fading=parameters.retention.min_relevance,
        width=width,
        words=labels,
    )

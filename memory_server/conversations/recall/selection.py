"""A search that looks at one memory after the other, by the rule of docs/explanation/recall.md.

`indexed_selection.py` gives the same result, and a test compares both. It needs numpy and an index, which cost 0.1 s
and more before the first answer; this one takes 20 to 30 ms for 1,000 memories, each time. Both follow `order.py`.

A memory is excluded if it is muted, or if the asking session may still see it:

| the memory's session and the asking one | excluded |
| --- | --- |
| both known, and not the same | never: the asking session has not seen it |
| the same, and it is known what it still has in its context | what is in the context, however old |
| the same, and that is not known; or a session is unknown | of this conversation what is younger than 20 minutes |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import tzinfo
from functools import cached_property
from itertools import chain, pairwise
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from memory_server.conversations.changes import Reinforced
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.order import (
    Cosines,
    NearMiss,
    Order,
    Recalled,
    answers_by_question_id,
    explained,
    may_come,
    near_misses,
    order_of,
    threshold,
)
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.plans import Plan, plans_of
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.relevance import age_of, receipts
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.times import local
from memory_server.kernel.values import dataclass, frozen
from nlp.plans import asks_ahead

if TYPE_CHECKING:
    from memory_server.conversations.recall.order import SearchScores


Exclusion = Literal["in_context", "too_young", "muted"]


@frozen
class HeldBack:
    """How many memories a rule held back: `recent`, `in_context`, `muted`, and `adjacent`, which are relevant but
    within 10 minutes of a chosen one."""

    recent: int
    adjacent: int
    in_context: int = 0
    muted: int = 0


@frozen
class Recall:
    """The result of a search for `query` among `searched` memories."""

    top: tuple[Recalled, ...]
    next: tuple[Recalled, ...]
    flashback: tuple[Recalled, ...]
    held_back: HeldBack
    searched: int
    query: RecallQuery = field(default_factory=RecallQuery)
    answers: Mapping[str, ShortTermMemory] = field(default_factory=dict)
    """For top and next memories that end with a question, by id: the memory that was said next."""
    near: tuple[NearMiss, ...] = ()
    """The most relevant ones that share something, could come and did not."""
    needed: float = 0.0
    """The points at which a memory comes unasked: of what it shares, in the Node original of its relevance."""
    due: tuple[Plan, ...] = ()
    """The plans that come by themselves, because it is their day."""

    @property
    def came_unasked(self) -> bool:
        """Whether a memory came that would come unasked too."""
        return any(not recalled.weak for recalled in (*self.top, *self.next))

    def gains(self, parameters: RecallParameters) -> Iterator[tuple[Recalled, float]]:
        """Yield the points that each memory gains: top +5, next +2; flashbacks, weak memories and overviews 0."""
        if self.query.overview is not None:
            return
        for recalled in self.top:
            if not recalled.weak:
                yield recalled, parameters.top_reinforcement
        # A match in the place of a flashback gains as little as that.
        for recalled in self.next[: parameters.next_count]:
            if not recalled.weak:
                yield recalled, parameters.next_reinforcement


NOTHING_RECALLED = Recall((), (), (), HeldBack(0, 0), 0)


def reinforcements(
    gains: Iterable[tuple[ShortTermMemory, float]], parameters: RecallParameters
) -> tuple[Reinforced, ...]:
    """Return the changes that give these memories their points, up to the ceiling. A score that cannot rise makes no
    change, so that the search does not have to write."""
    changes: list[Reinforced] = []
    for memory, points in gains:
        score = min(memory.score + points, parameters.score_ceiling)
        if score > memory.score:
            changes.append(Reinforced(memory.id, memory.score, score))
    return tuple(changes)


def recall_of(
    counted: SearchScores, order: Order, drawn: Sequence[int], held_back: HeldBack
) -> Recall:
    """Return the answer of a search, with a receipt for each memory that came."""
    came_rows = frozenset((*order.chosen, *drawn))
    top_count = counted.parameters.top_count
    return Recall(
        top=explained(counted, order, order.chosen[:top_count]),
        next=explained(counted, order, order.chosen[top_count:]),
        flashback=explained(counted, order, drawn),
        held_back=held_back,
        searched=counted.size,
        query=counted.query,
        answers=answers_by_question_id(counted, order, came_rows),
        near=near_misses(counted, order, came_rows),
        needed=threshold(counted),
    )


@dataclass(eq=False)
class ScannedScores:
    """The memories of a search, looked at one after the other; it is an `order.SearchScores`. A row is the number of a
    memory."""

    memories: Sequence[ShortTermMemory]
    receipts: Sequence[Receipt]
    exclusions: Sequence[Exclusion | None]
    query: RecallQuery
    parameters: RecallParameters
    cosines_by_id: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.relevance = [receipt.relevance for receipt in self.receipts]

    @property
    def size(self) -> int:
        return len(self.memories)

    def candidates(self) -> list[int]:
        return [row for row in self.eligible_rows() if self._may_come(row)]

    def _may_come(self, row: int) -> bool:
        receipt = self.receipts[row]
        shares_something = receipt.matched or receipt.shared > 0.0 or receipt.overview
        if self.parameters.must_share and not shares_something:
            return False  # Most memories share nothing, and the rule takes longer.
        return may_come(receipt, self.query, self.size, self.parameters)

    def relevant_beside(self, enough: float) -> list[int]:
        def is_beside(row: int) -> bool:
            return self.relevance[row] >= enough and self.receipts[row].shares_any(self.query)

        return [row for row in self.eligible_rows() if self._may_come(row) or is_beside(row)]

    def best_first(self, rows: Iterable[int], worth: Any) -> Iterator[int]:
        def rank_key(row: int) -> tuple[float, int, str]:
            memory = self.memories[row]
            return -worth[row], -memory.time_ms, memory.id

        return iter(sorted(rows, key=rank_key))

    def near_best(self, rows: Iterable[int], least: float) -> list[int]:
        return [row for row in rows if self._is_near(row, least)]

    def _is_near(self, row: int, least: float) -> bool:
        if self.relevance[row] >= least:
            return True
        return any(word.tells_of_change for word in self.receipts[row].matched)

    def among(self, rows: Iterable[int], few: Iterable[int]) -> set[int]:
        return set(rows).intersection(few)

    def eligible_rows(self) -> list[int]:
        return [row for row, exclusion in enumerate(self.exclusions) if exclusion is None]

    def sharing(self) -> list[int]:
        return [row for row in self.eligible_rows() if self.receipts[row].shared > 0.0]

    def cosines(self) -> Cosines | None:
        """Return the cosines of the eligible rows that have one, or None if the search knows none."""
        if not self.cosines_by_id:
            return None
        by_row: dict[int, float] = {}
        for row in self.eligible_rows():
            cosine = self.cosines_by_id.get(self.memories[row].id)
            if cosine is not None:
                by_row[row] = cosine
        return Cosines(list(by_row), by_row)

    def memory(self, row: int) -> ShortTermMemory:
        return self.memories[row]

    def time_ms(self, row: int) -> int:
        return self.memories[row].time_ms

    def receipt(self, row: int) -> Receipt:
        return self.receipts[row]

    def kept_in(self, row: int) -> str | None:
        return None

    @cached_property
    def _next_rows(self) -> dict[int, int]:
        """For each row but the newest, the row of the memory that is the next one by time, then id."""

        def time_key(row: int) -> tuple[int, str]:
            memory = self.memories[row]
            return memory.time_ms, memory.id

        oldest_first = sorted(range(self.size), key=time_key)
        return dict(pairwise(oldest_first))

    def said_next(self, row: int) -> int | None:
        """Return the row of the memory that was said next in the same episode, or None if none exists, or it may not
        come."""
        next_row = self._next_rows.get(row)
        if next_row is None or self.exclusions[next_row] is not None:
            return None
        pause_ms = self.time_ms(next_row) - self.time_ms(row)
        if pause_ms > self.parameters.episode_pause_ms:
            return None
        return next_row


def exclusion_of(memory: ShortTermMemory, context: RecallContext) -> Exclusion | None:
    """Return why `memory` cannot come to mind in the session that asks, or None if it can. It is in
    the context if this session stored it since its context began. It is too young if it is of this
    conversation, less than `own_conversation_ms` old, and not known to be of another session or
    before that context."""
    session = context.session
    parameters = context.parameters
    if session is not None and parameters.sessions and memory.session is not None:
        if memory.session != session.id:
            return None
        if session.context_since_ms is not None:
            is_in_context = memory.time_ms >= session.context_since_ms
            return "in_context" if is_in_context else None
    if memory.conversation_id != context.conversation_id:
        return None
    age_ms = context.now_ms - memory.time_ms
    # A time that is far ahead comes from a clock that was wrong: the chat is over, and the memory would wait for years.
    # The Node original, which knows no sessions, holds it back.
    is_young = age_ms < parameters.own_conversation_ms
    is_far_ahead = parameters.sessions and -age_ms >= parameters.own_conversation_ms
    return "too_young" if is_young and not is_far_ahead else None


def flashback_weight(memory: ShortTermMemory, now_ms: int, parameters: RecallParameters) -> float:
    """Return 1 + 1.7 · max(0, 1 − age/365 d) + 1.1 · clamp(score, 0, 50)/50, the weight of a memory in the draw."""
    recency = max(0.0, 1.0 - age_of(memory.time_ms, now_ms) / parameters.flashback_horizon_ms)
    score_share = (
        min(max(memory.score, 0.0), parameters.flashback_score_full)
        / parameters.flashback_score_full
    )
    return (
        1.0
        + parameters.flashback_recency_weight * recency
        + parameters.flashback_score_weight * score_share
    )


def flashbacks(
    eligible: Iterable[ShortTermMemory],
    chosen: Sequence[ShortTermMemory],
    now_ms: int,
    rng: Random,
    parameters: RecallParameters,
) -> list[ShortTermMemory]:
    """Return at most `flashback_count` memories, drawn by weight from the ones that were not chosen
    and are not within `spacing_ms` of a chosen or drawn one. The same `rng` draws the same."""
    chosen_ids = {memory.id for memory in chosen}
    pool = [memory for memory in eligible if memory.id not in chosen_ids]
    for chosen_memory in chosen:
        pool = [
            memory
            for memory in pool
            if abs(memory.time_ms - chosen_memory.time_ms) >= parameters.spacing_ms
        ]

    # The order of the pool decides what a seed draws, so it must not depend on the order of the store.
    pool.sort(key=attrgetter("time_ms", "id"))
    weights = [flashback_weight(memory, now_ms, parameters) for memory in pool]

    drawn: list[ShortTermMemory] = []
    while len(drawn) < parameters.flashback_count and any(weights):
        [memory] = rng.choices(pool, weights)
        drawn.append(memory)
        for number, candidate in enumerate(pool):
            is_near = abs(candidate.time_ms - memory.time_ms) < parameters.spacing_ms
            if candidate is memory or is_near:
                weights[number] = 0.0
    return drawn


def select(
    memories: Iterable[ShortTermMemory],
    query: RecallQuery,
    context: RecallContext,
    cosines: Mapping[str, float] = NOTHING,
) -> Recall:
    """Return what comes to mind for the words of `query`, and how many memories each rule held back. `cosines`: how
    near memories are by meaning, by id; empty: by words only."""
    searched = list(memories)
    parameters = context.parameters
    now_ms = context.now_ms

    def exclusion(memory: ShortTermMemory) -> Exclusion | None:
        if memory.id in context.without:
            return "in_context"
        if not context.places.isdisjoint(memory.muted):
            return "muted"
        return exclusion_of(memory, context)

    exclusions = list(map(exclusion, searched))
    counted = ScannedScores(
        searched,
        receipts=receipts(
            searched, query, now_ms=now_ms, parameters=parameters, wording=context.wording
        ),
        exclusions=exclusions,
        query=query,
        parameters=parameters,
        cosines_by_id=cosines,
    )

    order = order_of(counted)
    drawn: list[int] = []
    if parameters.draws(question=query.question, came=bool(order.chosen)):
        # A flashback must add something, so what came is not drawn again.
        eligible = [searched[row] for row in counted.eligible_rows()]
        chosen = [searched[row] for row in order.chosen]
        row_of = {memory.id: row for row, memory in enumerate(searched)}
        drawn = [
            row_of[memory.id]
            for memory in flashbacks(eligible, chosen, now_ms, context.rng, parameters)
        ]

    held_back = HeldBack(
        recent=exclusions.count("too_young"),
        adjacent=len(order.passed_over),
        in_context=exclusions.count("in_context"),
        muted=exclusions.count("muted"),
    )
    return recall_of(counted, order, drawn, held_back)


def held_in(texts: Collection[str], recall: Recall) -> set[str]:
    """Return the ids of what came although the messages, which have these texts, hold all of it."""
    ids: set[str] = set()
    for recalled in chain(recall.top, recall.next, recall.flashback):
        messages = recalled.memory.messages
        if messages and all(message.content.strip() in texts for message in messages):
            ids.add(recalled.memory.id)
    return ids


def open_first(recall: Recall, now_ms: int, zone: tzinfo | None) -> Recall:
    """If the last message asks for what is to come, return the recall sorted from the first memory on whose plans are
    over: memories with an open plan, then all others. Return it as it is otherwise."""
    query = recall.query
    ranked = [*recall.top, *recall.next]
    if len(ranked) < 2 or not (query.question and asks_ahead(query.said)):
        return recall
    today = local(now_ms, zone).date()

    def is_open(recalled: Recalled) -> bool | None:
        """Return whether a plan of the memory is still open, or None if it tells of no plan."""
        days = [plan.last for plan in plans_of(recalled.memory, zone)]
        return max(days) >= today if days else None

    are_open = list(map(is_open, ranked))
    if False in are_open:
        first_over = are_open.index(False)
        ranked[first_over:] = sorted(
            ranked[first_over:], key=lambda candidate: not is_open(candidate)
        )
    top_count = len(recall.top)
    return replace(recall, top=tuple(ranked[:top_count]), next=tuple(ranked[top_count:]))

"""A search that looks at one memory after the other, by the rule of docs/explanation/recall.md.

`indexed_selection.py` gives the same result, and a test compares both. It needs numpy and an index, which cost 0.1 s
and more before the first answer; this one takes 20 to 30 ms for 1,000 memories, each time. Both follow `order.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

from memory_server.conversations.changes import Reinforced
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.exclusions import Exclusion, exclusion_of
from memory_server.conversations.recall.flashbacks import flashbacks
from memory_server.conversations.recall.order import (
    Cosines,
    NearMiss,
    Order,
    Recalled,
    answers_to,
    explained,
    may_come,
    near_misses,
    order_of,
    threshold,
)
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.relevance import receipts
from memory_server.conversations.recall.same_words import Standing
from memory_server.conversations.recall.words import KeywordOptions, RecallQuery
from memory_server.kernel.messages import NOTHING, Session

if TYPE_CHECKING:
    from memory_server.conversations.recall.order import Counted


@dataclass(frozen=True, slots=True)
class HeldBack:
    """How many memories a rule held back: `recent`, `in_context` and `muted` by `exclusion_of`, irrelevant ones
    included, and `adjacent`, which are relevant, by the 10-minute rule while there was still a free place."""

    recent: int
    adjacent: int
    in_context: int = 0
    muted: int = 0


@dataclass(frozen=True, slots=True)
class Recall:
    """The result of one search for `query` among `searched` memories."""

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

    def gains(self, parameters: RecallParameters) -> Iterator[tuple[Recalled, float]]:
        """The points that each memory gains, before the ceiling of the score: top +5, next +2, flashbacks and weak
        ones 0. Nor does an overview reinforce: it would bring the same again and again."""
        if self.query.overview is not None:
            return
        following = self.next[: parameters.next_count]  # a match in the place of a flashback gains as little as that
        for tier, points in ((self.top, parameters.top_reinforcement), (following, parameters.next_reinforcement)):
            for recalled in tier:
                if not recalled.weak:
                    yield recalled, points


def reinforcements(
    gains: Iterable[tuple[ShortTermMemory, float]], parameters: RecallParameters
) -> tuple[Reinforced, ...]:
    """The changes that give these memories their points, up to the ceiling. A score that cannot rise makes no change,
    so that the search does not have to write."""
    return tuple(
        Reinforced(memory.id, memory.score, after)
        for memory, points in gains
        if (after := min(memory.score + points, parameters.score_ceiling)) > memory.score
    )


def recall_of(counted: Counted, order: Order, drawn: Sequence[int], held_back: HeldBack) -> Recall:
    """The answer of a search, with a receipt for each memory that came."""
    came = frozenset((*order.chosen, *drawn))
    top_count = counted.parameters.top_count

    def tier(rows: Sequence[int]) -> tuple[Recalled, ...]:
        return tuple(explained(counted, order, row) for row in rows)

    return Recall(
        top=tier(order.chosen[:top_count]),
        next=tier(order.chosen[top_count:]),
        flashback=tier(drawn),
        held_back=held_back,
        searched=counted.size,
        query=counted.query,
        answers=answers_to(counted, order, came),
        near=near_misses(counted, order, came),
        needed=threshold(counted),
    )


@dataclass(eq=False)
class Scanned:
    """The memories of a search, looked at one after the other: `order.Counted`. A row is the number of a memory."""

    memories: Sequence[ShortTermMemory]
    receipts: Sequence[Receipt]
    exclusions: Sequence[Exclusion | None]
    query: RecallQuery
    parameters: RecallParameters
    cosines_by_id: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._relevance = [receipt.relevance for receipt in self.receipts]

    @property
    def size(self) -> int:
        return len(self.memories)

    def candidates(self) -> list[int]:
        return [row for row in self.eligible_rows() if self._may_come(row)]

    def _may_come(self, row: int) -> bool:
        receipt = self.receipts[row]
        shares_something = receipt.matched or receipt.shared > 0.0 or receipt.overview
        if self.parameters.must_share and not shares_something:
            return False  # as most memories
        return may_come(receipt, self.query, self.size, self.parameters)

    def relevant_beside(self, enough: float) -> list[int]:
        def is_beside(row: int) -> bool:
            return self._relevance[row] >= enough and self.receipts[row].shares_any(self.query)

        return [row for row in self.eligible_rows() if self._may_come(row) or is_beside(row)]

    def best_first(self, rows: Iterable[int], worth: Any) -> Iterator[int]:
        def place(row: int) -> tuple[float, int, str]:
            return -worth[row], -self.memories[row].time_ms, self.memories[row].id

        return iter(sorted(rows, key=place))

    def relevance(self) -> list[float]:
        return self._relevance

    def at_least(self, rows: Iterable[int], least: float) -> list[int]:
        return [row for row in rows if self._relevance[row] >= least]

    def among(self, rows: Iterable[int], few: Iterable[int]) -> set[int]:
        return set(rows).intersection(few)

    def eligible_rows(self) -> list[int]:
        return [row for row, exclusion in enumerate(self.exclusions) if exclusion is None]

    def sharing(self) -> list[int]:
        return [row for row in self.eligible_rows() if self.receipts[row].shared > 0.0]

    def cosines(self) -> Cosines | None:
        if not self.cosines_by_id:
            return None
        ids = {row: self.memories[row].id for row in self.eligible_rows()}
        known = {row: self.cosines_by_id[id_] for row, id_ in ids.items() if id_ in self.cosines_by_id}
        return Cosines(list(known), known)

    def memory(self, row: int) -> ShortTermMemory:
        return self.memories[row]

    def time_ms(self, row: int) -> int:
        return self.memories[row].time_ms

    def standing(self, row: int) -> Standing:
        receipt = self.receipts[row]
        return Standing(self.time_ms(row), receipt.match, receipt.score, self._relevance[row])

    def receipt(self, row: int) -> Receipt:
        return self.receipts[row]

    def kept_in(self, row: int) -> str | None:
        return None

    @cached_property
    def _followed_by(self) -> dict[int, int]:
        in_time = sorted(range(self.size), key=lambda row: (self.memories[row].time_ms, self.memories[row].id))
        return dict(pairwise(in_time))

    def said_next(self, row: int) -> int | None:
        following = self._followed_by.get(row)
        if following is None or self.exclusions[following] is not None:
            return None
        pause_ms = self.time_ms(following) - self.time_ms(row)
        return following if pause_ms <= self.parameters.episode_pause_ms else None


def select(
    memories: Iterable[ShortTermMemory],
    query: RecallQuery,
    *,
    conversation_id: str,
    now_ms: int,
    rng: Random,
    parameters: RecallParameters,
    wording: KeywordOptions = KeywordOptions(),  # noqa: B008 - frozen
    session: Session | None = None,
    places: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
    cosines: Mapping[str, float] = NOTHING,
) -> Recall:
    """Decide what comes to mind in `conversation_id` at `now_ms`, given the words of `query`. `session` is the one that
    asks; None: unknown. `places`: what is muted there does not come. `without`: ids of what the asker has. `cosines`:
    how near memories are by meaning, by id; empty: by words only."""
    everything = list(memories)
    made = receipts(everything, query, now_ms=now_ms, parameters=parameters, wording=wording)
    unseen = partial(
        exclusion_of, conversation_id=conversation_id, session=session, now_ms=now_ms, parameters=parameters
    )

    def exclusion(memory: ShortTermMemory) -> Exclusion | None:
        if memory.id in without:
            return "in_context"
        return unseen(memory) if places.isdisjoint(memory.muted) else "muted"

    exclusions = list(map(exclusion, everything))
    counted = Scanned(everything, made, exclusions, query, parameters, cosines)
    order = order_of(counted)
    drawn: list[int] = []
    if parameters.draws(question=query.question, came=bool(order.chosen)):
        eligible = [everything[row] for row in counted.eligible_rows()]
        chosen = [everything[row] for row in order.chosen]
        by_chance = flashbacks(eligible, chosen, now_ms, rng, parameters)
        row_of = {memory.id: row for row, memory in enumerate(everything)}
        drawn = [row_of[memory.id] for memory in by_chance]
    held_back = HeldBack(
        recent=exclusions.count("too_young"),
        adjacent=len(order.passed_over),
        in_context=exclusions.count("in_context"),
        muted=exclusions.count("muted"),
    )
    return recall_of(counted, order, drawn, held_back)


def held_in(said: Collection[str], recall: Recall) -> set[str]:
    """The ids of what came though the messages, whose texts are `said`, hold all of it."""
    came = (recalled.memory for tier in (recall.top, recall.next, recall.flashback) for recalled in tier)
    return {
        memory.id
        for memory in came
        if memory.messages and all(message.content.strip() in said for message in memory.messages)
    }

"""The order of a search: which candidates come, and in which places. The rule stands here once.

Points are counted in two ways: `selection.py` looks at one memory after the other, which needs no index;
`indexed_selection.py` counts all memories of an index at once. Either way gives a `Counted`, and this module decides
over its few best candidates: points for the kind of answer, what is nearly the best, two rankings as one, spacing in
time, answers and near misses. Memories are named by their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.overviews import pinned_points, spread
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.passages import ends_asking
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.relevance import cue_points, match_needed
from memory_server.conversations.recall.same_words import LOOKED_AT, Lent, Standing, lent_points, telling_words
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.fusion import FUSED, MEANING, OFFSET, Nearness, fused, needed_cosine

NEAR_MISSES = 3
"""Memories that nearly came which a result names."""
Rows = Any
"""A list of rows, or an array of them."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that came to mind, and why. `kept_in` is the conversation that holds it; None: the searched one."""

    memory: ShortTermMemory
    receipt: Receipt
    kept_in: str | None = None
    weak: bool = False
    """Whether it shares too little to come unasked."""
    counted: float = 0.0
    """The points of it that `Recall.needed` is for."""


class NearMiss(NamedTuple):
    """A memory that nearly came, and what it lacked: so many `points`, words of the last message that say something, a
    place beside another memory of its moment, or any place."""

    recalled: Recalled
    lacked: Literal["points", "words", "same_moment", "place"]
    points: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Cosines:
    """How near `rows` are to the last message by meaning. `by_row`: a mapping, or an array with -inf for other rows."""

    rows: Rows
    by_row: Any

    def of(self, row: int) -> float | None:
        cosine = float(self.by_row[row]) if not isinstance(self.by_row, dict) else self.by_row.get(row, -inf)
        return None if cosine == -inf else cosine

    @property
    def values(self) -> list[float]:
        return [float(self.by_row[row]) for row in self.rows]


if TYPE_CHECKING:  # a protocol of so many methods takes 2 ms to make

    class Counted(Protocol):
        """All memories of a search with their points. Eligible rows are those that nothing excludes."""

        @property
        def query(self) -> RecallQuery: ...

        @property
        def parameters(self) -> RecallParameters: ...

        @property
        def size(self) -> int:
            """How many memories were searched."""

        def candidates(self) -> Rows:
            """The eligible rows that are relevant enough to come."""

        def relevant_beside(self, enough: float) -> Rows:
            """The candidates, and the eligible rows of at least this relevance that share any word."""

        def best_first(self, rows: Rows, worth: Any) -> Iterator[int]:
            """Rows by their worth, greatest first; of equal ones the newest first, then by id. Lazy."""

        def relevance(self) -> Any:
            """The relevance of each row, to which the order adds."""

        def at_least(self, rows: Rows, least: float) -> Rows:
            """Those of `rows` whose relevance, with what was added, is so much."""

        def among(self, rows: Rows, few: Iterable[int]) -> set[int]:
            """Those of `few` that are among `rows`."""

        def eligible_rows(self) -> Sequence[int]: ...

        def sharing(self) -> Rows:
            """The eligible rows that share something."""

        def cosines(self) -> Cosines | None:
            """How near eligible rows are by meaning; None: the search knows no vectors."""

        def memory(self, row: int) -> ShortTermMemory: ...

        def time_ms(self, row: int) -> int: ...

        def standing(self, row: int) -> Standing: ...

        def receipt(self, row: int) -> Receipt:
            """The receipt, without the points that the order gives."""

        def kept_in(self, row: int) -> str | None: ...

        def said_next(self, row: int) -> int | None:
            """The row that was said next after `row` in its episode, if it is eligible."""


@dataclass(frozen=True, slots=True, eq=False)
class Nearnesses:
    """How near rows are by meaning; from which cosine a row comes by that alone; the best rows of both rankings."""

    cosines: Cosines
    needed: float
    near: Sequence[int]
    worded: Sequence[int]

    def of(self, row: int) -> Nearness | None:
        cosine = self.cosines.of(row)
        if cosine is None:
            return None
        rank, word_rank = (rows.index(row) + 1 if row in rows else None for rows in (self.near, self.worded))
        return Nearness(cosine, rank, word_rank, cosine >= self.needed)


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What was decided. `chosen`: the rows that came as top and next, best first. `passed_over`: relevant rows that the
    rule of spacing held back while there was a free place, each with the chosen row near it. `cues`: points that rows
    gained for what is asked; `lent`: those that they got from the row of an older memory. `least_beside`: the
    relevance that is needed beside the best memory; 0: any."""

    chosen: Sequence[int]
    passed_over: Mapping[int, int] = field(default_factory=dict)
    cues: Mapping[int, float] = field(default_factory=dict)
    lent: Mapping[int, Lent] = field(default_factory=dict)
    least_beside: float = 0.0
    nearness: Nearnesses | None = None


def order_of(counted: Counted) -> Order:
    """Decide what comes; adds to the relevance of `counted` what rows gain here."""
    query, parameters, relevance = counted.query, counted.parameters, counted.relevance()
    rows = counted.candidates()
    if len(rows) and parameters.brings(question=query.question):
        rows = counted.relevant_beside(parameters.with_best * _best(counted, rows))
    if query.overview is not None:
        return _overview(counted, rows)
    cues = _cues(counted, rows)
    for row, gained in cues.items():
        relevance[row] += gained
    lent = _lent(counted, rows) if parameters.must_share else {}
    for row, lending in lent.items():
        relevance[row] += lending.points
    least = _least_beside(counted, rows)
    if least > 0.0:
        rows = counted.at_least(rows, least)
    ranked = counted.best_first(rows, relevance)
    nearness: Nearnesses | None = None
    cosines = counted.cosines()
    if cosines is not None:
        nearness = _nearness(counted, cosines)
        ranked = _fused(counted, nearness, rows)
    chosen, passed_over = _spaced(counted, ranked)
    return Order(chosen, passed_over, cues, lent, least, nearness)


def _best(counted: Counted, rows: Rows) -> float:
    """The relevance of the best of these rows, of which there is one."""
    relevance = counted.relevance()
    return float(relevance[next(counted.best_first(rows, relevance))])


def _least_beside(counted: Counted, rows: Rows) -> float:
    """The relevance that is needed beside the best of these rows; 0: any."""
    if not len(rows) or counted.parameters.weak_too:
        return 0.0
    return counted.parameters.nearly_best * _best(counted, rows)


def _overview(counted: Counted, rows: Rows) -> Order:
    query, parameters, relevance = counted.query, counted.parameters, counted.relevance()
    pins = {row: pinned_points(counted.memory(row), parameters) for row in counted.eligible_rows()}
    pins = {row: gained for row, gained in pins.items() if gained}
    for row, gained in pins.items():
        relevance[row] += gained
    chosen = spread(counted.best_first(rows, relevance), counted.memory, query, parameters)
    return Order(chosen, cues=pins, least_beside=_least_beside(counted, rows))


def _cues(counted: Counted, rows: Rows) -> dict[int, float]:
    """The points of the leading candidates that hold the kind of answer that is asked for."""
    if not counted.query.cue:
        return {}
    leading = islice(counted.best_first(rows, counted.relevance()), counted.parameters.reordered)
    gains = {row: cue_points(counted.memory(row), counted.query, counted.parameters) for row in leading}
    return {row: gained for row, gained in gains.items() if gained}


def _lent(counted: Counted, rows: Rows) -> dict[int, Lent]:
    """The points that leading candidates get from older ones with the same words."""
    best = list(islice(counted.best_first(rows, counted.relevance()), LOOKED_AT))
    standings = list(map(counted.standing, best))
    if not any(standing.score for standing in standings):
        return {}

    def words_of(number: int) -> frozenset[str]:
        row = best[number]
        return telling_words(counted.receipt(row).matched, counted.memory(row).words)

    lent = lent_points(standings, words_of)
    return {best[newer]: Lent(gained.points, best[gained.older]) for newer, gained in lent.items()}


def _nearness(counted: Counted, cosines: Cosines) -> Nearnesses:
    needed = needed_cosine(cosines.values, counted.parameters.meaning_margin)
    near = islice(counted.best_first(cosines.rows, cosines.by_row), FUSED)
    worded = islice(counted.best_first(counted.sharing(), counted.relevance()), FUSED)
    return Nearnesses(cosines, needed, list(near), list(worded))


def _fused(counted: Counted, nearness: Nearnesses, rows: Rows) -> Iterator[int]:
    """The candidates, and what may come by meaning alone, by both rankings."""
    scores = fused(nearness.worded, nearness.near, offset=OFFSET, meaning=MEANING)
    coming = counted.among(rows, scores)
    for row in scores.keys() - coming:
        cosine = nearness.cosines.of(row)
        if cosine is not None and (counted.parameters.weak_too or cosine >= nearness.needed):
            coming.add(row)
    return counted.best_first(list(coming), scores)


def _spaced(counted: Counted, ranked: Iterator[int]) -> tuple[list[int], dict[int, int]]:
    """The first rows of which at most `same_moment` are of one moment, as many as there are places; and the rows that
    this rule skips, each with the best chosen row near it."""
    parameters = counted.parameters
    places = parameters.places(question=counted.query.question)
    chosen: list[int] = []
    passed_over: dict[int, int] = {}
    while len(chosen) < places and (row := next(ranked, None)) is not None:
        time_ms = counted.time_ms(row)
        near = [other for other in chosen if abs(time_ms - counted.time_ms(other)) < parameters.spacing_ms]
        if len(near) < parameters.same_moment:
            chosen.append(row)
        else:
            passed_over[row] = near[0]
    return chosen, passed_over


def explained(counted: Counted, order: Order, row: int) -> Recalled:
    """A memory with its receipt, as this order counts it."""
    base = counted.receipt(row)
    lending = order.lent.get(row)
    receipt = replace(
        base,
        cue=order.cues.get(row, 0.0),
        lent=0.0 if lending is None else lending.points,
        older="" if lending is None else counted.memory(lending.older).id,
        nearness=None if order.nearness is None else order.nearness.of(row),
    )
    weak = not comes_unasked(receipt, counted.query, counted.size, counted.parameters)
    points = receipt.counted(counted.query, counted.parameters)
    return Recalled(counted.memory(row), receipt, counted.kept_in(row), weak, points)


def answers_to(counted: Counted, order: Order, came: frozenset[int]) -> dict[str, ShortTermMemory]:
    """The memories that were said next after the chosen ones that end with a question, by the ids of these."""
    if not counted.parameters.answers:
        return {}
    asking = {row: counted.memory(row) for row in order.chosen}
    asking = {row: memory for row, memory in asking.items() if asks(memory)}
    following = {memory.id: counted.said_next(row) for row, memory in asking.items()}
    return {id_: counted.memory(row) for id_, row in following.items() if row is not None and row not in came}


def near_misses(counted: Counted, order: Order, came: frozenset[int]) -> tuple[NearMiss, ...]:
    """The most relevant rows that share something, could come and did not."""
    sharing = counted.best_first(counted.sharing(), counted.relevance())
    rows = list(islice((row for row in sharing if row not in came), NEAR_MISSES))
    return tuple(_near_miss(counted, explained(counted, order, row), adjacent=row in order.passed_over) for row in rows)


def _near_miss(counted: Counted, recalled: Recalled, *, adjacent: bool) -> NearMiss:
    """What a memory lacked that nearly came; `adjacent`: the rule of spacing held it back."""
    receipt, query, parameters = recalled.receipt, counted.query, counted.parameters
    if adjacent or may_come(receipt, query, counted.size, parameters):
        return NearMiss(recalled, "same_moment" if adjacent else "place")
    needed = match_needed(counted.size, query, parameters) - receipt.evidence(query, parameters)
    lacking = max(needed, parameters.threshold - receipt.relevance_counted)
    return NearMiss(recalled, "points", lacking) if lacking > 0.0 else NearMiss(recalled, "words")


def threshold(counted: Counted) -> float:
    """The points at which a memory comes unasked: of what it shares, in the Node original of its relevance."""
    return max(counted.parameters.threshold, match_needed(counted.size, counted.query, counted.parameters))


def asks(memory: ShortTermMemory) -> bool:
    """Whether it ends with a question."""
    return ends_asking(memory.messages[-1].content if memory.messages else memory.text)


def may_come(receipt: Receipt, query: RecallQuery, memories: int, parameters: RecallParameters) -> bool:
    """Whether one of so many memories is relevant enough to come as top or next."""
    if parameters.weak_too and parameters.must_share:
        return receipt.shares_any(query)
    return comes_unasked(receipt, query, memories, parameters)


def comes_unasked(receipt: Receipt, query: RecallQuery, memories: int, parameters: RecallParameters) -> bool:
    """The same where nobody asked for memories."""
    if receipt.nearness is not None and receipt.nearness.stands_out:
        return True
    return (
        receipt.relevance_counted >= parameters.threshold
        and receipt.evidence(query, parameters) >= match_needed(memories, query, parameters)
        and (not parameters.must_share or receipt.shares(query, parameters))
    )

"""The order of a search: which candidates come, and in which places. The rule is written only here.

Points are counted in two ways: `selection.py` looks at one memory after the other, which needs no index;
`indexed_selection.py` counts all memories of an index at once. Either way gives a `SearchScores`, and this module decides
over its few best candidates: points for the kind of answer, what is nearly the best, two rankings as one, spacing in
time, answers and near misses. Memories are named by their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from itertools import groupby, islice
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.passages import ends_asking
from memory_server.conversations.recall.plans import (
    PLANNED_AHEAD_MS,
    fell_within,
    open_day,
    plan_candidates,
)
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.relevance import cue_points, match_needed
from memory_server.conversations.recall.words import RecallQuery, is_of_days
from memory_server.kernel.fusion import FUSED, MEANING, OFFSET, Nearness, fused, needed_cosine
from memory_server.kernel.messages import said_in
from memory_server.kernel.times import MINUTE_MS, local
from memory_server.kernel.values import dataclass, frozen
from nlp import is_incidental, is_kept, is_speaker, says_little
from nlp.lexicon.asking import NOT_KNOWN
from nlp.questions import answers_overview, is_question

_OVERVIEW_LOOKED_AT = 10_000
"""Memories whose texts are looked at, the most worth first: at most some 50 ms, in which nothing else is answered."""
_LOOKED_AT_CHARS = 2_000
"""Characters of a message that are looked at."""
_NEARLY_BEST_OF_A_DAY = 0.5
"""The most that a memory needs of the relevance of the best one after a question about a day."""
_NIGHT_MS = 5 * 60 * MINUTE_MS
"""The night after a day belongs to it too: until five, people call the day before today."""

_BEHIND_POINTS = 0.01
"""How many points a question that was asked before has less than a statement."""

_WORDS_BESIDE = 1
"""Words that a question which was asked before may have beside the words of the query and a word for each of its
messages: its day, and a word of a reply without an answer."""

M = TypeVar("M")


def pinned_points(memory: ShortTermMemory, parameters: RecallParameters) -> float:
    """Return the points of a memory in an overview for being pinned: as many as a score can give."""
    return parameters.score_ceiling if memory.pinned else 0.0


def belongs(memory: ShortTermMemory, query: RecallQuery) -> bool:
    """Return whether a memory belongs into the overview that `query` asks for: by when it was said or what day it
    names, by its open plans, or by what the user said; a pinned one also into one of everything. Return False if no
    overview is asked for."""
    overview = query.overview
    if overview is None:
        return False
    if overview == "time":
        is_within = any(
            begin <= memory.time_ms < (end + _NIGHT_MS if is_of_days(begin, end) else end)
            for begin, end in query.spans
        )
        if is_within or not query.days.isdisjoint(memory.words):
            return True
        return _was_planned(memory, query)

    if query.plans is not None:
        return open_day(memory, query.plans, query.zone) is not None
    if overview == "everything" and memory.pinned:
        return True

    messages = memory.messages or said_in(memory.text)
    user_texts = (
        message.content[:_LOOKED_AT_CHARS] for message in messages if message.role == "user"
    )
    return any(answers_overview(text, overview) for text in user_texts)


def _was_planned(memory: ShortTermMemory, query: RecallQuery) -> bool:
    """Return whether a memory tells of a plan for the time that `query` names, and was said before it."""
    days = [
        (local(begin, query.zone).date(), local(end - 1, query.zone).date())
        for begin, end in query.spans
        if is_of_days(begin, end) and 0 < begin - memory.time_ms < PLANNED_AHEAD_MS
    ]
    return bool(days) and fell_within(memory, days, query.zone)


def _by_day(
    candidates: Iterable[M], memory_of: Callable[[M], ShortTermMemory], query: RecallQuery
) -> list[M]:
    """Return the candidates that tell of plans for the days that `query` asks for, in the order of these days."""
    if query.plans is None:
        return []
    days: list[tuple[date, int, M]] = []
    for candidate in candidates:
        memory = memory_of(candidate)
        day = open_day(memory, query.plans, query.zone)
        if day is not None:
            days.append((day, memory.time_ms, candidate))
    days.sort(key=lambda row: row[:2])
    return [candidate for _day, _time, candidate in days]


def spread(
    best_first: Iterable[M],
    memory_of: Callable[[M], ShortTermMemory],
    query: RecallQuery,
    parameters: RecallParameters,
) -> list[M]:
    """Return the chosen memories of `best_first` that belong to the overview: memories of the asker's folder first, if
    it asks what happened then. If plans are asked for, return them by their days."""
    places = parameters.places(question=True)
    if query.plans is not None:
        return _by_day(plan_candidates(best_first, memory_of), memory_of, query)[:places]

    ordered = list(islice(best_first, _OVERVIEW_LOOKED_AT))
    if query.own_word:  # what the asker said comes before what others said
        ordered.sort(key=lambda candidate: query.own_word not in memory_of(candidate).words)

    def is_elsewhere(candidate: M) -> bool:
        return query.overview == "time" and query.folder not in (None, memory_of(candidate).folder)

    chosen: list[M] = []
    for _elsewhere, group in groupby(sorted(ordered, key=is_elsewhere), is_elsewhere):
        belonging = (candidate for candidate in group if belongs(memory_of(candidate), query))
        chosen += _of_different_hours(
            belonging, memory_of, places - len(chosen), parameters.episode_pause_ms
        )
    return chosen


def _of_different_hours(
    best_first: Iterable[M], memory_of: Callable[[M], ShortTermMemory], places: int, pause_ms: int
) -> list[M]:
    """Return at most `places` of the candidates, in their order: the first of each hour, because memories of the same
    hour are mostly about one thing, and others if there is room."""
    candidates: list[M] = []
    apart: list[M] = []

    for candidate in best_first:
        if len(apart) == places:
            break
        candidates.append(candidate)
        time_ms = memory_of(candidate).time_ms
        if all(abs(time_ms - memory_of(other).time_ms) >= pause_ms for other in apart):
            apart.append(candidate)

    of_same_hours = [candidate for candidate in candidates if candidate not in apart]
    chosen = [*apart, *of_same_hours[: places - len(apart)]]
    return [candidate for candidate in candidates if candidate in chosen]


def says_something(word: str) -> bool:
    """Return whether a word of a memory says something by itself: it is not a function word, incidental, a speaker,
    or only kept with the memory."""
    return not (says_little(word) or is_incidental(word) or is_speaker(word) or is_kept(word))


NEAR_MISSES = 3
"""Memories that nearly came which a result names."""
Rows = Any
"""A list of rows, or an array of them."""


@frozen
class Recalled:
    """A memory that came to mind, and why. `kept_in` is the conversation that holds it, or None for the searched one."""

    memory: ShortTermMemory
    receipt: Receipt
    kept_in: str | None = None
    weak: bool = False
    """Whether it shares too little to come unasked."""
    counted: float = 0.0
    """The points of it that `Recall.needed` is for."""
    before: ShortTermMemory | None = None
    """The older memory that it corrects, and in whose place it came."""
    until_ms: int | None = None
    """When it was corrected, or None if it was not corrected or the search does not ask for the past."""


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
        """Return the cosine of a row, or None if it has no vector."""
        if isinstance(self.by_row, dict):
            return self.by_row.get(row)
        cosine = float(self.by_row[row])
        if cosine == -inf:
            return None
        return cosine

    @property
    def values(self) -> list[float]:
        return [float(self.by_row[row]) for row in self.rows]


if TYPE_CHECKING:  # a protocol of so many methods takes 2 ms to make

    class SearchScores(Protocol):
        """All memories of a search with their points. A row is eligible if nothing excludes it."""

        @property
        def query(self) -> RecallQuery: ...

        @property
        def parameters(self) -> RecallParameters: ...

        @property
        def size(self) -> int:
            """How many memories were searched."""

        def candidates(self) -> Rows:
            """Return the eligible rows that are relevant enough to come."""

        def relevant_beside(self, enough: float) -> Rows:
            """Return the candidates, and the eligible rows of at least this relevance that share any word."""

        def best_first(self, rows: Rows, worth: Any) -> Iterator[int]:
            """Yield rows by their worth, greatest first; of equal ones the newest first, then by id. `worth` is a
            mapping of rows, or a column."""

        @property
        def relevance(self) -> Any:
            """The relevance of each row, to which the order adds."""

        def near_best(self, rows: Rows, least: float) -> Rows:
            """Return the `rows` whose relevance, with what was added, is at least this; and the rows that tell of a
            change in what is asked for, because a former state must not come without the present one."""

        def among(self, rows: Rows, few: Iterable[int]) -> set[int]:
            """Return the rows of `few` that are among `rows`."""

        def eligible_rows(self) -> Sequence[int]: ...

        def sharing(self) -> Rows:
            """Return the eligible rows that share something."""

        def cosines(self) -> Cosines | None:
            """Return how near eligible rows are by meaning, or None if the search knows no vectors."""

        def memory(self, row: int) -> ShortTermMemory: ...

        def time_ms(self, row: int) -> int: ...

        def receipt(self, row: int) -> Receipt:
            """Return the receipt, without the points that the order gives."""

        def kept_in(self, row: int) -> str | None:
            """Return the conversation that holds the memory, or None for the searched one."""

        def said_next(self, row: int) -> int | None:
            """Return the row that was said next after `row` in its episode, if it is eligible."""


@dataclass(frozen=True, slots=True, eq=False)
class Nearnesses:
    """How near rows are by meaning; from which cosine a row comes by that alone; the best rows of both rankings."""

    cosines: Cosines
    needed: float
    near: Sequence[int]
    worded: Sequence[int]

    def of(self, row: int) -> Nearness | None:
        """Return how near the memory of a row is by meaning, with its ranks, or None if it has no vector."""
        cosine = self.cosines.of(row)
        if cosine is None:
            return None
        return Nearness(
            cosine,
            rank=_rank_in(self.near, row),
            word_rank=_rank_in(self.worded, row),
            stands_out=cosine >= self.needed,
        )


def _rank_in(ranking: Sequence[int], row: int) -> int | None:
    """Return the rank of a row, from 1, or None if the ranking does not have it."""
    if row not in ranking:
        return None
    return ranking.index(row) + 1


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What was decided. `chosen`: the rows that came as top and next, best first. `passed_over`: relevant rows that the
    rule of spacing held back while there was a free place, each with the chosen row near it. `cues`: points that rows
    gained for what is asked. `best`: the most relevant candidate, None without one; where memories are ordered by their
    meaning too, another row can be the first. `gap`: the share of its relevance that others need beside it."""

    chosen: Sequence[int]
    passed_over: Mapping[int, int] = field(default_factory=dict)
    cues: Mapping[int, float] = field(default_factory=dict)
    best: int | None = None
    gap: float = 0.0
    nearness: Nearnesses | None = None


def order_of(counted: SearchScores) -> Order:
    """Return the rows that come, the best first, and the ones that a row of the same moment kept out.
    Rows far below the best do not come; points that rows gain here are added to the relevance of
    `counted`."""
    query = counted.query
    parameters = counted.parameters
    relevance = counted.relevance

    rows = counted.candidates()
    if len(rows) and parameters.brings(question=query.question):
        first = next(counted.best_first(rows, relevance))
        rows = counted.relevant_beside(parameters.with_best * float(relevance[first]))

    if query.overview is not None:
        return _overview(counted, rows)

    # The kind of answer must count before rows are compared with the best.
    cues = _cues(counted, rows)
    for row, points in cues.items():
        relevance[row] += points

    if query.question and parameters.must_share:  # the Node original looks at no memory's text
        _put_questions_behind(counted, rows, cues)

    gap = parameters.gap(question=query.question, with_other_words=bool(query.other_words))
    further_gap = parameters.nearly_best_further
    # A question about a day asks for all that was told for it.
    if query.asked_days is not None:
        gap = min(gap, _NEARLY_BEST_OF_A_DAY)
        further_gap = 0.0
    if parameters.weak_too:
        gap = further_gap = 0.0

    # A memory far below the best would only distract from it.
    best = next(counted.best_first(rows, relevance), None)
    best_relevance = 0.0 if best is None else float(relevance[best])
    least_beside = gap * best_relevance
    if least_beside > 0.0:
        rows = counted.near_best(rows, least_beside)

    ranked = counted.best_first(rows, relevance)
    nearness: Nearnesses | None = None
    cosines = counted.cosines()
    if cosines is not None:
        nearness = _nearness(counted, cosines)
        ranked = _fused(counted, nearness, rows)

    chosen, passed_over = _spaced(counted, ranked, further_gap * best_relevance)
    return Order(
        chosen,
        passed_over=passed_over,
        cues=cues,
        best=best,
        gap=gap,
        nearness=nearness,
    )


def _overview(counted: SearchScores, rows: Rows) -> Order:
    """Return the order of the memories for the overview that the query asks for. Points for pinned
    memories are added to the relevance of `counted`."""
    parameters = counted.parameters
    relevance = counted.relevance
    cues: dict[int, float] = {}
    for row in counted.eligible_rows():
        points = pinned_points(counted.memory(row), parameters)
        if points:
            cues[row] = points
            relevance[row] += points
    chosen = spread(counted.best_first(rows, relevance), counted.memory, counted.query, parameters)
    best = next(counted.best_first(rows, relevance), None)
    return Order(chosen, cues=cues, best=best, gap=parameters.nearly_best)


def _cues(counted: SearchScores, rows: Rows) -> dict[int, float]:
    """Return the points of the leading candidates that hold the kind of answer that is asked for."""
    if not counted.query.cue:
        return {}
    cues: dict[int, float] = {}
    for row in islice(counted.best_first(rows, counted.relevance), counted.parameters.reordered):
        points = cue_points(counted.memory(row), counted.query, counted.parameters)
        if points:
            cues[row] = points
    return cues


def _put_questions_behind(counted: SearchScores, rows: Rows, cues: dict[int, float]) -> None:
    """Put the leading candidates that only ask what is asked just behind the first candidate that states something, in
    their order: lower their points in `cues` and in the relevance. Without such a candidate, change nothing. A memory
    that only asks shares more words with the question than its answer does, and says nothing."""
    relevance = counted.relevance
    questions: list[int] = []
    for row in islice(counted.best_first(rows, relevance), counted.parameters.reordered):
        if _only_asks_again(counted.memory(row), counted.query):
            questions.append(row)
            continue

        for place, question in enumerate(questions, 1):
            lowered = float(relevance[row]) - place * _BEHIND_POINTS
            cues[question] = cues.get(question, 0.0) + lowered - float(relevance[question])
            relevance[question] = lowered
        return


def _only_asks_again(memory: ShortTermMemory, query: RecallQuery) -> bool:
    """Return whether a memory only asks what the query asks: no message of it answers, and it has hardly a word that says
    something and is not in the query."""
    texts = [message.content for message in memory.messages or said_in(memory.text)]
    if not is_question(texts[0]):
        return False

    replies = (reply.replace("’", "'") for reply in texts[1:])
    if not all(NOT_KNOWN().search(reply) or is_question(reply) for reply in replies):
        return False
    other_words = set(filter(says_something, memory.words)) - query.words.keys()
    return len(other_words) <= len(texts) + _WORDS_BESIDE


def _nearness(counted: SearchScores, cosines: Cosines) -> Nearnesses:
    """Rank the eligible rows twice, by meaning and by words."""
    needed = needed_cosine(cosines.values, counted.parameters.meaning_margin)
    near = islice(counted.best_first(cosines.rows, cosines.by_row), FUSED)
    worded = islice(counted.best_first(counted.sharing(), counted.relevance), FUSED)
    return Nearnesses(cosines, needed, list(near), list(worded))


def _fused(counted: SearchScores, nearness: Nearnesses, rows: Rows) -> Iterator[int]:
    """Yield the candidates that rank high by words or by meaning, and what may come by meaning alone, ordered by both
    ranks."""
    scores = fused(nearness.worded, nearness.near, offset=OFFSET, meaning=MEANING)
    candidates = counted.among(rows, scores)
    for row in scores.keys() - candidates:
        cosine = nearness.cosines.of(row)
        if cosine is not None and (counted.parameters.weak_too or cosine >= nearness.needed):
            candidates.add(row)
    return counted.best_first(list(candidates), scores)


def _spaced(
    counted: SearchScores, ranked: Iterator[int], least_further: float
) -> tuple[list[int], dict[int, int]]:
    """Choose the first rows, as many as there are places, but at most `same_moment` rows said at the same moment.
    Also return the skipped rows, each with the best chosen row near it. `least_further` is the relevance that is
    needed after the places of top and next (0 for any)."""
    parameters = counted.parameters
    places = parameters.places(question=counted.query.question)
    chosen: list[int] = []
    passed_over: dict[int, int] = {}
    if places == 0:
        return chosen, passed_over

    usual_places = parameters.places(question=False)
    relevance = counted.relevance
    for row in ranked:
        is_further = len(chosen) >= usual_places
        if is_further and least_further > 0.0 and relevance[row] < least_further:
            break

        time_ms = counted.time_ms(row)
        same_moment = [
            near for near in chosen if abs(time_ms - counted.time_ms(near)) < parameters.spacing_ms
        ]

        if len(same_moment) < parameters.same_moment:
            chosen.append(row)
            if len(chosen) == places:
                break
        else:
            passed_over[row] = same_moment[0]
    return chosen, passed_over


def explained(counted: SearchScores, order: Order, rows: Iterable[int]) -> tuple[Recalled, ...]:
    """Return the memories of these rows with their receipts, as this order counts them."""
    return tuple(_explained(counted, order, row) for row in rows)


def _explained(counted: SearchScores, order: Order, row: int) -> Recalled:
    """Return the memory of a row with its receipt, in which are its cue and nearness too. It is weak if it would not
    come unasked."""
    receipt = replace(counted.receipt(row), cue=order.cues.get(row, 0.0))
    if order.nearness is not None:
        receipt = replace(receipt, nearness=order.nearness.of(row))
    return Recalled(
        counted.memory(row),
        receipt,
        kept_in=counted.kept_in(row),
        weak=not comes_unasked(receipt, counted.query, counted.size, counted.parameters),
        counted=receipt.counted(counted.query, counted.parameters),
    )


def answers_by_question_id(
    counted: SearchScores, order: Order, came_rows: frozenset[int]
) -> dict[str, ShortTermMemory]:
    """If the user asks something and the best memory ends with a question, return what was said next in its episode,
    by the id of the best memory; empty if nothing was. `came_rows` has the rows of all memories that the search
    brings; none of them is brought a second time."""
    # An assistant ends most messages with a question. What follows it is right in 16 of 100 times beside the best
    # memory after a question, and in 5 of 100 beside others.
    if not (counted.parameters.answers and counted.query.question and order.chosen):
        return {}
    question = counted.memory(order.chosen[0])
    if not asks(question):
        return {}
    answer_row = counted.said_next(order.chosen[0])
    if answer_row is None or answer_row in came_rows:
        return {}
    return {question.id: counted.memory(answer_row)}


def near_misses(
    counted: SearchScores, order: Order, came_rows: frozenset[int]
) -> tuple[NearMiss, ...]:
    """Return the most relevant rows that share something, could come and did not."""
    sharing = counted.best_first(counted.sharing(), counted.relevance)
    rows = islice((row for row in sharing if row not in came_rows), NEAR_MISSES)
    return tuple(_near_miss(counted, order, row) for row in rows)


def _near_miss(counted: SearchScores, order: Order, row: int) -> NearMiss:
    """Return what the memory of a row lacked that did not come: another moment than a row that
    came, a place, points (with their number), or words."""
    recalled = _explained(counted, order, row)
    receipt = recalled.receipt
    query = counted.query
    parameters = counted.parameters
    if row in order.passed_over:
        return NearMiss(recalled, "same_moment")
    if may_come(receipt, query, counted.size, parameters):
        return NearMiss(recalled, "place")
    match_lacking = match_needed(counted.size, query, parameters) - receipt.evidence(
        query, parameters
    )
    lacking = max(match_lacking, parameters.threshold - receipt.relevance_counted)
    if lacking > 0.0:
        return NearMiss(recalled, "points", lacking)
    return NearMiss(recalled, "words")


def threshold(counted: SearchScores) -> float:
    """Return the points at which a memory comes unasked: the shared points, or in the Node original the relevance."""
    return max(
        counted.parameters.threshold, match_needed(counted.size, counted.query, counted.parameters)
    )


def asks(memory: ShortTermMemory) -> bool:
    """Return whether a memory ends with a question."""
    last_text = memory.messages[-1].content if memory.messages else memory.text
    return ends_asking(last_text)


def may_come(
    receipt: Receipt, query: RecallQuery, memories: int, parameters: RecallParameters
) -> bool:
    """Return whether a memory with this receipt is relevant enough to come as top or next; `memories` is how many are
    searched."""
    if parameters.weak_too and parameters.must_share:
        return receipt.shares_any(query)
    return comes_unasked(receipt, query, memories, parameters)


def comes_unasked(
    receipt: Receipt, query: RecallQuery, memories: int, parameters: RecallParameters
) -> bool:
    """Return whether such a memory is relevant enough to come when the user did not ask for memories."""
    if receipt.nearness is not None and receipt.nearness.stands_out:
        return True
    if receipt.relevance_counted < parameters.threshold:
        return False
    if receipt.evidence(query, parameters) < match_needed(memories, query, parameters):
        return False
    return not parameters.must_share or receipt.shares(query, parameters)


def heaviest_words(recalled: Iterable[Recalled]) -> tuple[str, ...]:
    """Return the words that the messages and these memories share, the heaviest first."""
    shared = [word for memory in recalled for word in memory.receipt.words_shared]
    shared.sort(key=lambda word: -word.points)
    words: list[str] = []
    for matched_word in shared:
        if not _is_covered(matched_word.word, words):
            words.append(matched_word.word)
    return tuple(words)


def _is_covered(word: str, heavier_words: Sequence[str]) -> bool:
    """Return whether a word adds nothing to heavier ones, because it is part of such a word, or a pair from the ends
    of two words."""
    if any(word in heavier for heavier in heavier_words):
        return True
    is_pair = len(word) == 2 and not word.isascii()
    return is_pair and set(word) <= set("".join(heavier_words))

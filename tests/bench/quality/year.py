"""A simulated year of one conversation: talk, searches and a clean-up every day, and questions at the end.

A search without history cannot show what a memory is worth after a year: searches reinforce it, clean-ups forget it.
The managers are the server's own, over a store in memory, with a clock that is set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice
from random import Random

from bench.quality.evaluation import (
    APART_MS,
    Dataset,
    Question,
    Turn,
    Unit,
    deciding,
    grouped,
    just_said,
    run_of,
    units_of,
    with_other_talk,
)
from bench.quality.metrics import Outcome, Scores, clusters, score
from bench.quality.rankers import OURS, text_of
from memory_store import MemoryStore

from memory_server.conversations.conversation import Conversations
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.indexed_selection import Decision
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.services import Services
from memory_server.conversations.short_term import Origin
from memory_server.conversations.trigger_search import SandboxRunner
from memory_server.kernel.messages import Message
from memory_server.kernel.times import DAY_MS, MINUTE_MS
from sandbox import TriggerSandbox

DAYS = 365
EXCHANGES_A_DAY = 10
CHAT_SEARCHES_A_DAY = 2
PLACES = 3
"""Memories that a search gives."""
IDEAL = "nothing forgotten"
"""The server's search over all that was stored, without reinforcement and clean-up."""

_SITTINGS_MS = (9 * 60 * MINUTE_MS, 20 * 60 * MINUTE_MS)
"""When the two sittings of a day begin, after midnight UTC; each has half of the exchanges, five minutes apart."""
_EXCHANGES_APART_MS = 5 * MINUTE_MS
_AFTER_EXCHANGE_MS = 2 * MINUTE_MS
"""From an exchange to the search after it."""
_ASIDE = 10
"""Where every chat is told, one in so many exchanges without an answer is kept back: the talk before questions."""
_CONVERSATION = "year"


@dataclass(frozen=True, slots=True)
class Year:
    """How it went. Shares from 0 to 1; None where there was nothing to count.

    at_the_end: recallAt3 and recallAt3Alone of the server's search, and of IDEAL.

    repeated: exchanges that were told before, on another day.
    kept: memories that are left at the end.
    given: memories that the searches of the year gave.
    without_shared_word: share of them that share no word with what was searched by.
    most_recalled: share of them that the most recalled 1 % of the memories took.
    """

    days: int
    exchanges: int
    repeated: int
    kept: int
    at_the_end: Mapping[str, Scores]
    given: int
    without_shared_word: float | None
    most_recalled: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is told, day by day, with the dates of the year; the questions, each with the texts that answer it (the same
    words are the same fact); and talk that is never told."""

    days: Sequence[Sequence[Unit]]
    repeated: int
    questions: Sequence[Question]
    answers: Mapping[str, frozenset[str]]
    talk: Sequence[Sequence[Turn]]


class Life:
    """A conversation that lives a plan with the server's own managers, and what is counted meanwhile.

    `before`: how many messages of other talk a search has.
    """

    def __init__(self, plan: Plan, *, before: int, parameters: Parameters, seed: int) -> None:
        self._plan = plan
        self._before = before
        self._parameters = parameters
        self._seed = seed
        self._rng = Random(seed)
        self._now_ms = plan.days[0][0].time_ms
        runner = SandboxRunner(TriggerSandbox())  # never started: there are no triggers
        around = Services(MemoryStore(self._clock), runner, parameters, self._clock, Random(seed))
        self._memory = Conversations(around).get(_CONVERSATION).short_term
        self._said: dict[str, str] = {}
        """The texts, by the id of the memory."""
        self._fresh: dict[str, ShortTermMemory] = {}
        """The memories as they were stored."""
        self._given: Counter[str] = Counter()
        self._wordless = 0

    def _clock(self) -> int:
        return self._now_ms

    async def day(self, exchanges: Sequence[Unit]) -> None:
        """Tell the exchanges of a day, search after some of them, and clean up at night."""
        chatting = set(
            self._rng.sample(range(len(exchanges)), min(CHAT_SEARCHES_A_DAY, len(exchanges)))
        )
        asking = self._rng.randrange(len(exchanges))
        for number, unit in enumerate(exchanges):
            self._now_ms = unit.time_ms
            stored = (
                await self._memory.add(
                    [turn.message for turn in unit.turns], origin=Origin(turn=f"{len(self._said)}")
                )
            ).memory
            self._fresh[stored.id] = stored
            self._said[stored.id] = text_of(unit)
            self._now_ms += _AFTER_EXCHANGE_MS
            if number in chatting and self._plan.talk:
                chat = run_of(self._rng.choice(self._plan.talk), self._before + 1, self._rng)
                await self._search([turn.message for turn in just_said(chat, self._now_ms)])
            if number == asking:
                await self._ask_what_was_told()
        self._now_ms = self._now_ms // DAY_MS * DAY_MS + DAY_MS
        await self._memory.clean_up(by="upkeep")

    async def _ask_what_was_told(self) -> None:
        """Search with a question whose answer was told, if there is one."""
        texts = set(self._said.values())
        questions = [
            question for question in self._plan.questions if texts & self._plan.answers[question.id]
        ]
        if questions:
            await self._search(_asked(self._rng.choice(questions), self._now_ms).messages)

    async def _search(self, messages: Sequence[Message]) -> None:
        recall = (await self._memory.search(RecallRequest(messages, mode="asked"))).recall
        for recalled in (*recall.top, *recall.next):
            self._given[recalled.memory.id] += 1
            self._wordless += not recalled.receipt.matched

    async def end(self) -> Year:
        """Ask every question: of what is left, and of all that was stored."""
        memories = {memory.id: memory for memory in await self._memory.memories()}
        questions = [
            _asked(question, self._now_ms + _SITTINGS_MS[0]) for question in self._plan.questions
        ]
        searched = {
            OURS: deciding(self._parameters, memories),
            IDEAL: deciding(self._parameters, self._fresh),
        }
        outcomes: dict[str, list[Outcome]] = {}
        for name, decided in searched.items():
            outcomes[name] = [self._outcome(decided, question) for question in questions]
        recalls = self._given.total()
        most_recalled = sum(
            count for _, count in self._given.most_common(max(1, round(len(self._fresh) / 100)))
        )
        return Year(
            days=len(self._plan.days),
            exchanges=len(self._fresh),
            repeated=self._plan.repeated,
            kept=len(memories),
            at_the_end=score(outcomes, clusters(self._plan.questions), self._seed),
            given=recalls,
            without_shared_word=_share(self._wordless, recalls),
            most_recalled=_share(most_recalled, recalls),
        )

    def _outcome(self, decided: Callable[[Question], Decision], question: Question) -> Outcome:
        def right(asked: Question) -> float:
            decision = decided(asked)
            memory_ids = [decision.columns.memory(row).id for row in decision.order.chosen[:PLACES]]
            return float(
                any(
                    self._said[memory_id] in self._plan.answers[asked.id]
                    for memory_id in memory_ids
                )
            )

        return {"recallAt3": right(question), "recallAt3Alone": right(replace(question, before=()))}


def _share(part: int, whole: int) -> float | None:
    if not whole:
        return None
    return part / whole


def _asked(question: Question, now_ms: int) -> Question:
    before = just_said(question.before, now_ms)
    return replace(question, conversation_id=_CONVERSATION, asked_ms=now_ms, before=before)


def plan_year(dataset: Dataset, *, before: int, seed: int, days: int = DAYS) -> Plan:
    """Whole chats in an order that is drawn: those with questions, then others, then, if these are too few, all again.

    The questions are those whose answer is told, each after `before` messages that are not told.
    """
    rng = Random(seed)
    chats = grouped(units_of(dataset.turns), lambda unit: unit.conversation_id)
    asked_about = {
        question.conversation_id for question in dataset.questions if question.answerable
    }
    waiting = rng.sample(sorted(chats), len(chats))
    waiting.sort(key=lambda name: name in asked_about)  # taken from the end
    count = days * EXCHANGES_A_DAY
    chosen: list[str] = []
    while waiting and sum(len(chats[name]) for name in chosen) < count:
        chosen.append(waiting.pop())
    talk: list[Sequence[Unit]] = [chats[name] for name in waiting]
    if not waiting:
        gold = frozenset[str]().union(*(question.gold for question in dataset.questions))
        talk = [_aside(chats[name], gold, rng) for name in chosen]
    talk_units = list(chain.from_iterable(talk))
    aside = {unit.id for unit in talk_units}
    units = chain.from_iterable(chats[name] for name in rng.sample(chosen, len(chosen)))
    exchanges = [unit for unit in units if unit.id not in aside][:count]

    first_day_ms = min(turn.time_ms for turn in dataset.turns) // DAY_MS * DAY_MS
    told_exchanges = islice(cycle(exchanges), count)
    dated = [_dated(unit, first_day_ms, number) for number, unit in enumerate(told_exchanges)]
    texts: dict[str, str] = {}
    contents: set[str] = set()
    for unit in exchanges:
        for turn in unit.turns:
            texts[turn.id] = text_of(unit)
            contents.add(turn.content)
    # Generated chats repeat each other: what was told is not talk.
    talk_turns = chain.from_iterable(unit.turns for unit in talk_units)
    unheard = tuple(turn for turn in talk_turns if turn.content not in contents)
    answers: dict[str, frozenset[str]] = {}
    for question in dataset.questions:
        answers[question.id] = frozenset(texts[turn_id] for turn_id in question.gold & texts.keys())
    questions = with_other_talk(replace(dataset, turns=unheard), before, seed).questions
    pool = grouped(unheard, lambda turn: turn.conversation_id)
    by_day = [dated[first : first + EXCHANGES_A_DAY] for first in range(0, count, EXCHANGES_A_DAY)]
    answered = [question for question in questions if answers[question.id]]
    return Plan(by_day, count - len(exchanges), answered, answers, list(pool.values()))


def _aside(units: Sequence[Unit], gold: frozenset[str], rng: Random) -> Sequence[Unit]:
    """One in `_ASIDE` of the units without gold, neighbours."""
    free = [unit for unit in units if not unit.holds(gold)]
    size = -(-len(free) // _ASIDE)
    first = rng.randrange(len(free) - size + 1)
    return free[first : first + size]


def _dated(unit: Unit, first_day_ms: int, number: int) -> Unit:
    """The exchange at the time at which the exchange of this number is told."""
    day, number_in_day = divmod(number, EXCHANGES_A_DAY)
    sitting, number_in_sitting = divmod(number_in_day, EXCHANGES_A_DAY // len(_SITTINGS_MS))
    start_ms = (
        first_day_ms
        + day * DAY_MS
        + _SITTINGS_MS[sitting]
        + number_in_sitting * _EXCHANGES_APART_MS
    )
    return Unit(
        tuple(replace(turn, time_ms=start_ms + n * APART_MS) for n, turn in enumerate(unit.turns))
    )

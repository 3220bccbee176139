"""Asks the questions of a data set, each after other talk, as a search is made, and counts how often the right memory
came. Chance is a seed. The search is the server's own: nothing of `nlp` and `recall` is repeated here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import TypeVar

from memory_server.core.model import ShortTermMemory, context_text
from memory_server.evaluation.dataset import Dataset, Question, Turn, Unit
from memory_server.recall.index import Index, Searched
from memory_server.recall.indexed_selection import Decision, decide
from memory_server.recall.parameters import Parameters
from memory_server.recall.words import Query, Wording

T = TypeVar("T")
APART_MS = 30_000
"""From one message of other talk to the next, and from the last one to the question."""
DEPTH = 10
"""Memories that a search gives here, for R@5 and MRR; the first three are what the server gives."""
_FAR = 4
"""Of a single chat, the part that may be talked about: the quarter that lies farthest from the answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`rank`: the place of the first right memory, from 1; None if it did not come. `spoke`: whether anything came."""

    question: Question
    rank: int | None
    spoke: bool

    def within(self, places: int) -> bool:
        """Whether a right memory is among the first `places`."""
        return self.rank is not None and self.rank <= places


def answers(dataset: Dataset, units: Sequence[Unit], parameters: Parameters) -> Iterator[Answer]:
    """Ask each question of the memories of its own conversation, conversation by conversation."""
    of_conversation = grouped(units, lambda unit: unit.conversation_id)
    for name, questions in grouped(dataset.questions, lambda question: question.conversation_id).items():
        of_id = {unit.id: unit for unit in of_conversation[name]}
        decided = deciding(parameters, {unit.id: remembered(parameters.wording, unit) for unit in of_id.values()})
        for question in questions:
            decision = decided(question)
            # What was just said is in the context already: if it is a memory too, it does not take a place.
            said = {turn.id for turn in question.before}
            given = [of_id[decision.columns.memory(row).id] for row in decision.chosen]
            given = [unit for unit in given if not unit.holds(said)]
            rank = next((place for place, unit in enumerate(given, 1) if unit.holds(question.gold)), None)
            yield Answer(question, rank, bool(given))


def figures(answers: Sequence[Answer]) -> dict[str, float]:
    """Numbers of questions, and shares from 0 to 1; a share of no questions is left out.

    recallAt1, recallAt3, recallAt5: a right memory is among the first so many. mrr: mean of 1 ÷ the place of the first
    right memory, 0 if it did not come. speaking: something came, where there is an answer; silent: nothing came, where
    there is none. Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, chapter 8.
    """
    asked = [one for one in answers if one.question.answerable]
    others = [one for one in answers if not one.question.answerable]
    found: dict[str, float] = {"questions": len(answers), "answerable": len(asked)}
    if asked:
        for places in (1, 3, 5):
            found[f"recallAt{places}"] = fmean(one.within(places) for one in asked)
        found["mrr"] = fmean(1 / one.rank if one.rank else 0.0 for one in asked)
        found["speaking"] = fmean(one.spoke for one in asked)
    if others:
        found["silent"] = fmean(not one.spoke for one in others)
    return found


def remembered(wording: Wording, unit: Unit) -> ShortTermMemory:
    """The memory that the server makes of a unit, with a score of 0."""
    messages, name = tuple(turn.message for turn in unit.turns), unit.conversation_id
    memory = ShortTermMemory(unit.id, unit.time_ms, context_text(messages), (), (), 0.0, name, messages)
    return wording.within(name).of_text(memory)


def query_of(question: Question, wording: Wording) -> Query:
    """What the server searches with when the question is asked."""
    return wording.within(question.conversation_id).of_query(question.messages, question.asked_ms)


def deciding(parameters: Parameters, memories: Mapping[str, ShortTermMemory]) -> Callable[[Question], Decision]:
    """`search_short_term_memories` with more places and without flashbacks; the first places are what it gives."""
    recall = parameters.recall
    searched = [Searched(memories, Index(memories.values(), parameters.wording))]
    deep = replace(recall, next_count=max(0, DEPTH - recall.top_count), flashback_count=0)

    def decided(question: Question) -> Decision:
        return decide(
            searched,
            query_of(question, parameters.wording),
            conversation_id=question.conversation_id,
            now_ms=question.asked_ms,
            rng=Random(0),  # only flashbacks need it
            parameters=deep,
        )

    return decided


def with_other_talk(dataset: Dataset, count: int, seed: int) -> Dataset:
    """The same questions, each asked after `count` neighbouring messages of another chat of the data set, because a
    search is made with the last few messages, and not all are about the question.

    First the chat is drawn and then the place in it, evenly, by `seed` and the question's id: other questions do not
    change it. The chat is one whose questions are in the same language; if there is only one chat, the messages are of
    that, far from what answers the question. They come without names.
    """
    chats = grouped(dataset.turns, lambda turn: turn.conversation_id)
    languages = grouped(dataset.questions, lambda question: question.language)
    chats_in = {language: {one.conversation_id for one in asked} for language, asked in languages.items()}

    def asked(question: Question) -> Question:
        rng = Random(f"{seed} {question.id}")
        others = [name for name in chats if name != question.conversation_id]
        alike = [name for name in others if name in chats_in[question.language]]
        if others:
            run = run_of(chats[rng.choice(alike or others)], count, rng)
        else:
            run = _far(question, chats.get(question.conversation_id, ()), count, rng)
        return replace(question, before=just_said(run, question.asked_ms))

    return replace(dataset, questions=tuple(map(asked, dataset.questions))) if count else dataset


def grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    """The items by their key, in the order in which the keys come."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def run_of(chat: Sequence[Turn], count: int, rng: Random) -> Sequence[Turn]:
    """`count` neighbouring turns of `chat`, drawn evenly; all of them where it has no more."""
    first = rng.randrange(max(1, len(chat) - count + 1))
    return chat[first : first + count]


def just_said(run: Sequence[Turn], now_ms: int) -> tuple[Turn, ...]:
    """The same turns without names, as if the last of them had been said just before `now_ms`."""
    return tuple(
        replace(turn, time_ms=now_ms - (len(run) - number) * APART_MS, name=None) for number, turn in enumerate(run)
    )


def _far(question: Question, own: Sequence[Turn], count: int, rng: Random) -> Sequence[Turn]:
    """A run of the question's own chat; empty where every run is as near to the answer as it is long."""
    gold = [place for place, turn in enumerate(own) if turn.id in question.gold]

    def distance(first: int) -> int:
        return min((max(first - place, place - (first + count - 1)) for place in gold), default=count + 1)

    runs = [first for first in range(len(own) - count + 1) if distance(first) > count]
    runs.sort(key=distance, reverse=True)
    if not runs:
        return ()
    first = rng.choice(runs[: max(1, len(runs) // _FAR)] if gold else runs)
    return own[first : first + count]

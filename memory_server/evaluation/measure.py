"""Asks every question of every ranker. The timer, the chances and the place to report progress are arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from memory_server.evaluation.dataset import Dataset, Question
from memory_server.evaluation.metrics import Outcome, Scores, first_right, score
from memory_server.evaluation.rankers import Maker
from memory_server.evaluation.units import Grain, Unit, units_of

Scope = Literal["own", "all"]
"""Whether a question is asked of the memories of its own conversation, or of those of all together."""

Grouping = Literal["language", "kind"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

EVERYTHING = "all"
"""The group of all questions."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, and how each ranker did, by the ranker's name."""

    question: Question
    outcomes: Mapping[str, Outcome]


def ask_all(
    dataset: Dataset,
    *,
    scope: Scope,
    grain: Grain,
    rankers: Mapping[str, Maker],
    timer_ns: Callable[[], int],
) -> Iterator[Asked]:
    """Ask the questions, conversation by conversation; in each, memories are indexed before the first question."""
    units = units_of(dataset.turns, grain)
    for asked, searched in _shelves(dataset.questions, units, scope):
        made = {name: make(searched) for name, make in rankers.items()}
        for question in asked:
            outcomes = {}
            for name, answer in made.items():
                before = timer_ns()
                found = answer(question)
                spent = timer_ns() - before
                rank = first_right([unit.answers(question.gold) for unit in found])
                outcomes[name] = Outcome(question.answerable, rank, bool(found), spent)
            yield Asked(question, outcomes)


def scores_by(asked: Sequence[Asked], grouping: Grouping, rng: Random) -> dict[str, dict[str, Scores]]:
    """Group -> ranker -> figures. The first group is that of all questions; it stands alone where no other differs."""
    # The same resamples for every ranker: of two intervals in one table, chance moved both alike.
    seed = rng.getrandbits(64)
    groups: dict[str, list[Asked]] = {EVERYTHING: list(asked)}
    for one in asked:
        label: str = getattr(one.question, grouping)
        if label and label != EVERYTHING:
            groups.setdefault(label, []).append(one)
    if len(groups) == 2:
        groups = {EVERYTHING: groups[EVERYTHING]}
    return {
        group: {name: score([one.outcomes[name] for one in members], Random(seed)) for name in members[0].outcomes}
        for group, members in groups.items()
    }


def _shelves(
    questions: Sequence[Question], units: Sequence[Unit], scope: Scope
) -> Iterator[tuple[Sequence[Question], Sequence[Unit]]]:
    """The questions that are asked of the same memories, with these memories."""
    if scope == "all":
        yield questions, units
        return
    of_conversation: dict[str, list[Question]] = {}
    for question in questions:
        of_conversation.setdefault(question.conversation_id, []).append(question)
    for conversation_id, asked in of_conversation.items():
        yield asked, [unit for unit in units if unit.conversation_id == conversation_id]

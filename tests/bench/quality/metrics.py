"""Asks every question of every ranker, and computes shares and means, each with an interval. Pure; chance is a seed.

Sources: Manning, Raghavan, Schütze, Introduction to Information Retrieval, chapter 8; Järvelin and Kekäläinen 2002
(NDCG); Efron 1979 (bootstrap), in two stages as in Field and Welsh 2007 (clusters, and what is in them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import comb, log2
from typing import Literal

import numpy as np
from bench.quality.evaluation import Question, Unit, grouped
from bench.quality.rankers import OURS, Floats, Maker, Ranker, Ranking

RESAMPLES = 1_000
"""Bootstrap samples: enough that the ends of an interval move by less than a point between seeds."""
CONFIDENCE = 0.95
PLACES = 5
"""Places that are looked at; the server gives 3."""

_DISCOUNTS = [1 / log2(2 + index) for index in range(PLACES)]

Cluster = tuple[Hashable, Hashable]
"""The conversation and the base question that a question is of: the same question in two scripts is one."""

Tiers = Sequence[Sequence[int]]
"""A ranking, best first: how many right turns each memory holds; equally good memories are one tier."""

Outcome = Mapping[str, float]
"""How one question went, by the name of the figure: a chance or an expected value from 0 to 1, over all orders of ties.
A figure for which the question does not count is left out.

recallAt1, recallAt3, recallAt5: a right memory is among the first so many.
recallAt3Alone: the same without messages before the question.
evidenceAt5: the share of the right turns that the first five memories hold.
ndcgAt5: the gain of the first five places, each discounted by its logarithm, of what the best order would gain.
silent: nothing passed the threshold, where there is no answer; speaking: something did, where there is one.
"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scores:
    """The means of one ranker's outcomes; a figure that no question counts for is left out. `recallAt3ToSearch`: how
    much greater its recallAt3 is than that of the server's search, on the same questions."""

    questions: int
    answerable: int
    conversations: int
    figures: Mapping[str, Estimate]


def hit(tiers: Tiers, places: int) -> float:
    """The chance that a right memory is among the first `places`."""
    for tier in tiers:
        right = sum(map(bool, tier))
        if places < len(tier):
            return 1 - comb(len(tier) - right, places) / comb(len(tier), places)
        if right:
            return 1.0
        places -= len(tier)
    return 0.0


def evidence(tiers: Tiers, turns: int) -> float:
    """The expected share of so many right turns that the first five memories hold."""
    return sum(_expected(tiers)) / turns


def ndcg(tiers: Tiers, holders: int) -> float:
    """The expected NDCG of the first five places, where so many memories are right."""
    chances = _expected([list(map(bool, tier)) for tier in tiers])
    gained = sum(chance * discount for chance, discount in zip(chances, _DISCOUNTS, strict=False))
    return gained / sum(_DISCOUNTS[: max(1, holders)])


def _expected(tiers: Tiers) -> list[float]:
    """The expected number at each of the first five places."""
    expected: list[float] = []
    for tier in tiers:
        expected.extend([sum(tier) / len(tier)] * len(tier[:PLACES]))
    return expected[:PLACES]


class Resampled:
    """The questions drawn with replacement many times: first conversations, then the base questions of each.

    `clusters` has for each question the labels of both: questions with the same labels are drawn together. Every
    figure uses the same draws, so that chance moves two rankers alike.
    """

    def __init__(self, clusters: Sequence[Cluster], seed: int) -> None:
        rng = np.random.default_rng(seed)
        bases: dict[Hashable, dict[Cluster, None]] = {}
        for label in clusters:
            bases.setdefault(label[0], {})[label] = None
        number_of = {
            label: number for number, label in enumerate(chain.from_iterable(bases.values()))
        }
        self._cluster = np.array([number_of[label] for label in clusters], dtype=int)
        conversations = rng.multinomial(len(bases), _evenly(len(bases)), RESAMPLES)
        sizes = map(len, bases.values())
        drawn = [
            rng.multinomial(n * size, _evenly(size))
            for n, size in zip(conversations.T, sizes, strict=True)
        ]
        self._drawn = np.concatenate(drawn, axis=1)

    def mean(self, values: Sequence[float | None]) -> Estimate | None:
        """The mean over the questions that have a value, with its interval; None where no question has one."""
        column = np.array(values, dtype=float)
        has_value = ~np.isnan(column)
        if not has_value.any():
            return None
        where = self._cluster[has_value]
        size = self._drawn.shape[1]
        sums = self._drawn @ np.bincount(where, column[has_value], size)
        sizes = self._drawn @ np.bincount(where, minlength=size)
        return _estimate(float(column[has_value].mean()), sums[sizes > 0] / sizes[sizes > 0])

    def figure(self, compute: Callable[[Floats], float]) -> Estimate | None:
        """The figure that `compute` gives for how often each question is drawn; NaN: there is none."""
        value = compute(np.ones(len(self._cluster)))
        if np.isnan(value):
            return None
        drawn = np.array([compute(counts[self._cluster].astype(float)) for counts in self._drawn])
        return _estimate(value, drawn[~np.isnan(drawn)])


def score(
    outcomes: Mapping[str, Sequence[Outcome]], clusters: Sequence[Cluster], seed: int
) -> dict[str, Scores]:
    """The figures of each ranker, by its name; all were asked the same questions."""
    draws = Resampled(clusters, seed)
    conversations = len({conversation for conversation, _ in clusters})
    scores: dict[str, Scores] = {}
    for ranker, outcomes_of_ranker in outcomes.items():
        columns: dict[str, list[float | None]] = {}
        for name in dict.fromkeys(chain.from_iterable(outcomes_of_ranker)):
            columns[name] = [outcome.get(name) for outcome in outcomes_of_ranker]
        if "recallAt3" in columns and ranker != OURS:
            columns["recallAt3ToSearch"] = _differences(columns["recallAt3"], outcomes[OURS])
        figures: dict[str, Estimate] = {}
        for name, column in columns.items():
            estimate = draws.mean(column)
            if estimate is not None:
                figures[name] = estimate
        answerable = sum("recallAt3" in outcome for outcome in outcomes_of_ranker)
        scores[ranker] = Scores(len(outcomes_of_ranker), answerable, conversations, figures)
    return scores


def _differences(
    recall_at_3: Sequence[float | None], ours: Sequence[Outcome]
) -> list[float | None]:
    """How much more of each question a ranker finds than the server's search; None where nothing answers it."""
    differences: list[float | None] = []
    for value, our_outcome in zip(recall_at_3, ours, strict=True):
        if value is None:
            differences.append(None)
        else:
            differences.append(value - our_outcome["recallAt3"])
    return differences


def _evenly(size: int) -> list[float]:
    return [1 / size] * size


def _estimate(value: float, drawn: Floats) -> Estimate:
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(value, float(low), float(high))


Scope = Literal["own", "all"]
"""Whether a question is asked of the memories of its own conversation, or of those of all conversations."""

Grouping = Literal["language", "kind"]

EVERYTHING = "all"
"""The group of all questions."""

Asked = tuple[Question, Mapping[str, Outcome]]
"""One question, and how each ranker did, by the ranker's name."""


def shelves(
    questions: Sequence[Question], units: Sequence[Unit], scope: Scope, rankers: Mapping[str, Maker]
) -> Iterator[tuple[Sequence[Question], Sequence[Unit], Mapping[str, Ranker]]]:
    """The questions that are asked of the same memories, with these memories and the rankers made of them."""

    def shelf(asked_or_stored: Question | Unit) -> str:
        if scope == "all":
            return ""
        return asked_or_stored.conversation_id

    questions_by_shelf = grouped(questions, shelf)
    searched = grouped(units, shelf)
    for name, members in questions_by_shelf.items():
        yield (
            members,
            searched[name],
            {ranker: make(searched[name]) for ranker, make in rankers.items()},
        )


def ask_all(
    questions: Sequence[Question],
    units: Sequence[Unit],
    *,
    scope: Scope,
    rankers: Mapping[str, Maker],
) -> Iterator[Asked]:
    """Ask the questions, conversation by conversation."""
    for asked, searched, made_rankers in shelves(questions, units, scope, rankers):
        holder: dict[str, str] = {}
        for unit in searched:
            holder.update((turn.id, unit.id) for turn in unit.turns)
        for question in asked:
            yield (
                question,
                {name: _outcome(ranker, question, holder) for name, ranker in made_rankers.items()},
            )


def _outcome(ranker: Ranker, question: Question, holder: Mapping[str, str]) -> Outcome:
    ranking = ranker.given(question)
    if not question.answerable:
        return {"silent": float(not ranking)}
    right = Counter(holder[turn_id] for turn_id in question.gold & holder.keys())
    tiers = _right_turns(ranking, right)
    tiers_alone = tiers
    if question.before:
        tiers_alone = _right_turns(ranker.given(replace(question, before=())), right)
    return {
        **{f"recallAt{places}": hit(tiers, places) for places in (1, 3, 5)},
        "recallAt3Alone": hit(tiers_alone, 3),
        "evidenceAt5": evidence(tiers, len(question.gold)),
        "ndcgAt5": ndcg(tiers, len(right)),
        "speaking": float(bool(ranking)),
    }


def _right_turns(ranking: Ranking, right: Mapping[str, int]) -> list[list[int]]:
    """How many right turns each memory of a ranking holds."""
    tiers: list[list[int]] = []
    for tier in ranking:
        tiers.append([right.get(unit.id, 0) for unit in tier])
    return tiers


def scores_by(
    asked: Sequence[Asked], grouping: Grouping, seed: int
) -> dict[str, dict[str, Scores]]:
    """Group -> ranker -> figures. The first group is that of all questions; it is alone where no other differs."""
    labelled = grouped(
        asked, lambda question_and_outcomes: str(getattr(question_and_outcomes[0], grouping))
    )
    scores = {EVERYTHING: _score_of(asked, seed)}
    labels = [label for label in labelled if label not in ("", EVERYTHING)]
    if len(labels) > 1:
        for label in labels:
            scores[label] = _score_of(labelled[label], seed)
    return scores


def _score_of(asked: Sequence[Asked], seed: int) -> dict[str, Scores]:
    """The figures of each ranker for these questions."""
    outcomes: dict[str, list[Outcome]] = {}
    for _, by_ranker in asked:
        for name, outcome in by_ranker.items():
            outcomes.setdefault(name, []).append(outcome)
    return score(outcomes, clusters([question for question, _ in asked]), seed)


def clusters(questions: Sequence[Question]) -> list[Cluster]:
    """The cluster of each question. Questions with the same answer are one base question."""
    return [(question.conversation_id, question.gold or question.id) for question in questions]

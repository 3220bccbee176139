"""Whether a search gives nothing for questions of others and for small talk, which its memories do not answer. Pure.

A search speaks at or above its threshold and is silent below. The figures say how well the points of a ranker tell the
two apart (the area under the ROC curve; Fawcett 2006), and how good its own threshold is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from bench.quality.evaluation import Dataset, Question, Unit
from bench.quality.metrics import Estimate, Resampled, clusters, shelves
from bench.quality.rankers import Floats, Maker, Ranker

KEPT = 0.95
"""Share of the right first answers that stay at the threshold of `silent_95`."""

_OWN = "own"
_HAN = re.compile(r"[\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Heard:
    """What a ranker did with a question: the points of its first memory, whether that is right, the most points of any
    memory, and whether it gave something."""

    first: float
    right: bool
    most: float
    spoke: bool


@dataclass(frozen=True, slots=True)
class Silence:
    """How well a ranker tells questions with an answer from one kind of stranger. Shares from 0 to 1.

    asked: number of strangers. right: number of questions whose first memory is right, without a threshold.
    kept: share of `right` for which the ranker gives something.
    area: the chance that a question of `right` has more points than a stranger; equal points count half.
    silent_95: share of strangers that stay silent at `threshold_95`, which keeps 95 % of `right`.
    silent: the same at the ranker's own threshold.
    """

    asked: int
    right: int
    kept: Estimate | None
    area: Estimate | None
    silent_95: Estimate | None
    threshold_95: Estimate | None
    silent: Estimate | None


def strangers_of(
    question: Question, everyone: Sequence[Question], small_talk: Sequence[str], seed: int
) -> dict[str, Question]:
    """Strangers: what the question's memories do not answer, one of each kind, drawn by `seed` and the question's id.

    An unrelated one is a question of another conversation in the same language. Small talk has Chinese characters where
    the question has some. A kind without a text is left out.
    """
    rng = Random(f"{seed} {question.id} strangers")
    chinese = bool(_HAN.search(question.text))
    of_others = [
        stranger for stranger in everyone if stranger.conversation_id != question.conversation_id
    ]
    others = [stranger.text for stranger in of_others if stranger.language == question.language]
    alike = [sentence for sentence in small_talk if bool(_HAN.search(sentence)) == chinese]
    drawn = {
        kind: rng.choice(texts)
        for kind, texts in (("unrelated", others), ("small talk", alike))
        if texts
    }
    return {
        kind: replace(question, id=text, text=text, gold=frozenset())
        for kind, text in drawn.items()
    }


def with_elsewhere(
    strangers: Mapping[str, Question], question: Question, datasets: Sequence[Dataset], seed: int
) -> dict[str, Question]:
    """Return the strangers of a question with one from each of these data sets, drawn by `seed` and the question's
    id; its kind is the name of its data set."""
    kinds = dict(strangers)
    for dataset in datasets:
        rng = Random(f"{seed} {question.id} {dataset.name}")
        text = rng.choice(dataset.questions).text
        kinds[dataset.name] = replace(question, id=text, text=text, gold=frozenset())
    return kinds


def listen(
    strangers: Sequence[tuple[Question, Mapping[str, Question]]],
    units: Sequence[Unit],
    rankers: Mapping[str, Maker],
) -> Iterator[tuple[Question, dict[str, dict[str, Heard]]]]:
    """Ask each question and its strangers of the memories of its own conversation: ranker -> kind -> `Heard`."""
    of_id = {question.id: others for question, others in strangers}
    for asked, _, made_rankers in shelves(
        [question for question, _ in strangers], units, "own", rankers
    ):
        for question in asked:
            kinds = {_OWN: question, **of_id[question.id]}
            yield (
                question,
                {name: _heard_by_kind(ranker, kinds) for name, ranker in made_rankers.items()},
            )


def _heard_by_kind(ranker: Ranker, kinds: Mapping[str, Question]) -> dict[str, Heard]:
    return {kind: _heard(ranker, question) for kind, question in kinds.items()}


def _heard(ranker: Ranker, question: Question) -> Heard:
    judged = ranker.judged(question)
    points = [points for points, _ in judged] or [-np.inf]
    right = bool(judged) and judged[0][1].holds(question.gold)
    return Heard(points[0], right, max(points), bool(ranker.given(question)))


def silence_by(
    heard: Sequence[tuple[Question, Mapping[str, Mapping[str, Heard]]]], seed: int
) -> dict[str, dict[str, Silence]]:
    """Ranker -> kind of stranger -> figures. `heard` is not empty."""
    draws = Resampled(clusters([question for question, _ in heard]), seed)
    kinds: dict[str, None] = {}
    for _, rankers in heard:
        kinds |= dict.fromkeys(next(iter(rankers.values())))
    kinds.pop(_OWN, None)
    silences: dict[str, dict[str, Silence]] = {}
    for name in heard[0][1]:
        of_ranker = [rankers[name] for _, rankers in heard]
        silences[name] = {kind: _silence(of_ranker, kind, draws) for kind in kinds}
    return silences


def _silence(heard: Sequence[Mapping[str, Heard]], kind: str, draws: Resampled) -> Silence:
    own = [by_kind[_OWN] for by_kind in heard]
    strangers = [by_kind.get(kind) for by_kind in heard]
    first = np.array([answer.first for answer in own])
    most = np.full(len(strangers), np.nan)
    is_silent: list[float | None] = [None] * len(strangers)
    for number, stranger in enumerate(strangers):
        if stranger is not None:
            most[number] = stranger.most
            is_silent[number] = float(not stranger.spoke)
    is_kept: list[float | None] = [None] * len(own)
    for number, answer in enumerate(own):
        if answer.right:
            is_kept[number] = float(answer.spoke)
    right = np.array(
        [number for number in np.argsort(first, kind="stable") if own[number].right], dtype=int
    )
    order = np.argsort(most, kind="stable")[: np.count_nonzero(~np.isnan(most))]
    below, up_to = (np.searchsorted(most[order], first[right], side) for side in ("left", "right"))

    def quieter(drawn: Floats) -> Floats:
        """How often strangers were drawn, added up in the order of their points."""
        return np.concatenate(([0.0], np.cumsum(drawn[order])))

    def area(drawn: Floats) -> float:
        strangers = quieter(drawn)
        pairs = drawn[right].sum() * strangers[-1]
        if not pairs:
            return np.nan
        return float(drawn[right] @ (strangers[below] + strangers[up_to]) / 2 / pairs)

    def weakest_kept(drawn: Floats) -> int | None:
        lost = np.cumsum(drawn[right])
        if not len(lost) or not lost[-1]:
            return None
        return int(np.searchsorted(lost, (1 - KEPT) * lost[-1], side="right"))

    def silent_95(drawn: Floats) -> float:
        strangers = quieter(drawn)
        weakest = weakest_kept(drawn)
        if weakest is None or not strangers[-1]:
            return np.nan
        return float(strangers[below[weakest]] / strangers[-1])

    def threshold_95(drawn: Floats) -> float:
        weakest = weakest_kept(drawn)
        if weakest is None:
            return np.nan
        return float(first[right][weakest])

    return Silence(
        asked=len(order),
        right=len(right),
        kept=draws.mean(is_kept),
        area=draws.figure(area),
        silent_95=draws.figure(silent_95),
        threshold_95=draws.figure(threshold_95),
        silent=draws.mean(is_silent),
    )

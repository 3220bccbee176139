"""What the answers to many questions come to: shares and means, each with an interval. Pure; chance is an argument.

Sources: Manning, Raghavan, Schütze, Introduction to Information Retrieval, chapter 8; Efron 1979 (bootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

RESAMPLES = 1_000
"""Bootstrap samples: enough that the ends of an interval move by less than a point between seeds."""
CONFIDENCE = 0.95
_PLACES_AT_ONCE = 500_000
"""Drawn numbers held at a time: 4 MB, whatever the number of questions."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one question went. `rank`: place of the first right memory from 1, None where none came."""

    answerable: bool
    rank: int | None
    answered: bool
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions, and between which values it lies with a confidence of 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scores:
    """The figures of one ranker. Shares from 0 to 1; None where no question of that kind was asked.

    recall: share of the answerable questions with a right memory among the first 1, 3, 5.
    mrr: mean of 1 ÷ rank, 0 where none came.
    silent: share of the unanswerable questions for which nothing passed the threshold (more is better).
    speaking: share of the answerable ones for which something did (more is better).
    """

    questions: int
    answerable: int
    recall_1: Estimate | None
    recall_3: Estimate | None
    recall_5: Estimate | None
    mrr: Estimate | None
    silent: Estimate | None
    speaking: Estimate | None
    p50_ms: float


def first_right(rights: Sequence[bool]) -> int | None:
    """The place of the first True, from 1."""
    return next((place for place, right in enumerate(rights, 1) if right), None)


def score(outcomes: Sequence[Outcome], rng: Random) -> Scores:
    """The figures of at least one outcome."""
    ranks = [outcome.rank for outcome in outcomes if outcome.answerable]

    def within(places: int) -> Estimate | None:
        return estimate([float(rank is not None and rank <= places) for rank in ranks], rng)

    return Scores(
        questions=len(outcomes),
        answerable=len(ranks),
        recall_1=within(1),
        recall_3=within(3),
        recall_5=within(5),
        mrr=estimate([0.0 if rank is None else 1.0 / rank for rank in ranks], rng),
        silent=estimate([float(not outcome.answered) for outcome in outcomes if not outcome.answerable], rng),
        speaking=estimate([float(outcome.answered) for outcome in outcomes if outcome.answerable], rng),
        p50_ms=median(outcome.nanoseconds for outcome in outcomes) / 1e6,
    )


def estimate(values: Sequence[float], rng: Random) -> Estimate | None:
    """The mean of `values` with its percentile bootstrap interval; None for no values."""
    if not values:
        return None
    import numpy as np

    drawn = np.random.default_rng(rng.getrandbits(64))
    column = np.asarray(values)
    rows = max(1, min(RESAMPLES, _PLACES_AT_ONCE // len(column)))
    means = np.concatenate(
        [
            column[drawn.integers(len(column), size=(min(rows, RESAMPLES - done), len(column)))].mean(axis=1)
            for done in range(0, RESAMPLES, rows)
        ]
    )
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(float(column.mean()), float(low), float(high))

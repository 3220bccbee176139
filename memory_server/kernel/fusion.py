"""Two rankings as one: by words, and by meaning where a model gives texts vectors. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import fsum, inf, log, sqrt
from typing import TypeVar

K = TypeVar("K")
_ROUNDING = 1e-6
"""Cosines of 32-bit floats that differ by less are equal."""
FUSED = 100
"""A search by words and meaning looks at so many of the best of each."""
OFFSET, MEANING = 5, 0.6
"""Of short-term memories: how soon a lower rank counts less, and how much a rank by meaning counts beside one by
words. Chosen on the development sets of docs/explanation/recall-quality.md with two small models: offsets of 3 to 10
and factors of 0.4 to 0.6 are alike."""


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near a memory is to the last message by meaning, as a cosine; its rank by meaning and its rank by words, from
    1. None: it is not among the best `FUSED`. `stands_out`: so near that it comes unasked only by its meaning."""

    cosine: float
    rank: int | None
    word_rank: int | None
    stands_out: bool = False


def fused(worded: Sequence[K], near: Sequence[K], *, offset: int = 60, meaning: float = 1.0) -> dict[K, float]:
    """By reciprocal rank fusion, the sum of 1 / (offset + rank) in both rankings, which are best first (Cormack et al.
    2009, where the offset is 60). `meaning`: the factor on what `near` adds."""
    scores: dict[K, float] = {}
    for ranking, weight in ((worded, 1.0), (near, meaning)):
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + weight / (offset + rank)
    return scores


def needed_cosine(cosines: Collection[float], margin: float) -> float:
    """The cosine from which a memory comes only by meaning. Models differ in what they call near, so it is relative:
    √(2 ln n) + `margin` standard deviations above the mean of the n memories, where the first part is what the best of
    n reaches by chance."""
    if len(cosines) < 2:
        return inf
    mean = fsum(cosines) / len(cosines)
    deviation = sqrt(fsum((each - mean) ** 2 for each in cosines) / len(cosines))
    return mean + (sqrt(2 * log(len(cosines))) + margin) * deviation if deviation > _ROUNDING else inf

"""Two rankings as one: by words, and by meaning where a model gives texts vectors. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import fsum, inf, log, sqrt
from typing import TypeVar

from memory_server.kernel.values import frozen

K = TypeVar("K")
_ROUNDING = 1e-6
"""Cosines of 32-bit floats that differ by less are equal."""
FUSED = 100
"""How many of the best by words, and of the best by meaning, a search of both looks at."""
OFFSET = 5
"""How soon a lower rank of a short-term memory counts less. Chosen on the development sets of
docs/explanation/recall-quality.md with two small models: offsets of 3 to 10 are alike."""
MEANING = 0.6
"""How much the rank of a short-term memory by meaning counts beside its rank by words. Chosen on the same sets: factors
of 0.4 to 0.6 are alike."""


@frozen
class Nearness:
    """How near a memory is to the last message by meaning, as a cosine; its rank by meaning and its rank by words, from
    1. A rank is None where the memory is not among the best `FUSED`. `stands_out`: it is so near that it comes unasked
    only by its meaning."""

    cosine: float
    rank: int | None
    word_rank: int | None
    stands_out: bool = False


def fused(
    worded: Sequence[K], near: Sequence[K], *, offset: int = 60, meaning: float = 1.0
) -> dict[K, float]:
    """Return the scores by reciprocal rank fusion: the sum of 1 / (offset + rank) in both rankings, which are best
    first (Cormack et al. 2009, where the offset is 60). `meaning` is the factor on what `near` adds."""
    scores: dict[K, float] = {}
    for ranking, weight in ((worded, 1.0), (near, meaning)):
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + weight / (offset + rank)
    return scores


def needed_cosine(cosines: Collection[float], margin: float) -> float:
    """Return the least cosine with which a memory may come by meaning alone; infinite where there
    is nothing to compare with: fewer than two cosines, or all are equal. Models differ in what they
    call near, so it is relative: √(2 ln n) + `margin` standard deviations above the mean of the n
    memories, where the first part is what the best of n reaches by chance."""
    if len(cosines) < 2:
        return inf
    mean = fsum(cosines) / len(cosines)
    variance = fsum((cosine - mean) ** 2 for cosine in cosines) / len(cosines)
    deviation = sqrt(variance)
    if deviation <= _ROUNDING:
        return inf
    best_by_chance = sqrt(2 * log(len(cosines)))
    return mean + (best_by_chance + margin) * deviation

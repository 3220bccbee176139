"""How relevant one memory is to the words of now: keyword match − time decay + reinforcement score.

Source: the Node original's `calculateRelevance`; equal to it within 1e-12 (V8's `Math.exp` and
C's differ in the last bit for a tenth of all arguments).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

from memory_server.model import ShortTermMemory
from memory_server.recall.parameters import DAY_MS, RecallParameters

Query = Mapping[str, float]
"""Words of the current messages with their weights."""


@dataclass(frozen=True, slots=True)
class MatchedWord:
    """A word that the query and the memory share, with the weight it has in each."""

    word: str
    query_weight: float
    memory_weight: float


@dataclass(frozen=True, slots=True)
class Receipt:
    """Why a memory has the relevance it has: `match − decay + score + affinity`."""

    matched: tuple[MatchedWord, ...]
    decay: float
    age_ms: int
    score: float
    affinity: float = 0.0

    @property
    def relevance(self) -> float:
        return sum(w.query_weight + w.memory_weight for w in self.matched) - self.decay + self.score + self.affinity

    def line(self) -> str:
        """One short line for people: the heaviest shared words with both weights, decay with age, score."""
        heaviest = sorted(self.matched, key=lambda w: -(w.query_weight + w.memory_weight))
        words = ", ".join(f"{w.word} {w.query_weight:.1f}+{w.memory_weight:.1f}" for w in heaviest[:3])
        if len(heaviest) > 3:
            words += f" and {len(heaviest) - 3} more"
        hour = f"; +{self.affinity:.1f} for the time of day" if self.affinity else ""
        return (
            f"{words or 'no shared word'}; -{self.decay:.1f} for {age_text(self.age_ms)}; +{self.score:g} score{hour}"
        )


def age_of(time_ms: int, now_ms: int) -> int:
    """Milliseconds since `time_ms`; 0 for a time in the future, which would otherwise overflow the decay."""
    return max(0, now_ms - time_ms)


def decay(age_ms: int, parameters: RecallParameters) -> float:
    """Relevance points lost at an age: 15 · (1 − e^(−age · 2e-9))."""
    return parameters.decay_ceiling * (1.0 - exp(-age_ms * parameters.decay_per_ms))


def hour_affinity(time_ms: int, now_ms: int, parameters: RecallParameters) -> float:
    """Relevance points for the same time of day: a bell curve over the distance around the clock.

    The distance needs no time zone: it is what is left of the age after whole days.
    """
    if not parameters.hour_affinity:
        return 0.0
    apart = abs(now_ms - time_ms) % DAY_MS
    return parameters.hour_affinity * exp(-0.5 * (min(apart, DAY_MS - apart) / parameters.hour_affinity_ms) ** 2)


def relevance(memory: ShortTermMemory, query: Query, now_ms: int, parameters: RecallParameters) -> float:
    """Relevance points of `memory` to `query` at `now_ms`."""
    match = affinity = 0.0
    # Most memories share no word: asked of all words at once, that costs a fifth of looking at each.
    if not query.keys().isdisjoint(memory.words):
        for word, weight in zip(memory.words, memory.weights, strict=True):
            if word in query:
                match += query[word] + weight
        affinity = hour_affinity(memory.time_ms, now_ms, parameters)
    return match - decay(age_of(memory.time_ms, now_ms), parameters) + memory.score + affinity


def receipt(memory: ShortTermMemory, query: Query, now_ms: int, parameters: RecallParameters) -> Receipt:
    """The same reckoning with all its parts; for the few memories that are shown."""
    age_ms = age_of(memory.time_ms, now_ms)
    matched = tuple(
        MatchedWord(word, query[word], weight)
        for word, weight in zip(memory.words, memory.weights, strict=True)
        if word in query
    )
    affinity = hour_affinity(memory.time_ms, now_ms, parameters) if matched else 0.0
    return Receipt(matched, decay(age_ms, parameters), age_ms, memory.score, affinity)


def age_text(age_ms: int) -> str:
    """An age for people: `5 min`, `3 h`, `12 days`."""
    minutes = age_ms / 60_000
    if minutes < 60:
        return f"{minutes:.0f} min"
    if minutes < 48 * 60:
        return f"{minutes / 60:.0f} h"
    return f"{age_ms / DAY_MS:.0f} days"

"""Figures of many memories together: scores, words, ages, tags, and the hours at which they were made."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from heapq import nsmallest

from memory_server.core.model import LongTermMemory, ShortTermMemory
from memory_server.core.times import local
from memory_server.recall.filters import tags_of
from memory_server.recall.parameters import DAY_MS
from nlp import says_little

AGES: tuple[tuple[str, float], ...] = (
    ("last_hour", DAY_MS / 24),
    ("last_day", DAY_MS),
    ("last_week", 7 * DAY_MS),
    ("last_month", 30 * DAY_MS),
    ("older", float("inf")),
)
"""Bands of age with the milliseconds at which each ends (the Node original's)."""
SCORES: tuple[tuple[str, float], ...] = (("negative", 0.0), ("low", 10.0), ("medium", 30.0), ("high", float("inf")))
"""Bands of score with the points at which each ends (the Node original's)."""

_DAY = re.compile(r"\d{1,2}月\d{1,2}日")
"""A word that names a day, as nlp/date_words.py writes it. Days are left out, because every memory has one."""

Words = Sequence[tuple[str, float]]
"""Words of one memory with their weights."""


@dataclass(frozen=True, slots=True)
class CommonWord:
    """A word, the sum of its weights in the memories that hold it, and the number of these memories."""

    word: str
    weight: float
    memories: int


@dataclass(frozen=True, slots=True)
class Overview:
    """`average_score` is None if no memory has a score; `hours` counts by the local hour of the day, 0 to 23."""

    total: int
    average_score: float | None
    scores: Mapping[str, int]
    words: tuple[CommonWord, ...]
    tags: Mapping[str, int]
    ages: Mapping[str, int]
    hours: tuple[int, ...]
    never_recalled: int
    pinned: int


def overview(
    memories: Sequence[ShortTermMemory] | Sequence[LongTermMemory],
    words: Iterable[Words],
    *,
    now_ms: int,
    zone: tzinfo | None,
    top: int,
) -> Overview:
    """The figures of `memories`, whose words are `words`, with the `top` heaviest words and most frequent tags.

    Days and function words such as 什么 are left out; `ages` and `hours` show the times.
    """
    weights: dict[str, float] = defaultdict(float)
    holders: dict[str, int] = defaultdict(int)
    for of_one in words:
        for word, weight in of_one:
            weights[word] += weight
        for word in dict(of_one):  # a record of another program may hold a word twice
            holders[word] += 1
    counting = (word for word in weights if not (_DAY.fullmatch(word) or says_little(word.lower())))
    heaviest = nsmallest(top, counting, key=lambda word: (-weights[word], word))
    tags = Counter(tag for memory in memories for tag in tags_of(memory))
    times = [memory.made_ms for memory in memories]
    hours = Counter(local(time_ms, zone).hour for time_ms in times)
    short = [memory for memory in memories if isinstance(memory, ShortTermMemory)]
    return Overview(
        total=len(memories),
        average_score=sum(memory.score for memory in short) / len(short) if short else None,
        scores=_banded((memory.score for memory in short), SCORES),
        words=tuple(CommonWord(word, weights[word], holders[word]) for word in heaviest),
        tags=dict(tags.most_common(top)),
        ages=_banded((max(0, now_ms - time_ms) for time_ms in times), AGES),
        hours=tuple(hours[hour] for hour in range(24)),
        never_recalled=sum(memory.score <= 0 for memory in short),
        pinned=sum(memory.pinned for memory in short),
    )


def _banded(values: Iterable[float], bands: tuple[tuple[str, float], ...]) -> dict[str, int]:
    counts = {name: 0 for name, _ in bands}
    for value in values:
        counts[next(name for name, end in bands if value < end)] += 1
    return counts

"""Filtering memories by words, dates, scores and tags, in an order, and figures of many of them together: without
chance and without the rules of recall.

Both kinds are filtered together. A long-term memory has neither score nor age: its relevance is the weight of the words
that it shares. Tags are the `#words` of a memory's text, and the list `tags` that other programs write into a record.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from heapq import nsmallest
from typing import Any, Literal

from memory_server.conversations.archive import Archived
from memory_server.conversations.model import LongTermMemory, Memory, ShortTermMemory
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.relevance import age_of, decay
from memory_server.kernel.times import DAY_MS, local
from nlp import bare, is_kept, is_speaker, says_little
from nlp.index_terms import index_form

SortBy = Literal["relevance", "timestamp", "score"]

_HASHTAG = re.compile(r"(?<![\w/&#])#(?!\d+\b)(\w[\w-]*)")
"""It does not match `#12`, the anchor of an address, or the second # of 微博's `#话题#`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """The conditions that a memory must meet. One of `words` is enough: a keyword of the memory, or a part of its text.
    Both ends of times (milliseconds since 1970) are included. All `tags` are needed (without `#`). What looks
    the same is the same, in upper and lower case.
    A long-term memory has no score, so a condition on the score excludes it."""

    words: Mapping[str, float] = field(default_factory=dict)
    from_ms: int | None = None
    until_ms: int | None = None
    min_score: float | None = None
    max_score: float | None = None
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Filtered:
    """A memory that meets a filter, the conversation that keeps it, and the words of the filter that it holds; `kept`
    are those of them that its text does not have, and that are kept with it. `removal` says how it was removed, if the
    search was among removed memories."""

    conversation_id: str
    memory: Memory
    relevance: float
    shared: tuple[str, ...]
    removal: Archived | None = None
    kept: tuple[str, ...] = ()


def filtered(
    memories: Iterable[tuple[str, Iterable[Memory]]],
    wanted: MemoryFilter,
    *,
    now_ms: int,
    parameters: RecallParameters,
    sort_by: SortBy,
    descending: bool = True,
    most: int | None = None,
) -> tuple[list[Filtered], int]:
    """The first `most` (None: all) memories of the conversations that meet the filter, and how many meet it. Equal ones
    come newest first, then by id; memories without a score come last in either order by score."""
    count = 0

    def counted() -> Iterator[Filtered]:
        nonlocal count
        for item in _met(memories, wanted, now_ms, parameters):
            count += 1
            yield item

    sign = -1.0 if descending else 1.0

    def place(item: Filtered) -> tuple[bool, float, int, str, str]:
        score = item.memory.score if isinstance(item.memory, ShortTermMemory) else None
        values = {"relevance": item.relevance, "timestamp": float(item.memory.made_ms), "score": score or 0.0}
        last = sort_by == "score" and score is None
        return last, sign * values[sort_by], -item.memory.made_ms, item.memory.key, item.conversation_id

    # Keep no more than needed: 100,000 objects at once would start a garbage collection, which stops every thread for a
    # third of a second.
    found = sorted(counted(), key=place) if most is None else nsmallest(most, counted(), key=place)
    return found, count


def tags_of(memory: Memory) -> tuple[str, ...]:
    """The tags of a memory as they are written, without `#`, each once."""
    given: Any = memory.extra.get("tags")
    listed = [tag.removeprefix("#") for tag in given if isinstance(tag, str)] if isinstance(given, list) else []
    return tuple(dict.fromkeys([*listed, *_HASHTAG.findall(memory.text)]))


def _met(
    memories: Iterable[tuple[str, Iterable[Memory]]], wanted: MemoryFilter, now_ms: int, parameters: RecallParameters
) -> Iterator[Filtered]:
    forms = {index_form(word): word for word in wanted.words}
    tags = set(map(index_form, wanted.tags))
    scored = wanted.min_score is not None or wanted.max_score is not None
    for conversation_id, memory in ((name, memory) for name, kept in memories for memory in kept):
        score = memory.score if isinstance(memory, ShortTermMemory) else None
        if not _between(memory.made_ms, wanted.from_ms, wanted.until_ms):
            continue
        if scored and (score is None or not _between(score, wanted.min_score, wanted.max_score)):
            continue
        shared: tuple[str, ...] = ()
        keywords: tuple[str, ...] = ()
        keywords_beside: tuple[str, ...] = ()
        kept: tuple[str, ...] = ()
        if isinstance(memory, ShortTermMemory):
            # The Node original, which needs nothing shared, knows no other words.
            has_others = bool(memory.other_words) and parameters.must_share
            keywords = tuple(map(bare, memory.words)) if has_others else memory.words
            keywords_beside = tuple(filter(is_kept, memory.words)) if has_others else ()
        if forms:
            text = index_form(memory.text)
            shared = tuple(word for form, word in forms.items() if form in text or word in keywords)
            if not shared:
                continue
            beside = {bare(word) for word in keywords_beside}
            kept = tuple(word for word in shared if word in beside)
        if tags and not tags <= set(map(index_form, tags_of(memory))):
            continue
        if isinstance(memory, ShortTermMemory):
            pairs = zip(keywords, memory.weights, strict=True)
            shared_points = sum(wanted.words[word] + weight for word, weight in pairs if word in wanted.words)
            points = shared_points + memory.score - decay(age_of(memory.time_ms, now_ms), parameters)
        else:
            points = sum(wanted.words[word] for word in shared)
        yield Filtered(conversation_id, memory, points, shared, kept=kept)


def _between(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


# --- figures of many memories together ---------------------------------------------------------------------

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
"""A word that names a day, as nlp/date_words.py writes it. Days and speakers are left out: every memory has some."""

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
    """The figures of `memories`, whose words are `words`, with the `top` heaviest words and most frequent tags. Days
    and function words such as 什么 are left out; `ages` and `hours` show the times."""
    weights: dict[str, float] = defaultdict(float)
    holders: dict[str, int] = defaultdict(int)
    for of_one in words:
        for word, weight in of_one:
            weights[word] += weight
        for word in dict(of_one):  # a record of another program may hold a word twice
            holders[word] += 1
    counting = (
        word
        for word in weights
        if not (_DAY.fullmatch(word) or is_speaker(word) or is_kept(word) or says_little(word.lower()))
    )
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

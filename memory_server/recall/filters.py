"""Filtering memories by words, dates, scores and tags, in an order: without chance and without the rules of recall.

Both kinds are filtered together. A long-term memory has neither score nor age: its relevance is the weight of the words
that it shares. Tags are the `#words` of a memory's text, and the list `tags` that other programs write into a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Literal

from memory_server.core.archive import Archived
from memory_server.core.model import Memory, ShortTermMemory
from memory_server.recall.parameters import RecallParameters
from memory_server.recall.relevance import age_of, decay

SortBy = Literal["relevance", "timestamp", "score"]

_HASHTAG = re.compile(r"(?<![\w/&#])#(?!\d+\b)(\w[\w-]*)")
"""It does not match `#12`, the anchor of an address, or the second # of 微博's `#话题#`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """The conditions that a memory must meet. One of `words` is enough: a keyword of the memory, or a part of its text.
    Both ends of times (milliseconds since 1970) are included. All `tags` are needed (upper or lower case, without `#`).
    A long-term memory has no score, so a condition on the score excludes it."""

    words: Mapping[str, float] = field(default_factory=dict)
    from_ms: int | None = None
    until_ms: int | None = None
    min_score: float | None = None
    max_score: float | None = None
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Filtered:
    """A memory that meets a filter, the conversation that keeps it, and the words of the filter that it holds.
    `removal` says how it was removed, if the search was among removed memories."""

    conversation_id: str
    memory: Memory
    relevance: float
    shared: tuple[str, ...]
    removal: Archived | None = None


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
    """The first `most` (None: all) memories of the conversations that meet the filter, and how many meet it.

    Equal ones come newest first, then by id; memories without a score come last in either order by score.
    """
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
    folded = {word.casefold(): word for word in wanted.words}
    scored = wanted.min_score is not None or wanted.max_score is not None
    for conversation_id, memory in ((name, memory) for name, kept in memories for memory in kept):
        score = memory.score if isinstance(memory, ShortTermMemory) else None
        if not _between(memory.made_ms, wanted.from_ms, wanted.until_ms):
            continue
        if scored and (score is None or not _between(score, wanted.min_score, wanted.max_score)):
            continue
        shared: tuple[str, ...] = ()
        if folded:
            text = memory.text.casefold()
            keywords = memory.words if isinstance(memory, ShortTermMemory) else ()
            shared = tuple(word for key, word in folded.items() if key in text or word in keywords)
            if not shared:
                continue
        if wanted.tags and not wanted.tags <= {tag.casefold() for tag in tags_of(memory)}:
            continue
        if isinstance(memory, ShortTermMemory):
            pairs = zip(memory.words, memory.weights, strict=True)
            shared_points = sum(wanted.words[word] + weight for word, weight in pairs if word in wanted.words)
            points = shared_points + memory.score - decay(age_of(memory.time_ms, now_ms), parameters)
        else:
            points = sum(wanted.words[word] for word in shared)
        yield Filtered(conversation_id, memory, points, shared)


def _between(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)

"""Filtering memories by words, dates, scores and tags, in an order, and figures of many of them together: without
chance and without the rules of recall.

Both kinds are filtered together. A long-term memory has neither score nor age: its relevance is the weight of the words
that it shares. Tags are the `#words` of a memory's text, and the list `tags` that other programs write into a record.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import tzinfo
from heapq import nsmallest
from typing import Any, Literal

from memory_server.conversations.archive import ArchivedMemory
from memory_server.conversations.model import Memory, ShortTermMemory
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.relevance import age_of, decay
from memory_server.kernel.times import DAY_MS, local
from memory_server.kernel.values import dataclass, frozen
from memory_server.lore import LongTermMemory
from nlp import bare, is_kept, is_speaker, says_little
from nlp.index_terms import index_form

SortBy = Literal["relevance", "timestamp", "score"]

_HASHTAG = re.compile(r"(?<![\w/&#])#(?!\d+\b)(\w[\w-]*)")
"""It does not match `#12`, the anchor of an address, or the second # of 微博's `#话题#`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """The conditions that a memory must meet. A single word of `words` is enough: a keyword of the memory, or a part
    of its text. Both ends of times (milliseconds since 1970) are included. All `tags` are needed (without `#`). Upper
    and lower case are the same. A long-term memory has no score and does not meet a condition on it."""

    words: Mapping[str, float] = field(default_factory=dict)
    from_ms: int | None = None
    until_ms: int | None = None
    min_score: float | None = None
    max_score: float | None = None
    tags: frozenset[str] = frozenset()


@frozen
class Filtered:
    """A memory that meets a filter, its conversation, and the words of the filter that it holds. `kept`: which of
    these words are kept with it and are not in its text. `removal`: how it was removed, in a search of removed
    memories."""

    conversation_id: str
    memory: Memory
    relevance: float
    shared: tuple[str, ...]
    removal: ArchivedMemory | None = None
    kept: tuple[str, ...] = ()


def filtered(
    memories: Iterable[tuple[str, Iterable[Memory]]],
    conditions: MemoryFilter,
    *,
    now_ms: int,
    parameters: RecallParameters,
    sort_by: SortBy,
    descending: bool = True,
    most: int | None = None,
) -> tuple[list[Filtered], int]:
    """Return the first `most` memories (all, if it is None) of the conversations that meet the filter, and how many
    meet it. Equal ones come newest first, then by id; memories without a score come last in either order by score."""
    met_count = 0

    def met() -> Iterator[Filtered]:
        nonlocal met_count
        matcher = _Matcher(conditions, now_ms, parameters)
        for conversation_id, memories_there in memories:
            for memory in memories_there:
                match = matcher.match(conversation_id, memory)
                if match is not None:
                    met_count += 1
                    yield match

    sign = -1.0 if descending else 1.0

    def rank_key(match: Filtered) -> tuple[bool, float, int, str, str]:
        score = _score_of(match.memory)
        if sort_by == "relevance":
            value = match.relevance
        elif sort_by == "timestamp":
            value = float(match.memory.made_ms)
        else:
            value = score or 0.0
        is_last = sort_by == "score" and score is None
        return is_last, sign * value, -match.memory.made_ms, match.memory.key, match.conversation_id

    # Keep no more than needed: 100,000 objects at once would start a garbage collection, which stops every thread for a
    # third of a second.
    if most is None:
        first = sorted(met(), key=rank_key)
    else:
        first = nsmallest(most, met(), key=rank_key)
    return first, met_count


def tags_of(memory: Memory) -> tuple[str, ...]:
    """Return the tags of a memory as they are written, without `#`, each once."""
    listed: Any = memory.extra.get("tags")
    tags: list[str] = []
    if isinstance(listed, list):
        tags += [tag.removeprefix("#") for tag in listed if isinstance(tag, str)]
    tags += _HASHTAG.findall(memory.text)
    return tuple(dict.fromkeys(tags))


def _score_of(memory: Memory) -> float | None:
    """Return the score of a memory, or None if its kind has no score."""
    return memory.score if isinstance(memory, ShortTermMemory) else None


class _Matcher:
    """Conditions in the form in which they are compared with many memories."""

    def __init__(self, conditions: MemoryFilter, now_ms: int, parameters: RecallParameters) -> None:
        self._conditions = conditions
        self._now_ms = now_ms
        self._parameters = parameters
        self._words = {index_form(word): word for word in conditions.words}
        self._tags = set(map(index_form, conditions.tags))

    def match(self, conversation_id: str, memory: Memory) -> Filtered | None:
        """Return the memory if it meets all conditions (time, score, any of the words, all tags),
        with its relevance and the words that it shares; else None."""
        conditions = self._conditions
        if not _is_between(memory.made_ms, conditions.from_ms, conditions.until_ms):
            return None
        if not self._score_fits(_score_of(memory)):
            return None

        keywords = self._keywords_of(memory)
        shared: tuple[str, ...] = ()
        if self._words:
            text = index_form("\n".join(_texts_of(memory)))
            shared = tuple(
                word for form, word in self._words.items() if form in text or word in keywords
            )
            if not shared:
                return None

        if self._tags and not self._tags <= set(map(index_form, tags_of(memory))):
            return None
        relevance = self._relevance(memory, keywords, shared)
        return Filtered(
            conversation_id, memory, relevance, shared, kept=self._kept_of(memory, shared)
        )

    def _score_fits(self, score: float | None) -> bool:
        """Tell whether a score is within the bounds. No score is, if there are any bounds."""
        least = self._conditions.min_score
        most = self._conditions.max_score
        if least is None and most is None:
            return True
        return score is not None and _is_between(score, least, most)

    def _counts_other_words(self, memory: ShortTermMemory) -> bool:
        # The Node original, which needs nothing shared, knows no other words.
        return bool(memory.other_words) and self._parameters.must_share

    def _keywords_of(self, memory: Memory) -> tuple[str, ...]:
        """Return the keywords of a memory, including other words if they count."""
        if not isinstance(memory, ShortTermMemory):
            return ()
        if self._counts_other_words(memory):
            return tuple(map(bare, memory.words))
        return memory.words

    def _kept_of(self, memory: Memory, shared: Iterable[str]) -> tuple[str, ...]:
        """Return the shared words that are only kept with the memory."""
        if not isinstance(memory, ShortTermMemory) or not self._counts_other_words(memory):
            return ()
        kept_words = {bare(word) for word in memory.words if is_kept(word)}
        return tuple(word for word in shared if word in kept_words)

    def _relevance(self, memory: Memory, keywords: Sequence[str], shared: Iterable[str]) -> float:
        """Return the points of the shared words; of a short-term memory with their weights in it, its score and its
        decay."""
        weights = self._conditions.words
        if not isinstance(memory, ShortTermMemory):
            return sum(weights[word] for word in shared)
        keyword_weights = zip(keywords, memory.weights, strict=True)
        points = sum(weights[word] + weight for word, weight in keyword_weights if word in weights)
        return points + memory.score - decay(age_of(memory.time_ms, self._now_ms), self._parameters)


def _texts_of(memory: Memory) -> tuple[str, ...]:
    """Return the texts in which words are looked for: the text of a memory, and what was done in its turn."""
    if isinstance(memory, ShortTermMemory):
        return (memory.text, *memory.work.texts)
    return (memory.text,)


def _is_between(value: float, least: float | None, most: float | None) -> bool:
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
SCORES: tuple[tuple[str, float], ...] = (
    ("negative", 0.0),
    ("low", 10.0),
    ("medium", 30.0),
    ("high", float("inf")),
)
"""Bands of score with the points at which each ends (the Node original's)."""

_DAY = re.compile(r"\d{1,2}月\d{1,2}日")
"""A word that names a day, as nlp/date_words.py writes it. Days and speakers are left out: every memory has some."""

Words = Sequence[tuple[str, float]]
"""Words of a memory with their weights."""


@frozen
class CommonWord:
    """A word, the sum of its weights in the memories that hold it, and the number of these memories."""

    word: str
    weight: float
    memories: int


@frozen
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
    """Compute the figures of `memories`, whose words are `words`, with the `top` heaviest words and most frequent
    tags. Days and function words such as 什么 are left out; `ages` and `hours` show the times."""
    weights: dict[str, float] = defaultdict(float)
    holders: dict[str, int] = defaultdict(int)
    for memory_words in words:
        for word, weight in memory_words:
            weights[word] += weight
        for word in dict(memory_words):  # a record of another program may hold a word twice
            holders[word] += 1
    heaviest = nsmallest(top, filter(_is_shown, weights), key=lambda word: (-weights[word], word))

    tags: Counter[str] = Counter()
    for memory in memories:
        tags.update(tags_of(memory))

    times = [memory.made_ms for memory in memories]
    hours = Counter(local(time_ms, zone).hour for time_ms in times)

    # Only short-term memories have a score and a pin.
    short_term = [memory for memory in memories if isinstance(memory, ShortTermMemory)]
    average_score: float | None = None
    if short_term:
        average_score = sum(memory.score for memory in short_term) / len(short_term)

    return Overview(
        total=len(memories),
        average_score=average_score,
        scores=_banded((memory.score for memory in short_term), SCORES),
        words=tuple(CommonWord(word, weights[word], holders[word]) for word in heaviest),
        tags=dict(tags.most_common(top)),
        ages=_banded((max(0, now_ms - time_ms) for time_ms in times), AGES),
        hours=tuple(hours[hour] for hour in range(24)),
        never_recalled=sum(memory.score <= 0 for memory in short_term),
        pinned=sum(memory.pinned for memory in short_term),
    )


def _is_shown(word: str) -> bool:
    """Return whether figures name a word. They leave out days, speakers, words that are only kept, and function
    words."""
    return not (
        _DAY.fullmatch(word) or is_speaker(word) or is_kept(word) or says_little(word.lower())
    )


def _banded(values: Iterable[float], bands: tuple[tuple[str, float], ...]) -> dict[str, int]:
    """Count the values in each band."""
    counts = {name: 0 for name, _end in bands}
    for value in values:
        band = next(name for name, end in bands if value < end)
        counts[band] += 1
    return counts

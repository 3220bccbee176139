"""The result of a search: the memories of each tier with their receipts, what was held back, and what an answer used.

An answer used a memory if it has a rare word of that memory that the question did not have. A word is rare if few
memories hold it: common words are in every answer. If an answer uses a memory in other words, this is not seen, and the
memory misses some points. A memory credited by mistake would come more and more often, which is worse.

Measured on the development part of LoCoMo (399 questions). With answers of one sentence, 40 % of the memories that hold
the answer are credited, and 1 % of the others; with ten sentences of other talk in the answer, 47 % and 8 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from memory_server.core.changes import Reinforced
from memory_server.core.model import Message, ShortTermMemory
from memory_server.recall.parameters import RecallParameters
from memory_server.recall.relevance import Receipt
from memory_server.recall.words import Query, Wording
from nlp.stems import says_little

RARE_SHARE, RARE_LEAST = 0.01, 2
"""A word is rare if at most this share of the memories hold it, or at most this many."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that came to mind, and why. `kept_in` is the conversation that holds it; None: the searched one."""

    memory: ShortTermMemory
    receipt: Receipt
    kept_in: str | None = None


@dataclass(frozen=True, slots=True)
class HeldBack:
    """How many memories a rule held back: `recent` and `in_context` by sessions.py, irrelevant ones included, and
    `adjacent`, which are relevant, by the 10-minute rule while there was still a free place."""

    recent: int
    adjacent: int
    in_context: int = 0


@dataclass(frozen=True, slots=True)
class Recall:
    """The result of one search for `query` among `searched` memories."""

    top: tuple[Recalled, ...]
    next: tuple[Recalled, ...]
    flashback: tuple[Recalled, ...]
    held_back: HeldBack
    searched: int
    query: Query = field(default_factory=Query)

    def gains(self, parameters: RecallParameters) -> Iterator[tuple[Recalled, float]]:
        """The points that each memory gains, before the ceiling of the score: top +5, next +2, flashbacks 0."""
        for tier, points in ((self.top, parameters.top_reinforcement), (self.next, parameters.next_reinforcement)):
            for recalled in tier:
                yield recalled, points


def reinforcements(
    gains: Iterable[tuple[ShortTermMemory, float]], parameters: RecallParameters
) -> tuple[Reinforced, ...]:
    """The changes that give these memories their points, up to the ceiling. A score that cannot rise makes no change,
    so that the search does not have to write."""
    return tuple(
        Reinforced(memory.id, memory.score, after)
        for memory, points in gains
        if (after := min(memory.score + points, parameters.score_ceiling)) > memory.score
    )


def words_said(messages: Sequence[Message], wording: Wording, now_ms: int) -> frozenset[str]:
    """The words of the messages without function words."""
    return frozenset(keyword.word for keyword in wording.of_memory(messages, now_ms) if not says_little(keyword.word))


def used(
    recall: Recall, memories: Iterable[ShortTermMemory], *, asked: frozenset[str], answered: frozenset[str]
) -> Recall:
    """`recall` with only the relevant memories that the answer used. `memories` are the searched ones; `asked` and
    `answered` are the words of the question and of the answer."""
    new = answered - asked
    holders: Counter[str] = Counter()
    count = 0
    for memory in memories:
        count += 1
        if not new.isdisjoint(memory.words):
            holders.update(new.intersection(memory.words))
    rare = {word for word, held in holders.items() if held <= max(RARE_LEAST, RARE_SHARE * count)}

    def kept(tier: Sequence[Recalled]) -> tuple[Recalled, ...]:
        return tuple(recalled for recalled in tier if not rare.isdisjoint(recalled.memory.words))

    return replace(recall, top=kept(recall.top), next=kept(recall.next), flashback=())

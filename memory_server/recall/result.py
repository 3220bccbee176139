"""What a search comes to: the memories of each tier with their receipts, what was held back, and what an answer used.

An answer used a memory where it holds a rare word of it that the question did not have. Rare is what few memories hold:
words that all talk is made of are in any answer. A memory that is used in other words is missed, which costs it some
points; one that is credited by mistake would come more and more often.

On the development part of LoCoMo (399 questions), answers in a sentence: of the memories that hold the answer 40 % are
seen, of the others 1 %; in an answer with ten sentences of other talk, 47 % and 8 %.
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
"""A word is rare where at most this share of the memories hold it, or this many."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that came to mind, and why. `kept_in` is the conversation that holds it; None for the one searched."""

    memory: ShortTermMemory
    receipt: Receipt
    kept_in: str | None = None


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Memories that a rule kept from coming; a search that gives nothing must say so.

    `recent` counts every memory of this conversation that is younger than 20 minutes and not known to be of another
    session, and `in_context` every one that the asking session is known to have in its context; relevant or not, none
    of them could come in any tier. `adjacent` counts the relevant ones within 10 minutes of one that came before
    them, as long as there was still a place.
    """

    recent: int
    adjacent: int
    in_context: int = 0


@dataclass(frozen=True, slots=True)
class Recall:
    """The answer of one search. `searched` is the number of memories looked at, `query` what was searched with."""

    top: tuple[Recalled, ...]
    next: tuple[Recalled, ...]
    flashback: tuple[Recalled, ...]
    held_back: HeldBack
    searched: int
    query: Query = field(default_factory=Query)

    def gains(self, parameters: RecallParameters) -> Iterator[tuple[Recalled, float]]:
        """What each memory that came gains, before the score reaches its ceiling: top +5, next +2; flashbacks none."""
        for tier, points in ((self.top, parameters.top_reinforcement), (self.next, parameters.next_reinforcement)):
            for recalled in tier:
                yield recalled, points


def reinforcements(
    gains: Iterable[tuple[ShortTermMemory, float]], parameters: RecallParameters
) -> tuple[Reinforced, ...]:
    """The changes that make these memories gain these points, up to the ceiling. One whose score cannot rise makes no
    change, so that a search need not write."""
    return tuple(
        Reinforced(memory.id, memory.score, after)
        for memory, points in gains
        if (after := min(memory.score + points, parameters.score_ceiling)) > memory.score
    )


def words_said(messages: Sequence[Message], wording: Wording, now_ms: int) -> frozenset[str]:
    """The words of the messages that say something by themselves."""
    return frozenset(keyword.word for keyword in wording.of_memory(messages, now_ms) if not says_little(keyword.word))


def used(
    recall: Recall, memories: Iterable[ShortTermMemory], *, asked: frozenset[str], answered: frozenset[str]
) -> Recall:
    """`recall` with those of its relevant memories alone that the answer used. `memories` are those that were searched,
    `asked` and `answered` the words of the question and of the answer."""
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

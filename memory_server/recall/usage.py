"""Which recalled memories an answer used, so that a search that nobody asked for strengthens those alone.

An answer used a memory where it holds a rare word of it that the question did not have. Rare is what few memories hold:
words that all talk is made of are in any answer. A memory that is used in other words is missed, which costs it some
points; one that is credited by mistake would come more and more often.

On the development part of LoCoMo (399 questions), answers in a sentence: of the memories that hold the answer 40 % are
seen, of the others 1 %; in an answer with ten sentences of other talk, 47 % and 8 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from memory_server.core.model import Message, ShortTermMemory
from memory_server.recall.result import Recall, Recalled
from memory_server.recall.words import Wording
from nlp.stems import says_little

RARE_SHARE, RARE_LEAST = 0.01, 2
"""A word is rare where at most this share of the memories hold it, or this many."""


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

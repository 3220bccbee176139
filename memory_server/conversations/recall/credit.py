"""Which recalled memories an answer used: they share rare words with it that nobody had said before. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.order import Recalled
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.messages import Message
from nlp import is_incidental, is_kept, is_speaker, says_little

# An answer used a memory if it has a rare word of that memory that the question did not have. A word is rare if few
# memories hold it: common words are in every answer. If an answer uses a memory in other words, this is not seen, and
# the memory misses some points. A memory credited by mistake would come more and more often, which is worse.
#
# Measured on the development part of LoCoMo (399 questions). With answers of one sentence, 40 % of the memories that
# hold the answer are credited, and 1 % of the others; with ten sentences of other talk in the answer, 47 % and 8 %.

RARE_SHARE, RARE_LEAST = 0.01, 2
"""A word is rare if at most this share of the memories hold it, or at most this many."""


def words_said(messages: Sequence[Message], wording: KeywordOptions, now_ms: int) -> frozenset[str]:
    words = (keyword.word for keyword in wording.of_memory(messages, now_ms))
    return frozenset(
        word for word in words if not (says_little(word) or is_incidental(word) or is_speaker(word) or is_kept(word))
    )


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

"""Which recalled memories an answer used: they share rare words with it that were not said before. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.order import Recalled, says_something
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.messages import Message

# An answer used a memory if it has a rare word of that memory that the question did not have. A word is rare if few
# memories hold it: common words are in every answer. If an answer uses a memory in other words, this is not seen, and
# the memory misses some points. A memory credited by mistake would come more and more often, which is worse.
#
# Measured on the development part of LoCoMo (399 questions). With answers of a single sentence, 40 % of the memories that
# hold the answer are credited, and 1 % of the others; with ten sentences of other talk in the answer, 47 % and 8 %.

RARE_SHARE = 0.01
"""A word is rare if at most this share of the memories hold it."""
RARE_LEAST = 2
"""A word that at most this many memories hold is rare too."""


def words_said(messages: Sequence[Message], wording: KeywordOptions, now_ms: int) -> frozenset[str]:
    """Return the words of the messages that say something."""
    words = (keyword.word for keyword in wording.of_memory(messages, now_ms))
    return frozenset(filter(says_something, words))


def used(
    recall: Recall,
    memories: Iterable[ShortTermMemory],
    *,
    asked: frozenset[str],
    answered: frozenset[str],
) -> Recall:
    """Return `recall` without flashbacks, and of the others only the ones that the answer used: the ones that hold a rare
    word of the answer that the question did not have. `memories` are the searched ones; `asked` and `answered` are
    the words of the question and of the answer."""
    new_words = answered - asked
    holders: Counter[str] = Counter()
    memory_count = 0
    for memory in memories:
        memory_count += 1
        if not new_words.isdisjoint(memory.words):
            holders.update(new_words.intersection(memory.words))
    most_holders = max(RARE_LEAST, RARE_SHARE * memory_count)
    rare = {word for word, holder_count in holders.items() if holder_count <= most_holders}

    def with_rare_words(tier: Sequence[Recalled]) -> tuple[Recalled, ...]:
        return tuple(recalled for recalled in tier if not rare.isdisjoint(recalled.memory.words))

    return replace(
        recall, top=with_rare_words(recall.top), next=with_rare_words(recall.next), flashback=()
    )

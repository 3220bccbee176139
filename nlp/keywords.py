"""Keywords of a text and of a chat: TF-IDF weights, bit-identical to the Node original.

Source: ``extract`` of @node-rs/jieba 1.10.4 (jieba-rs 0.6.8) and the role weights of the Node original. Three of its
faults are not copied: a Windows line break counted as a word (and reduced the weight of all others), the documented
role weights applied only if they were given, and an explicit role weight of 0 became 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from nlp.lexicon.function_words import STOP_WORDS
from nlp.lexicon.idf import UNKNOWN_WORD_IDF, idf_table
from nlp.segment import engine, segment

TOP_K: Final = 72
"""Keywords kept of a text, and of a list of messages. Source: the Node original."""

MIN_WEIGHT: Final = 0.8
"""Smallest summed weight of a keyword of a list of messages. Source: the Node original."""

ROLE_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {"user": 2.7, "assistant": 2.0, "system": 1.0}
)
"""The factor on a word for the role of its speaker. Source: the Node original's documentation."""

SCALE: Final = 5.0
"""Factor on every TF-IDF weight. Source: the Node original, whose constants 0.8, 5 and 15 need it."""


class Keyword(NamedTuple):
    """A word as it was written, and its weight (no unit; mostly 0.5 to 40)."""

    word: str
    weight: float


class SupportsMessage(Protocol):
    """The parts of a message that matter here: its speaker's role and its text."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> str: ...


class SupportsDatedMessage(SupportsMessage, Protocol):
    """A message that may have the time when it was written, in milliseconds since 1970, and the name of its speaker."""

    @property
    def time_ms(self) -> int | None: ...

    @property
    def name(self) -> str | None: ...


def load() -> None:
    """Load the segmentation engine and the idf table now, from any thread, so that no extraction waits for them: 0.1 s
    with rjieba, 0.7 s with jieba. Raises ImportError without jieba."""
    engine()
    idf_table()


def counts(word: str) -> bool:
    """Whether a word of the segmentation counts: it has two characters or more and is not a stop word."""
    # strip: "\r\n" is the only white space that is a word of two characters.
    return len(word.strip()) >= 2 and word.lower() not in STOP_WORDS


def extract_keywords(text: str) -> list[Keyword]:
    """The 72 heaviest words of `text`, heaviest first, equal weights by code point. weight = (occurrences x idf /
    occurrences of all counted words) x 5. Words of one character and English stop words do not count. Case is kept:
    "Python" and "python" are two words. A text without words gives []. Takes linear time, about 0.15 ms per 1,000
    characters with rjieba and 1.6 ms with jieba, and holds the interpreter lock most of that time: the caller must
    bound the length."""
    return weighted(Counter(filter(counts, segment(text))))


def weighted(occurrences: Counter[str]) -> list[Keyword]:
    """The 72 heaviest of these words, as `extract_keywords` weighs and orders them."""
    if not occurrences:
        return []
    idf = idf_table()
    total = occurrences.total()
    # The order of operations, and sorting before scaling, decide the last bit and the order of near ties.
    ranked = [
        (count * idf.get(word, UNKNOWN_WORD_IDF) / total, word)
        for word, count in occurrences.items()
    ]
    # As sorted(ranked, key=heaviest_first)[:TOP_K], which would hold the interpreter lock while it sorts.
    return [
        Keyword(word, weight * SCALE)
        for weight, word in nsmallest(TOP_K, ranked, key=heaviest_first)
    ]


def extract_message_keywords(
    messages: Iterable[SupportsMessage], role_weights: Mapping[str, float] = ROLE_WEIGHTS
) -> list[Keyword]:
    """The 72 heaviest words of a chat, heaviest first, equal weights by code point. The 72 keywords of each message are
    multiplied by the weight of its role and summed per word, in the order of the messages; words whose sum is below 0.8
    are dropped. A role that `role_weights` does not name has its weight in ROLE_WEIGHTS, or 1 if it is not there; an
    explicit 0 silences a role."""
    sums: dict[str, float] = {}
    for message in messages:
        role_weight = role_weight_of(message.role, role_weights)
        for word, weight in extract_keywords(message.content):
            sums[word] = sums.get(word, 0.0) + weight * role_weight
    heavy = [(weight, word) for word, weight in sums.items() if weight >= MIN_WEIGHT]
    heavy.sort(key=heaviest_first)
    return [Keyword(word, weight) for weight, word in heavy[:TOP_K]]


def role_weight_of(role: str, role_weights: Mapping[str, float]) -> float:
    """The factor on words of `role`: that in `role_weights`, else that in ROLE_WEIGHTS, else 1."""
    return role_weights.get(role, ROLE_WEIGHTS.get(role, 1.0))


def heaviest_first(weighted: tuple[float, str]) -> tuple[float, str]:
    """A key that sorts (weight, word): heaviest first, equal weights by code point."""
    weight, word = weighted
    return -weight, word

"""Keywords of a text and of a chat: TF-IDF weights, bit-identical to the Node original.

Source: ``extract`` of @node-rs/jieba 1.10.4 (jieba-rs 0.6.8) and the role weights of the Node original. Three of its
faults are not copied: a Windows line break counted as a word (and reduced the weight of all others), the documented
role weights applied only if they were given, and an explicit role weight of 0 became 1.

Text becomes words by jieba's dictionary segmentation without HMM. Two engines give the same words: ``rjieba`` (Rust,
about eight times faster, ready sooner) if it can be imported, else ``jieba`` (pure Python); the first use imports one.
They agree only without the HMM, which the Node original does not use for keywords either.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol

from nlp.lexicon import STOP_WORDS
from nlp.lexicon.idf import UNKNOWN_WORD_IDF, idf_table
from nlp.once import Once

# Segmentation

EngineName = Literal["rjieba", "jieba"]


class Engine(NamedTuple):
    """One way to segment. ``cut`` splits well-formed text into words; joined, they are the text again."""

    name: EngineName
    cut: Callable[[str], list[str]]


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """Return `text` with U+FFFD for each lone surrogate, as JavaScript's ``String.toWellFormed`` does. A high surrogate
    followed by a low one becomes the character that they encode. JSON may have a lone surrogate (half an emoji, cut by
    a length limit), which is not valid Unicode, and rjieba refuses it."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def open_rjieba() -> Engine:
    """Load the Rust engine and its built-in dictionary (0.1 s holding the interpreter lock, 36 MB). Raises
    ImportError if rjieba does not exist for this machine."""
    import rjieba

    cut = rjieba.cut
    return Engine("rjieba", lambda text: cut(text, False))


def open_jieba() -> Engine:
    """Load the pure-Python engine and its dictionary (0.6 s, 80 MB). Raises ImportError without jieba.
    Does not use jieba's cache file: it has a predictable name in the shared temporary folder and jieba loads it without
    a check, so another user could plant words in it."""
    with warnings.catch_warnings():
        # jieba 0.42.1 (2020) byte-compiles with invalid escapes on Python 3.12+ and tries pkg_resources.
        warnings.simplefilter("ignore")
        import jieba

        tokenizer = jieba.Tokenizer()
        # As Tokenizer.initialize, but without its log lines on stderr and its cache; after this, the tokenizer
        # does not call it.
        tokenizer.FREQ, _ = tokenizer.gen_pfdict(tokenizer.get_dict_file())
        # jieba's own total counts a word that is twice in dict.txt (B超) twice; the Rust engine counts it once.
        # This difference of 3 in 60 million changes how ties are rounded: 200 times "哈" was cut in another way.
        tokenizer.total = sum(tokenizer.FREQ.values())
        tokenizer.initialized = True
    return Engine("jieba", lambda text: tokenizer.lcut(text, cut_all=False, HMM=False))


def _open_engine() -> Engine:
    try:
        return open_rjieba()
    except ImportError:
        return open_jieba()


engine: Final = Once(_open_engine)
"""The engine of this process. The first call loads it."""


def engine_name() -> EngineName:
    """Return the name of the engine of this process; loads it if necessary."""
    return engine().name


def segment(text: str) -> list[str]:
    """Return the words of `text` in order, punctuation and white space included; "" gives []. Lone surrogates become
    U+FFFD. Takes linear time, about 0.1 ms per 1,000 characters with rjieba and 1.5 ms with jieba, and holds the
    interpreter lock. The caller must bound the length."""
    return engine().cut(well_formed(text))


# Keywords of a text and of a chat

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


def is_loaded() -> bool:
    """Return whether the segmentation engine and the idf table are there, so that no extraction waits for them."""
    return engine.is_made and idf_table.is_made


def counts(word: str) -> bool:
    """Return whether a word of the segmentation counts: it has two characters or more and is not a stop word."""
    # strip: "\r\n" is the only white space that is a word of two characters.
    return len(word.strip()) >= 2 and word.lower() not in STOP_WORDS


def extract_keywords(text: str) -> list[Keyword]:
    """Return the 72 heaviest words of `text`, heaviest first, equal weights by code point. weight = (occurrences x
    idf / occurrences of all counted words) x 5. Single characters and English stop words do not count. Case is kept:
    "Python" and "python" are two words. A text without words gives []. Takes linear time, about 0.15 ms per 1,000
    characters with rjieba and 1.6 ms with jieba, and holds the interpreter lock most of that time: the caller must
    bound the length."""
    return weighted(Counter(filter(counts, segment(text))))


def weighted(occurrences: Counter[str]) -> list[Keyword]:
    """Return the 72 heaviest of these words, as `extract_keywords` weighs and orders them: how
    often a word occurs, times how rare it is."""
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
    """Return the 72 heaviest words of a chat, heaviest first, equal weights by code point. The 72 keywords of each
    message are multiplied by the weight of its role and summed per word, in the order of the messages; words whose
    sum is below 0.8 are dropped. A role that `role_weights` does not name has its weight in ROLE_WEIGHTS, or 1 if it
    is not there; an explicit 0 silences a role."""
    sums: dict[str, float] = {}
    for message in messages:
        role_weight = role_weight_of(message.role, role_weights)
        for word, weight in extract_keywords(message.content):
            sums[word] = sums.get(word, 0.0) + weight * role_weight
    heavy = [(weight, word) for word, weight in sums.items() if weight >= MIN_WEIGHT]
    heavy.sort(key=heaviest_first)
    return [Keyword(word, weight) for weight, word in heavy[:TOP_K]]


def role_weight_of(role: str, role_weights: Mapping[str, float]) -> float:
    """Return the factor on words of `role`: from `role_weights`, else from ROLE_WEIGHTS, else 1."""
    return role_weights.get(role, ROLE_WEIGHTS.get(role, 1.0))


def heaviest_first(weighted: tuple[float, str]) -> tuple[float, str]:
    """Return a key that sorts (weight, word): heaviest first, equal weights by code point."""
    weight, word = weighted
    return -weight, word

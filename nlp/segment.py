"""Text to words: jieba's dictionary segmentation without HMM, by the engine that this machine has.

Two engines give the same words: ``rjieba`` (Rust, about eight times faster, ready sooner) if it can be imported,
else ``jieba`` (pure Python); the first use imports one. They agree only without the HMM, which the Node original does
not use for keywords either. Does not know about weights.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from nlp.once import Once

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
    """Load the Rust engine and its built-in dictionary (0.1 s holding the interpreter lock, 36 MB). Raises ImportError
    where there is no rjieba for this machine."""
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

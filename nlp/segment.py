"""Text to words: jieba's dictionary segmentation without HMM, by whichever engine this machine has.

Two engines give the same words: ``rjieba`` (Rust, about eight times faster, ready sooner) where it imports,
else ``jieba`` (pure Python). They agree only with the HMM off, which is also what the Node original's keyword
extraction does; with it on, the words stored in a memory would depend on the machine. Knows nothing of
weights.

Importing this module imports neither engine.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from nlp.once import Once

EngineName = Literal["rjieba", "jieba"]


class Engine(NamedTuple):
    """One way to segment. ``cut`` turns well-formed text into its words, which joined are that text."""

    name: EngineName
    cut: Callable[[str], list[str]]


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """Return `text` with U+FFFD for each lone surrogate, as JavaScript's ``String.toWellFormed`` does.

    A high and a low surrogate side by side are one character that was written as two, and become that
    character. JSON may carry a lone one (half an emoji, cut by a length limit); rjieba cannot take it, since
    it is no Unicode text.
    """
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def open_rjieba() -> Engine:
    """Load the Rust engine and its built-in dictionary (0.1 s holding the interpreter lock, 36 MB).

    Raises:
        ImportError: there is no rjieba for this machine.
    """
    import rjieba

    cut = rjieba.cut
    return Engine("rjieba", lambda text: cut(text, False))


def open_jieba() -> Engine:
    """Load the pure-Python engine and its dictionary (0.6 s, 80 MB).

    Nothing is printed and jieba's cache file is neither read nor written: it lies under a predictable name in
    the shared temporary folder and is unmarshalled unseen, so whoever writes there first decides how this
    process segments, and reading it is no faster than parsing the dictionary.

    Raises:
        ImportError: jieba is not installed.
    """
    with warnings.catch_warnings():
        # jieba 0.42.1 (2020) byte-compiles with invalid escapes on Python 3.12+ and tries pkg_resources.
        warnings.simplefilter("ignore")
        import jieba

        tokenizer = jieba.Tokenizer()
        # What Tokenizer.initialize does, without its log lines on stderr and its cache; once it is done, no
        # method of the tokenizer calls that any more.
        tokenizer.FREQ, _ = tokenizer.gen_pfdict(tokenizer.get_dict_file())
        # jieba's own total counts the one word that is twice in dict.txt (B超) twice; the Rust engine does
        # not. Those 3 in 60 million decide how ties round: "哈" 200 times over came out in another order.
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
    """Return which engine segments here, loading it if nothing has yet."""
    return engine().name


def segment(text: str) -> list[str]:
    """Return the words of `text` in order, punctuation and white space included; "" gives [].

    Lone surrogates come back as U+FFFD. Time is linear in the length and the interpreter lock is held
    meanwhile: about 0.1 ms per 1,000 characters with rjieba, 1.5 ms with jieba. Bounding the length is the
    caller's business.
    """
    return engine().cut(well_formed(text))

"""Stems: `websockets` is found by `websocket`, `пироги` by `пирог`. Snowball's stemmers for English and Russian. Pure.

Words of other scripts have no stems: Chinese has no endings, and grams.py finds Japanese and Korean words.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from nlp.lexicon.day_words import DAY_WORDS
from nlp.lexicon.function_words import FUNCTION_WORDS, QUESTION_WORDS, STOP_WORDS
from nlp.once import Once

_CYRILLIC: Final = re.compile("[\u0400-\u04ff]+")


class _Stemmers(threading.local):
    """The stemmers of a thread: two threads must not use a PyStemmer object at the same time."""

    def __init__(self) -> None:
        # Imported late: most processes answer before they need a stem.
        from Stemmer import Stemmer

        self.english: Callable[[str], str] = Stemmer("english", 0).stemWord
        self.russian: Callable[[str], str] = Stemmer("russian", 0).stemWord


_stemmers: Final = Once(_Stemmers)


@lru_cache(maxsize=65_536)  # the words of some 5,000 memories, about 10 MB
def stem(word: str) -> str:
    """The stem of a lower-case word. Only ASCII and Cyrillic words have stems; any other word is returned unchanged."""
    if word.isascii():
        if word.isalpha():
            return _stemmers().english(word)
    elif _CYRILLIC.fullmatch(word):
        return _stemmers().russian(word)
    return word


def says_little(word: str) -> bool:
    """Whether a lower-case word or stem says little by itself: `does`, `doe`, `什么`."""
    return word in _LITTLE()


def says_when(word: str) -> bool:
    """Whether a lower-case word or stem only says when: `now`, `monday`, `刚才`."""
    return word in _DAY_WORDS()


def only_asks(word: str) -> bool:
    """Whether a lower-case word or stem only asks: `what`."""
    return word in _QUESTION_WORDS()


def is_incidental(word: str) -> bool:
    """Whether a lower-case word or stem stands in sentences about anything, so that it is never enough alone."""
    return says_when(word) or only_asks(word)


def _with_stems(words: frozenset[str]) -> frozenset[str]:
    return words | frozenset(map(stem, words))


_LITTLE: Final = Once(lambda: _with_stems(FUNCTION_WORDS | STOP_WORDS))
_DAY_WORDS: Final = Once(lambda: _with_stems(DAY_WORDS))
_QUESTION_WORDS: Final = Once(lambda: _with_stems(QUESTION_WORDS))

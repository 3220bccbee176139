"""Other words, which a caller gives: for what a search looks for, and for what a memory may be asked for by. Pure.

A caller is mostly a language model, which knows that 安眠药 may be 曲唑酮. Words of a search are terms of the query,
each with the number of the text that it is from. Words that are kept with a memory are words of it with a mark, so that
they are never taken for words of its text, as the names of its speakers are (`is_speaker`). A text of which no word is
known, such as 曲唑酮, counts by its pairs of characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from nlp.enrichment import QueryTerm, gram_weight, normal_form, word_weight, words_in
from nlp.grams import grams_of
from nlp.keywords import ROLE_WEIGHTS, Keyword
from nlp.stems import is_incidental, says_little
from nlp.word_options import Enrichment, QueryWeights

MOST_TEXTS: Final = 40
"""Texts that one call may give."""
MOST_TEXT_CHARS: Final = 60
"""Characters of each of these."""
_MARK: Final = "\ufdd0"
"""The end of a word that is kept with a memory: a character that Unicode assigns to nothing, so no text has it."""
_ROLE_WEIGHT: Final = ROLE_WEIGHTS["user"]
"""They count as if a user had said them."""


class _Terms(NamedTuple):
    """The words of a text that say something; its pairs of characters, if it has no such word."""

    words: tuple[str, ...]
    pairs: tuple[str, ...]


def kept(word: str) -> str:
    """The word of a memory by which `word` finds it, if `word` is kept with it and is not in its text."""
    return word + _MARK


def is_kept(word: str) -> bool:
    """Whether a word of a memory is kept with it, and is not in its text."""
    return word.endswith(_MARK)


def bare(word: str) -> str:
    """A word of a memory without such a mark."""
    return word.removesuffix(_MARK)


def kept_keywords(texts: Sequence[str], options: Enrichment, known: Iterable[str]) -> list[Keyword]:
    """The keywords of the texts that are kept with a memory, without the `known` words of its text. The Node original
    knows no such words."""
    if not (texts and options.signature):
        return []
    terms = [_terms_of(text, options) for text in texts]
    words, pairs = _counts(terms)
    own = set(known)
    weights = {pair: gram_weight(pairs) * _ROLE_WEIGHT for one in terms for pair in one.pairs}
    weights |= {word: word_weight(word, words) * _ROLE_WEIGHT for one in terms for word in one.words}
    return [Keyword(kept(word), weight) for word, weight in weights.items() if word not in own]


def given_terms(
    texts: Sequence[str], options: Enrichment, weights: QueryWeights, factor: float
) -> tuple[dict[str, QueryTerm], dict[str, QueryTerm]]:
    """The words that a caller gave for a search, and the pairs of characters of texts without a known word, with
    `factor` on their points."""
    if not (texts and options.signature and factor):
        return {}, {}
    terms = [_terms_of(text, options) for text in texts]
    words, pairs = _counts(terms)
    found: dict[str, QueryTerm] = {}
    grams: dict[str, QueryTerm] = {}
    for number, one in enumerate(terms, 1):
        for word in one.words:
            found.setdefault(word, QueryTerm(word_weight(word, words) * _ROLE_WEIGHT, factor, given=number))
        # Of a text without a known word, such as 曲唑酮, the pairs stand for the word.
        pair_factor = factor * (weights.pairs if one.words else 1.0)
        for pair in one.pairs if weights.pairs else ():
            grams.setdefault(pair, QueryTerm(gram_weight(pairs) * _ROLE_WEIGHT, pair_factor, given=number))
    return found, grams


def _counts(terms: Iterable[_Terms]) -> tuple[int, int]:
    """How many words, and how many pairs, all texts have together."""
    sizes = [(len(one.words), len(one.pairs)) for one in terms]
    return sum(words for words, _pairs in sizes), sum(pairs for _words, pairs in sizes)


@lru_cache(maxsize=4_096)
def _terms_of(text: str, options: Enrichment) -> _Terms:
    words = words_in(text, replace(options, dates=False), now_ms=0)
    telling = tuple(word for word in words if not (is_incidental(word) or says_little(word)))
    grams, _count = grams_of(normal_form(text, options))
    pairs = tuple(gram for gram in grams if len(gram) == 2 and not says_little(gram) and gram not in telling)
    return _Terms(telling, pairs)

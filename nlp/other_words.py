"""Other words, which a caller gives: for what a search looks for, and for what a memory may be asked for by. Pure.

A caller is mostly a language model, which knows that 安眠药 may be 曲唑酮. Words of a search are terms of the query,
each with the number of the text that it is from. Words that are kept with a memory are words of it with a mark, so that
they are never taken for words of its text, as the names of its speakers are (`is_speaker`). A text without a word of
the dictionary, such as 曲唑酮, counts by its pairs of characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from nlp.enrichment import gram_weight, normal_form, word_weight, words_in
from nlp.grams import grams_of
from nlp.keywords import ROLE_WEIGHTS, Keyword
from nlp.query_terms import QueryTerm
from nlp.stems import is_incidental, says_little
from nlp.word_options import Enrichment, QueryWeights

MOST_TEXTS: Final = 40
"""Texts that one call may give."""
MOST_TEXT_CHARS: Final = 60
"""Characters of each of these."""
_MARK: Final = "\ufdd0"
"""The end of a word that is kept with a memory: a character that Unicode assigns to nothing, so no text has it."""
_ROLE_WEIGHT: Final = ROLE_WEIGHTS["user"]
"""The weight of other words: they count as if a user had said them."""


class _Terms(NamedTuple):
    """The words of a text that say something, and those of its pairs of characters that are no such word."""

    words: tuple[str, ...]
    pairs: tuple[str, ...]


class _Weights(NamedTuple):
    """The weights of the other words of several texts: the more these have together, the less each one weighs."""

    word_count: int
    pair_count: int

    def of_word(self, word: str) -> float:
        return word_weight(word, self.word_count) * _ROLE_WEIGHT

    def of_pair(self) -> float:
        return gram_weight(self.pair_count) * _ROLE_WEIGHT


def kept(word: str) -> str:
    """The word of a memory by which `word` finds it, if `word` is kept with it and is not in its text."""
    return word + _MARK


def is_kept(word: str) -> bool:
    """Whether a word of a memory is kept with it, and is not in its text."""
    return word.endswith(_MARK)


def bare(word: str) -> str:
    """A word of a memory without such a mark."""
    return word.removesuffix(_MARK)


def kept_keywords(
    texts: Sequence[str], options: Enrichment, words_of_memory: Iterable[str]
) -> list[Keyword]:
    """The keywords of the texts that are kept with a memory, without `words_of_memory`, those of its own text. The
    Node original knows no such words."""
    if not (texts and options.signature):
        return []
    terms_by_text = [_terms_of(text, options) for text in texts]
    weights = _weights_of(terms_by_text)
    weight_by_word: dict[str, float] = {}
    for terms in terms_by_text:
        for pair in terms.pairs:
            weight_by_word[pair] = weights.of_pair()
    for terms in terms_by_text:
        for word in terms.words:
            weight_by_word[word] = weights.of_word(word)
    excluded = set(words_of_memory)
    return [
        Keyword(kept(word), weight)
        for word, weight in weight_by_word.items()
        if word not in excluded
    ]


def given_terms(
    texts: Sequence[str], options: Enrichment, weights: QueryWeights, factor: float
) -> tuple[dict[str, QueryTerm], dict[str, QueryTerm]]:
    """The words that a caller gave for a search, and the pairs of characters of texts without a known word, with
    `factor` on their points."""
    if not (texts and options.signature and factor):
        return {}, {}
    terms_by_text = [_terms_of(text, options) for text in texts]
    term_weights = _weights_of(terms_by_text)
    words: dict[str, QueryTerm] = {}
    grams: dict[str, QueryTerm] = {}
    for number, terms in enumerate(terms_by_text, 1):
        for word in terms.words:
            words.setdefault(word, QueryTerm(term_weights.of_word(word), factor, given=number))
        if weights.pairs:
            pair_factor = factor
            # The pairs of a text without such a word, such as 曲唑酮, stand for the word.
            if terms.words:
                pair_factor *= weights.pairs
            for pair in terms.pairs:
                grams.setdefault(pair, QueryTerm(term_weights.of_pair(), pair_factor, given=number))
    return words, grams


def _weights_of(terms_by_text: Sequence[_Terms]) -> _Weights:
    word_count = sum(len(terms.words) for terms in terms_by_text)
    pair_count = sum(len(terms.pairs) for terms in terms_by_text)
    return _Weights(word_count, pair_count)


@lru_cache(maxsize=4_096)
def _terms_of(text: str, options: Enrichment) -> _Terms:
    all_words = words_in(text, replace(options, dates=False), now_ms=0)
    words = tuple(word for word in all_words if not (is_incidental(word) or says_little(word)))
    grams, _count = grams_of(normal_form(text, options))
    pairs = [gram for gram in grams if len(gram) == 2 and not says_little(gram)]
    return _Terms(words, tuple(pair for pair in pairs if pair not in words))

"""Other words, which a caller gives: for what a search looks for, and for what a memory may be asked for by. Pure.

A caller is mostly a language model, which knows that 安眠药 may be 曲唑酮. Words of a search are terms of the query,
each with the number of the text that it is from. Words that are kept with a memory are words of it with a mark, so that
they are never taken for words of its text, as the names of its speakers are (`is_speaker`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nlp.enrichment import QueryTerm, normal_form, sought_grams, sought_words, words_in
from nlp.keywords import Keyword
from nlp.stems import says_little
from nlp.word_options import Enrichment, QueryWeights

MOST_TEXTS: Final = 40
"""Texts that one call may give."""
MOST_TEXT_CHARS: Final = 60
"""Characters of each of these."""
_MARK: Final = "≈"
"""The end of a word that is kept with a memory. No segmentation makes a word that ends so."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """The texts as one message of the user, without a time."""

    content: str
    role: str = "user"
    name: str | None = None
    time_ms: int | None = None


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
    texts: Sequence[str], options: Enrichment, known: Iterable[str], *, names: Sequence[str] = ()
) -> list[Keyword]:
    """The keywords of the texts that are kept with a memory, heaviest first, without the `known` words of its text. The
    Node original knows no such words."""
    if not (texts and options.signature):
        return []
    words = _terms(texts, options, names)
    own = set(known)
    return [Keyword(kept(word), term.weight) for word, term in words.items() if word not in own]


def given_terms(
    texts: Sequence[str], options: Enrichment, weights: QueryWeights, factor: float, *, names: Sequence[str] = ()
) -> tuple[dict[str, QueryTerm], dict[str, QueryTerm]]:
    """The words and the pairs of characters that a caller gave for a search, with `factor` on their points."""
    if not (texts and options.signature and factor):
        return {}, {}
    words = _terms(texts, options, names)
    grams = sought_grams([_Texts("\n".join(texts))], options, weights) if weights.pairs else {}
    pairs = {gram: term for gram, term in grams.items() if len(gram) == 2}  # a single character says too little
    texts_of_words = [frozenset(words_in(text, options, now_ms=0)) for text in texts]
    forms = [normal_form(text, options) for text in texts]

    def given(terms: Mapping[str, QueryTerm], holders: Sequence[frozenset[str] | str]) -> dict[str, QueryTerm]:
        number = {term: _first_with(term, holders) for term in terms}
        return {
            term: one._replace(factor=one.factor * factor, telling=True, given=number[term])
            for term, one in terms.items()
        }

    return given(words, texts_of_words), given(pairs, forms)


def _terms(texts: Sequence[str], options: Enrichment, names: Sequence[str]) -> dict[str, QueryTerm]:
    """The words of the texts, which say something by themselves."""
    terms = sought_words([_Texts("\n".join(texts))], options, QueryWeights(), now_ms=0, names=names)
    return {word: term for word, term in terms.items() if not (term.when or term.asks or says_little(word))}


def _first_with(term: str, holders: Sequence[frozenset[str] | str]) -> int:
    """The number of the first text that has a term, from 1."""
    return next((number for number, holder in enumerate(holders, 1) if term in holder), 1)

"""English words of a query that no memory has: a word of the memories that is one letter away stands for each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.words import RecallQuery
from nlp import QueryTerm

_LEAST_LETTERS = 5
"""A shorter word is one letter away from too many others."""


class Vocabulary:
    """Words, and those of them that are spelt alike."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words: set[str] = set()
        self._alike: dict[tuple[str, int], list[str]] = {}
        """The words that may be misspelt, by first letter and length."""
        for word in words:
            if word not in self._words:
                self.add(word)

    def add(self, word: str) -> None:
        """Add a word that is not there yet."""
        self._words.add(word)
        if _may_be_misspelt(word):
            self._alike.setdefault((word[0], len(word)), []).append(word)

    def __contains__(self, word: str) -> bool:
        return word in self._words

    def alike(self, word: str) -> Iterator[str]:
        """The words with the same first letter that are one letter away, or have two letters exchanged."""
        for length in (len(word) - 1, len(word), len(word) + 1):
            for similar in self._alike.get((word[0], length), ()):
                if _is_one_edit(word, similar):
                    yield similar


class Words(Protocol):
    """The words of the searched memories, as `Vocabulary` has them."""

    def __contains__(self, word: str) -> bool: ...
    def alike(self, word: str) -> Iterable[str]: ...


def can_be_corrected(query: RecallQuery, parameters: RecallParameters) -> bool:
    """Whether `query` has an English word that may be misspelt: then somebody needs the words of the memories."""
    return bool(parameters.typo_factor) and any(map(_may_be_misspelt, query.words))


def corrected(query: RecallQuery, vocabulary: Words, parameters: RecallParameters) -> RecallQuery:
    """`query` with a word of the memories, `vocabulary`, in place of each English word that no memory has: the first by
    spelling of those that are alike."""
    if not can_be_corrected(query, parameters):
        return query
    terms: dict[str, QueryTerm] = {}
    for word, term in query.words.items():
        if _may_be_misspelt(word) and word not in vocabulary:
            similar = min(vocabulary.alike(word), default=None)
            if similar is not None:
                word = similar
                term = term._replace(factor=term.factor * parameters.typo_factor)
        earlier = terms.setdefault(word, term)
        if earlier.factor < term.factor:
            terms[word] = earlier._replace(factor=term.factor)
    return replace(query, words=terms)


def _may_be_misspelt(word: str) -> bool:
    return len(word) >= _LEAST_LETTERS and word.isascii() and word.isalpha()


def _is_one_edit(word: str, similar: str) -> bool:
    """Whether one letter, not the first, is missing, added, another, or exchanged with the next."""
    shorter_length = min(len(word), len(similar))
    same_count = 0
    while same_count < shorter_length and word[same_count] == similar[same_count]:
        same_count += 1
    rest = word[same_count:]
    similar_rest = similar[same_count:]
    if len(word) != len(similar):
        return rest[1:] == similar_rest or rest == similar_rest[1:]
    is_replaced = rest[1:] == similar_rest[1:]
    is_exchanged = rest[:2] == similar_rest[1::-1] and rest[2:] == similar_rest[2:]
    return is_replaced or is_exchanged

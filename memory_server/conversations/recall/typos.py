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
        sizes = range(len(word) - 1, len(word) + 2)
        return (other for size in sizes for other in self._alike.get((word[0], size), ()) if _one_edit(word, other))


class Words(Protocol):
    """The words of the searched memories, as `Vocabulary` has them."""

    def __contains__(self, word: str) -> bool: ...
    def alike(self, word: str) -> Iterable[str]: ...


def can_be_corrected(query: RecallQuery, parameters: RecallParameters) -> bool:
    """Whether `query` has an English word that may be misspelt: then somebody needs the words of the memories."""
    return bool(parameters.typo_factor) and any(map(_may_be_misspelt, query.words))


def corrected(query: RecallQuery, known: Words, parameters: RecallParameters) -> RecallQuery:
    """`query` with a word of the memories, `known`, in place of each English word that no memory has: the first by
    spelling of those that are alike."""
    if not can_be_corrected(query, parameters):
        return query
    words: dict[str, QueryTerm] = {}
    for word, sought in query.words.items():
        unknown = _may_be_misspelt(word) and word not in known
        meant = min(known.alike(word), default=None) if unknown else None
        if meant is not None:
            word, sought = meant, sought._replace(factor=sought.factor * parameters.typo_factor)
        before = words.setdefault(word, sought)
        if before.factor < sought.factor:
            words[word] = before._replace(factor=sought.factor)
    return replace(query, words=words)


def _may_be_misspelt(word: str) -> bool:
    return len(word) >= _LEAST_LETTERS and word.isascii() and word.isalpha()


def _one_edit(word: str, other: str) -> bool:
    """Whether one letter, not the first, is missing, added, another, or exchanged with the next."""
    size = min(len(word), len(other))
    same = next((place for place in range(size) if word[place] != other[place]), size)
    one, two = word[same:], other[same:]
    if len(word) == len(other):
        return one[1:] == two[1:] or (one[2:] == two[2:] and one[:2] == two[1::-1])
    return one[1:] == two or one == two[1:]

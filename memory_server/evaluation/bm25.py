"""Okapi BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009), the usual plain baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log

K1 = 1.2
"""How soon a repeated term stops counting; the usual value."""
B = 0.75
"""How much a long document is held against it; the usual value."""


class Bm25:
    """An index of documents given as terms; made once, asked often."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._size = len(documents)
        mean = sum(map(len, documents)) / self._size if self._size else 0.0
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for number, terms in enumerate(documents):
            norm = K1 * (1 - B + B * len(terms) / mean) if mean else K1
            for term, count in Counter(terms).items():
                self._postings.setdefault(term, []).append((number, count * (K1 + 1) / (count + norm)))

    def scores(self, terms: Iterable[str]) -> dict[int, float]:
        """Document number -> score, for the documents that hold one of the terms; each term counts once.

        idf = ln(1 + (N − n + 0.5) ÷ (n + 0.5)), the form that is never negative.
        """
        total: dict[int, float] = {}
        for term in dict.fromkeys(terms):
            holding = self._postings.get(term, ())
            idf = log(1 + (self._size - len(holding) + 0.5) / (len(holding) + 0.5))
            for number, weight in holding:
                total[number] = total.get(number, 0.0) + idf * weight
        return total

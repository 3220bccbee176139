"""Okapi BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009), the usual plain baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log

import numpy as np

K1 = 1.2
"""How soon a repeated term stops counting; the usual value."""
B = 0.75
"""How much a long document is held against it; the usual value."""


class Bm25:
    """An index of documents given as terms; made once, asked often."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._size = len(documents)
        mean = sum(map(len, documents)) / self._size if self._size else 0.0
        postings: dict[str, dict[int, float]] = {}
        for number, terms in enumerate(documents):
            norm = K1 * (1 - B + B * len(terms) / mean) if mean else K1
            for term, count in Counter(terms).items():
                postings.setdefault(term, {})[number] = count * (K1 + 1) / (count + norm)
        self._postings = {term: (np.array([*held]), np.array([*held.values()])) for term, held in postings.items()}

    def scores(self, terms: Mapping[str, float]) -> dict[int, float]:
        """Document number -> score, for the documents that hold one of the terms; each term counts by its factor.

        idf = ln(1 + (N − n + 0.5) ÷ (n + 0.5)), the form that is never negative.
        """
        total = np.zeros(self._size)
        for term in filter(self._postings.__contains__, terms):
            holding, weights = self._postings[term]
            idf = log(1 + (self._size - len(holding) + 0.5) / (len(holding) + 0.5))
            total[holding] += terms[term] * idf * weights
        return {number: float(total[number]) for number in np.flatnonzero(total).tolist()}

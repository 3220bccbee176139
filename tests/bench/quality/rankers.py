"""Ways to rank memories for a question: the server's own, and plain ones to compare it with.

The server's use `nlp` and `memory_server.recall` as they are; nothing of them is repeated here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, groupby, pairwise
from math import log

import numpy as np
import numpy.typing as npt
from bench.quality.evaluation import DEPTH, Question, Unit, deciding, query_of, remembered, units_of

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.indexed_selection import Decision
from memory_server.conversations.recall.parameters import Parameters
from nlp import bare
from nlp.keywords import segment
from nlp.lexicon import STOP_WORDS

K1 = 1.2
"""How soon a repeated term stops counting; the usual value."""
B = 0.75
"""How much a long document counts less; the usual value."""
Floats = npt.NDArray[np.float64]
Ranking = Sequence[Sequence[Unit]]
"""Memories, best first; those that are equally good stand together."""

Judged = Sequence[tuple[float, Unit]]
"""Memories, best first, each with the points that are compared with a threshold."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """`judge` gives all memories that it can order. `give` gives those that it finds relevant; None: all of `judge`,
    where equal points are a tie, because their order is chance.

    What was said just before is in the context already: if it is a memory too, it does not take a place.
    """

    judge: Callable[[Question], Judged]
    give: Callable[[Question], Ranking] | None = None

    def given(self, question: Question) -> Ranking:
        """The memories that it gives; an empty ranking is an abstention."""
        just_said_ids = {turn.id for turn in question.before}
        ranking: Ranking
        if self.give is None:
            ranking = self._ties(question)
        else:
            ranking = self.give(question)
        tiers: list[list[Unit]] = []
        for tier in ranking:
            tiers.append([unit for unit in tier if not unit.holds(just_said_ids)])
        return list(filter(None, tiers))

    def judged(self, question: Question) -> Judged:
        """All memories that it can order."""
        just_said_ids = {turn.id for turn in question.before}
        return [
            (points, unit) for points, unit in self.judge(question) if not unit.holds(just_said_ids)
        ]

    def _ties(self, question: Question) -> Ranking:
        tiers: list[list[Unit]] = []
        for _, tier in groupby(self.judge(question), key=lambda scored: scored[0]):
            if sum(map(len, tiers)) >= DEPTH:
                break
            tiers.append([unit for _, unit in tier])
        return tiers


Maker = Callable[[Sequence[Unit]], Ranker]
"""Indexes the memories."""

Remember = Callable[[Unit], ShortTermMemory]

OURS = "search"
"""The ranker that the others are compared with: the server's own."""
BLIND = ("last", "random")
"""The rankers that do not look at the question."""


def points_of(decision: Decision) -> Floats:
    """The points that are compared with the threshold, row by row; -inf where no threshold lets a memory come."""
    if not decision.parameters.must_share:
        return decision.counted.relevance
    return np.where(decision.counted.match.shares, decision.counted.match.evidence, -np.inf)


def search(parameters: Parameters, remember: Remember, units: Sequence[Unit]) -> Ranker:
    """What the server does."""
    of_id = {unit.id: unit for unit in units}
    decided = deciding(parameters, {unit.id: remember(unit) for unit in units})

    def give(question: Question) -> Ranking:
        decision = decided(question)
        return [(of_id[decision.columns.memory(row).id],) for row in decision.order.chosen]

    def judge(question: Question) -> Judged:
        decision = decided(question)
        columns = decision.columns
        points = points_of(decision)
        rows = np.lexsort((-columns.times, -decision.counted.relevance))
        rows = rows[decision.counted.eligible[rows] & (points[rows] > -np.inf)]
        return [(float(points[row]), of_id[columns.memory(row).id]) for row in rows.tolist()]

    return Ranker(judge, give)


def by_session(make: Maker, sessions: Sequence[Unit]) -> Ranker:
    """Sessions, each ranked by its best memory; no threshold holds one back."""
    session_of: dict[str, Unit] = {}
    units: list[Unit] = []
    for session in sessions:
        for unit in units_of(session.turns):
            session_of[unit.id] = session
            units.append(unit)
    ranker = make(units)

    def judge(question: Question) -> Judged:
        best: dict[str, tuple[float, Unit]] = {}
        for points, unit in ranker.judge(question):
            session = session_of[unit.id]
            best.setdefault(session.id, (points, session))
        return list(best.values())

    return Ranker(judge, lambda question: [(session,) for _, session in judge(question)])


def by_scores(scores: Callable[[Question], Iterable[tuple[float, Unit]]]) -> Ranker:
    """The highest score first."""
    return Ranker(lambda question: sorted(scores(question), key=lambda scored: -scored[0]))


class Bm25:
    """Okapi BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009), the usual plain baseline.
    Documents are given as terms."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._size = len(documents)
        mean = sum(map(len, documents)) / max(1, self._size)
        postings: dict[str, dict[int, float]] = {}
        for number, terms in enumerate(documents):
            norm = K1
            if mean:
                norm = K1 * (1 - B + B * len(terms) / mean)
            for term, count in Counter(terms).items():
                postings.setdefault(term, {})[number] = count * (K1 + 1) / (count + norm)
        self._postings: dict[str, tuple[npt.NDArray[np.int_], Floats]] = {}
        for term, weights in postings.items():
            self._postings[term] = (np.array([*weights]), np.array([*weights.values()]))

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


def bm25(
    terms_of: Callable[[Unit], Sequence[str]],
    sought: Callable[[Question], Mapping[str, float]],
    units: Sequence[Unit],
) -> Ranker:
    """BM25 over the terms found in a unit and sought by a question."""
    index = Bm25([terms_of(unit) for unit in units])
    return by_scores(
        lambda question: (
            (s, units[number]) for number, s in index.scores(sought(question)).items()
        )
    )


def grep(units: Sequence[Unit]) -> Ranker:
    """The number of words of the question that stand somewhere in the text."""
    texts = [(text_of(unit).lower(), unit) for unit in units]

    def scores(question: Question) -> Iterable[tuple[float, Unit]]:
        sought = [
            word
            for word in dict.fromkeys(words(_text(question)))
            if len(word) > 1 and word not in STOP_WORDS
        ]
        scored: list[tuple[float, Unit]] = []
        for text, unit in texts:
            count = sum(word in text for word in sought)
            if count:
                scored.append((float(count), unit))
        return scored

    return by_scores(scores)


def makers(searches: Mapping[str, Parameters], *, sessions: bool = False) -> Mapping[str, Maker]:
    """By name: the server's search with the parameters of each of `searches`, one of which is OURS, and the baselines.
    With `sessions` the units are sessions."""
    remember: dict[str, Remember] = {}
    ours: dict[str, Maker] = {}
    for name, parameters in searches.items():
        remember[name] = cache(partial(remembered, parameters.wording))
        ours[name] = partial(search, parameters, remember[name])
        if sessions:
            ours[name] = partial(by_session, ours[name])

    def same_words(unit: Unit) -> Sequence[str]:
        parts = [replace(part, other_words=unit.other_words) for part in units_of(unit.turns)]
        words_of_parts = chain.from_iterable(remember[OURS](part).words for part in parts)
        return list(map(bare, words_of_parts))

    def same_terms(question: Question) -> Mapping[str, float]:
        query = query_of(question, searches[OURS].wording)
        return {word: sought.factor for word, sought in query.words.items()}

    def of_text(terms: Callable[[str], Sequence[str]]) -> Maker:
        return partial(
            bm25,
            lambda unit: terms(text_of(unit)),
            lambda question: dict.fromkeys(terms(_text(question)), 1.0),
        )

    return {
        **ours,
        "bm25 same words": partial(bm25, same_words, same_terms),
        "bm25 words": of_text(words),
        "bm25 bigrams": of_text(bigrams),
        "grep": grep,
        "last": lambda units: by_scores(lambda _: [(float(unit.time_ms), unit) for unit in units]),
        "random": lambda units: by_scores(lambda _: [(0.0, unit) for unit in units]),
    }


def words(text: str) -> list[str]:
    """The words of `text` in lower case, without white space and punctuation."""
    return [word.lower() for word in segment(text) if any(map(str.isalnum, word))]


def bigrams(text: str) -> list[str]:
    """Neighbouring characters of each run of letters and digits, in lower case; a lone character is itself."""
    runs: list[str] = re.findall(r"\w+", text.lower())
    pairs: list[str] = []
    for run in runs:
        if len(run) == 1:
            pairs.append(run)
        pairs.extend(map("".join, pairwise(run)))
    return pairs


def text_of(unit: Unit) -> str:
    """What was said, without who said it."""
    return "\n".join(turn.content for turn in unit.turns)


def _text(question: Question) -> str:
    return "\n".join(message.content for message in question.messages)

"""Receipts: what a memory shares with the query and what else it gained or lost, in points, and the line that says so.
Pure; `relevance.py` and `indexed_selection.py` count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from languages import _, joined
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.fusion import Nearness
from memory_server.kernel.times import DAY_MS
from memory_server.kernel.values import frozen
from nlp import QueryTerm, bare, is_kept

OVERVIEW_POINTS = 100.0
"""What a memory of an overview counts for the threshold: as much as a memory that shares several rare words. So a
threshold that nothing can reach silences overviews too."""
_PART_OF_CHANGE = 0.5
"""The part of a question that a word of change makes up: `moved`, if the question asks where a person lives."""
_MOST_NAMED = 3
"""Words of a kind that a line names."""


@frozen
class MatchedWord:
    """A term that the query and the memory share, with the weight it has in each, and the factor on both."""

    word: str
    query_weight: float
    memory_weight: float
    factor: float = 1.0
    telling: bool = True
    """Whether it is in the last message and is not a function word such as `what` or 我们."""
    last: bool = True
    """Whether it is in the last message."""
    part: bool = False
    """Whether it is a single character that is only a part of words of the messages."""
    when: bool = False
    """Whether it only says when: 今天, now."""
    asks: bool = False
    """Whether it only asks: what."""
    beside: bool = False
    """Whether the messages do not have it, and it was looked for beside their words."""
    other_word: int = 0
    """The number, from 1, of the caller's text that it is from; 0 if it is from a message."""
    kept: bool = False
    """Whether it is kept with the memory, and is not in its text."""

    @property
    def said(self) -> bool:
        """Whether both the messages and the text of the memory have it."""
        return not (self.beside or self.other_word or self.kept)

    def other(self, *, question: bool) -> int | str:
        """Return as which other word it counts for the threshold: the number of the text that the
        caller gave or, after a statement that says it, the word itself, which is kept with the
        memory. Falsy: it counts as a word of both, as does a word of a question that is kept with
        the memory: it is there to be asked by."""
        said_beside = self.kept and self.telling and not question
        return self.other_word or (self.word if said_beside else "")

    @property
    def incidental(self) -> bool:
        """Whether it occurs in sentences about anything, so that it is never enough alone."""
        return self.when or self.asks

    @property
    def tells_of_change(self) -> bool:
        """Whether people tell by it of a change in what is asked for: moved, where a question asks where one lives."""
        return self.beside and not self.asks

    @property
    def points(self) -> float:
        return self.factor * (self.query_weight + self.memory_weight)

    def text(self) -> str:
        """Return the word with its points, such as `猫 33.8+12.1`, or with a factor `猫
        0.30×(33.8+12.1)`; with its origin, unless both have it."""
        weights = f"{self.query_weight:.1f}+{self.memory_weight:.1f}"
        points = weights
        if self.factor != 1.0:
            points = f"{self.factor:.2f}×({weights})"
        if self.other_word and self.kept:
            return _(
                "{word} (given by the caller, kept with the memory) {points}", self.word, points
            )
        if self.other_word:
            return _("{word} (given by the caller) {points}", self.word, points)
        if self.kept:
            return _("{word} (kept with the memory) {points}", self.word, points)
        return f"{self.word} {points}"


_LEAST_PART_FACTOR = 0.9
"""The points of a memory that shares little of a question count so many times at least: one rare word of it may be all
that the one sentence has which answers it."""
# Chosen on development sets with words of writers who saw one side only.
_UNSAID_PART = 0.75
"""The part of its points that a word counts that neither the messages nor the memory have."""
_WORDS_TO_GO_BY = 3
"""The words of a statement that say something from which on a model has enough to go by. Nine of ten sentences of small
talk have fewer; of the remarks that a memory answers, one of twenty."""
_GUESSED_PART = 0.7
"""The part of their points that other words count after a shorter statement: small talk with wrong words brings something in
20 in place of 25 of 100 cases, and 16 without words. A lower part hides what a companion asks for with its own words."""


@frozen
class ThresholdRule:
    """How words that a memory and a query share count for the threshold. `Receipt` applies the rule to one memory, and
    `indexed_selection.py` to the terms of all memories at once.

    An *other word* (`MatchedWord.other`) gives only a part of its points; the rest are words of both, which may give
    all of them."""

    question: bool
    """Whether the query is a question; after a statement a word must say something to count."""
    words_needed: int
    """The different words of both that a memory must share."""
    others_needed: int
    """The different other words that are enough instead."""
    others_factor: float
    """The factor on the points of other words."""
    unsaid_counts: bool = False
    """Whether a word counts that neither the messages nor the memory have; else it only orders."""
    part_asked: float = 0.0
    """As in the parameters, after a question of several words that say something; else 0."""

    @classmethod
    def of(cls, query: RecallQuery, parameters: RecallParameters) -> ThresholdRule:
        """Return the rule for a query. After a question one word is enough, or one other word;
        after a statement the parameters say how many, and how much other words count."""
        if query.question:
            return cls(
                question=True,
                words_needed=1,
                others_needed=1,
                others_factor=parameters.other_words_asked,
                part_asked=parameters.part_asked if query.telling_words > 1 else 0.0,
            )

        # After a short statement, other words are guesses.
        is_long = query.telling_words >= _WORDS_TO_GO_BY
        factor = parameters.message_factor(query.telling_words)
        if not is_long:
            factor *= _GUESSED_PART
        return cls(
            question=False,
            words_needed=parameters.statement_words,
            others_needed=parameters.other_words_needed,
            others_factor=parameters.other_words_told * factor,
            unsaid_counts=is_long,
        )

    def other_of(self, word: MatchedWord) -> int | str:
        """Return as which other word a shared word counts for the threshold; falsy if it does not
        count. A word that was not said counts only after a longer statement, where several words must agree."""
        if word.kept and word.other_word and not self.unsaid_counts:
            return ""
        return word.other(question=self.question)

    def part_of(self, word: MatchedWord) -> float:
        """Return the part of its points that an other word counts."""
        return _UNSAID_PART if word.other_word and word.kept else 1.0

    def part_factor(self, part: Any) -> Any:
        """Return the factor on the points of a memory that shares this part of the query: a number, or a column."""
        if not self.part_asked:
            return 1.0
        factor = self.part_asked * (1.0 + part)
        return factor + (_LEAST_PART_FACTOR - factor) * (factor < _LEAST_PART_FACTOR)

    def is_needed(self, word: MatchedWord) -> bool:
        """Return whether a shared word counts among the words that a memory must share."""
        if self.question:
            says_enough = word.last and not word.incidental
        else:
            # Where several words are needed, a character of a word that is shared is not another one.
            says_enough = word.telling and (self.words_needed == 1 or len(word.word) > 1)
        return says_enough and not word.other(question=self.question)

    def is_evidence(self, word: MatchedWord) -> bool:
        """Return whether all points of a shared word count: it is a word of both, and after a statement it says
        something."""
        counts = not word.incidental if self.question else word.telling
        return counts and not word.other(question=self.question)

    def share_of_others(self, count: Any) -> Any:
        """Return the share of their points that so many different other words give; `count` is a number, or a column
        with a number for each memory. A single word counts half, and several that agree count nearly whole."""
        return self.others_factor * count / (count + 1)


@frozen
class Receipt:
    """Why a memory has its relevance: `match + around + span + cue − decay + score`. `around` has points from its
    episode; `span` points for a time that the query names; `cue` points for the kind of answer that the query asks
    for, below 0 if it only asks the same. `nearness`: its place by meaning, where there are vectors."""

    matched: tuple[MatchedWord, ...]
    decay: float
    age_ms: int
    score: float
    around: float = 0.0
    span: float = 0.0
    cue: float = 0.0
    nearness: Nearness | None = None
    part: float = 0.0
    """The part of a question that it shares: from 0 to 1, by the points of the words."""
    overview: bool = False
    """Whether an overview was asked for, so that nothing need be shared."""

    def shares(self, query: RecallQuery, parameters: RecallParameters) -> bool:
        """Return whether something of the last message is shared that is not incidental: after a statement, words
        that are not function words. An overview needs nothing, and several other words are enough."""
        rule = ThresholdRule.of(query, parameters)
        if self.overview or self._count_others(rule) >= rule.others_needed:
            return True
        if query.question and self._in_named_time(query):
            return True
        needed_words = {word.word: word for word in self.matched if rule.is_needed(word)}
        parts = sum(word.part for word in needed_words.values())
        # A single character of a word is in many other words; two of them may be another form of it.
        return len(needed_words) >= rule.words_needed + (0 < parts == len(needed_words))

    def evidence(self, query: RecallQuery, parameters: RecallParameters) -> float:
        """Return the points that are compared with the threshold. What is incidental (今天, now) does not count. After
        a statement only words of the last message that say something count, because a person goes on talking about
        many things. Of n different other words (see `ThresholdRule`) `others_factor` times n/(n + 1) of their
        points count. An overview has fixed points."""
        if self.overview:
            return OVERVIEW_POINTS
        if not parameters.must_share:
            return self.shared

        rule = ThresholdRule.of(query, parameters)
        both_points = 0.0
        other_points = 0.0
        for word in self.matched:
            if rule.other_of(word):
                other_points += word.points * rule.part_of(word)
            elif rule.is_evidence(word):
                both_points += word.points

        share_of_others: float = rule.share_of_others(self._count_others(rule))
        other_points *= share_of_others
        if not query.question:
            return both_points + other_points

        factor: float = rule.part_factor(self.part)
        evidence = (both_points + self.around) * factor + other_points
        if query.names_time:
            evidence += self.span
        return evidence

    def _count_others(self, rule: ThresholdRule) -> int:
        """Count the different other words that it shares."""
        others = {rule.other_of(word) for word in self.matched}
        return len(others - {""})

    def counted(self, query: RecallQuery, parameters: RecallParameters) -> float:
        """Return the points that are compared with the shown threshold: in the Node original the relevance."""
        if parameters.least_match:
            return self.evidence(query, parameters)
        return self.relevance

    @property
    def words_shared(self) -> tuple[MatchedWord, ...]:
        """The words that both the messages and the text of the memory have."""
        return tuple(word for word in self.matched if word.said)

    @property
    def words_beside(self) -> tuple[MatchedWord, ...]:
        """The words of the memory that the messages do not have, and that were looked for too."""
        return tuple(word for word in self.matched if word.beside)

    @property
    def other_words(self) -> tuple[MatchedWord, ...]:
        """The words of the memory that the caller gave, and that the messages do not have."""
        return tuple(word for word in self.matched if word.other_word)

    @property
    def words_kept(self) -> tuple[MatchedWord, ...]:
        """The words of the messages that are kept with the memory, and that its text does not have."""
        return tuple(word for word in self.matched if word.kept and not word.other_word)

    @property
    def shared(self) -> float:
        """The points of what it shares with the query: words, its episode, its time."""
        return self.match + self.around + self.span

    def shares_any(self, query: RecallQuery) -> bool:
        """Return whether it shares any word with the query that does not only say when, or the time that the query
        names."""
        return (
            self.overview
            or self._in_named_time(query)
            or any(not word.when for word in self.matched)
        )

    def _in_named_time(self, query: RecallQuery) -> bool:
        return query.names_time and self.span > 0.0

    @property
    def match(self) -> float:
        return sum(word.points for word in self.matched)

    @property
    def relevance(self) -> float:
        return self.match + self.around + self.span + self.cue - self.decay + self.score

    @property
    def relevance_counted(self) -> float:
        """The relevance that the threshold is for: without what orders the candidates."""
        return self.relevance - self.cue

    def line(self, spelt: Callable[[str], str] = str) -> str:
        """Return one short line for people. It has the heaviest shared words, `spelt`, with both weights,
        what else gave points, decay with age, and score."""
        heaviest = sorted(self.words_shared, key=lambda word: -word.points)
        words = ", ".join(_first_texts(heaviest, spelt))
        if len(heaviest) > _MOST_NAMED:
            words += _(" and {names} more", len(heaviest) - _MOST_NAMED)

        # Other words were not said in both texts, so they come after the shared ones.
        others = sorted((*self.other_words, *self.words_kept), key=lambda word: -word.points)
        if others:
            words = joined(", ", filter(None, (words, *_first_texts(others, spelt))))
        if self.words_beside:
            beside = joined(", ", _first_texts(self.words_beside, spelt))
            words = joined("; ", filter(None, (words, _("looked for too: {words}", beside))))

        if not words:
            words = _("part of an overview") if self.overview else _("no shared word")
        around = span = cue = ""
        if self.around:
            around = _("; +{around:.1f} from what was said around it", self.around)
        if self.span:
            span = _("; +{span:.1f} for its time", self.span)
        if self.cue > 0.0:
            cue = _("; +{cue:.1f} for what is asked", self.cue)
        elif self.cue < 0.0:
            cue = _("; -{cue:.1f} because it only asks the same", -self.cue)

        points = _(
            "{around}{span}{cue}; -{decay:.1f} for {age}; +{score:g} score",
            around,
            span,
            cue,
            self.decay,
            age_text(self.age_ms),
            self.score,
        )
        if self.nearness is not None:
            points = joined("; ", (points, meaning_text(self.nearness)))
        return words + points


def matched_word(
    term: str, query_term: QueryTerm, *, factor: float, memory_weight: float = 0.0
) -> MatchedWord:
    """Return a term of a query with what the query knows about it, its factor, and its weight in a
    memory."""
    return MatchedWord(
        bare(term),
        query_weight=query_term.weight,
        memory_weight=memory_weight,
        factor=factor,
        telling=query_term.telling,
        last=query_term.last,
        part=query_term.part,
        when=query_term.when,
        asks=query_term.asks,
        beside=query_term.beside,
        other_word=query_term.other_word,
        kept=is_kept(term),
    )


def parts_asked(terms: Iterable[MatchedWord]) -> dict[str, float]:
    """Return the share, from 0 to 1, of each word in the points of a question. Words that the caller gives and
    incidental words are left out; a word that tells of a change counts as half of what is asked."""
    points: dict[str, float] = {}
    parts: dict[str, float] = {}
    for term in terms:
        if term.tells_of_change:
            parts[term.word] = _PART_OF_CHANGE
        elif term.said and not term.incidental:
            points[term.word] = max(points.get(term.word, 0.0), term.factor * term.query_weight)
    whole = sum(points.values()) or 1.0
    for word, word_points in points.items():
        parts[word] = max(parts.get(word, 0.0), word_points / whole)
    return parts


def _first_texts(words: Sequence[MatchedWord], spelt: Callable[[str], str]) -> list[str]:
    """Return the texts of the first of these words, `spelt`."""
    return [replace(word, word=spelt(word.word)).text() for word in words[:_MOST_NAMED]]


def meaning_text(nearness: Nearness) -> str:
    """Return how near a memory is, such as `meaning 0.62, rank 1; words, rank 4`; a rank that is
    not known is left out."""
    by_meaning = by_words = ""
    if nearness.rank is not None:
        by_meaning = _(", rank {rank}", nearness.rank)
    if nearness.word_rank is not None:
        by_words = _("; words, rank {word_rank}", nearness.word_rank)
    return _("meaning {cosine:.2f}{by_meaning}{by_words}", nearness.cosine, by_meaning, by_words)


def age_text(age_ms: int) -> str:
    """Write an age for people: `5 min`, `3 h`, `12 days`."""
    minutes = age_ms / 60_000
    if minutes < 60:
        return _("{minutes:.0f} min", minutes)
    if minutes < 48 * 60:
        return _("{minutes:.0f} h", minutes / 60)
    return _("{age:.0f} days", age_ms / DAY_MS)

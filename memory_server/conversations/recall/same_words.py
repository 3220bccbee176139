"""The newer one of two facts with the same words comes first, however often the older one was recalled. Pure.

"My phone number is 0660 111 222" was recalled three times, and so has points that "My phone number is 0699 333 444",
which was said later, cannot have yet. What a question reinforces is meant for all that say the same: so the newer one
gets the points that it lacks. Whether a fact replaced another one is not guessed: both come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from memory_server.conversations.recall.receipts import MatchedWord
from nlp import is_incidental, is_kept, is_speaker, says_little

LOOKED_AT = 16
"""Candidates, best first, among which facts with the same words are looked for: three times the places there are."""
SAME_MATCH = 0.8
"""The least share of the older one's match that the newer one has: it says the same, and not only one of its words."""

SHORT_FACT = 1 / 3
"""The least share of its own words that a fact shares with the question: a longer text says other things too, and that
it was recalled may be for these. Without this bound a year of LoCoMo's development part lost .056 of R@3."""


class Standing(NamedTuple):
    """What orders a candidate: when it was said (milliseconds since 1970), its points for shared words, those for
    having been recalled, and all its points."""

    time_ms: int
    match: float
    score: float
    relevance: float


class Lent(NamedTuple):
    """The points that a newer candidate lacks beside an older one, and the number of that one."""

    points: float
    older: int


def telling_words(matched: Iterable[MatchedWord], words: Iterable[str]) -> frozenset[str]:
    """The words that a candidate shares with the query and that say something, if it says little else; else none.
    `words`: all of its own."""
    shared = frozenset(word.word for word in matched if word.telling and word.said)
    own = {word for word in words if says_something(word) and not any(map(str.isdigit, word))}
    if len(shared & own) < SHORT_FACT * len(own):
        return frozenset()
    return shared


def says_something(word: str) -> bool:
    """Whether a word of a memory says something by itself: it is no function word, not incidental, no speaker, and is
    not only kept with the memory."""
    return not (says_little(word) or is_incidental(word) or is_speaker(word) or is_kept(word))


def lent_points(
    standings: Sequence[Standing], words_of: Callable[[int], frozenset[str]]
) -> dict[int, Lent]:
    """By the number of each candidate that gets points. `words_of`: its `telling_words`; it is asked only of those that
    may get or lend some."""
    telling = cache(words_of)
    lent: dict[int, Lent] = {}
    for newer_number, newer in enumerate(standings):
        most = 0.0
        for older_number, older in enumerate(standings):
            lacking = older.relevance - newer.relevance
            if lacking <= most or not _may_borrow(newer, older):
                continue
            if telling(newer_number) and telling(newer_number) == telling(older_number):
                lent[newer_number] = Lent(lacking, older_number)
                most = lacking
    return lent


def _may_borrow(newer: Standing, older: Standing) -> bool:
    """Whether one was said after the other, matches as well, and was recalled less."""
    matches_as_well = newer.match >= SAME_MATCH * older.match > 0.0
    return newer.time_ms > older.time_ms and matches_as_well and older.score > newer.score

"""The order of what was found, and why it was found. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from languages import N_, _
from languages import joined as listed
from memory_server.kernel.fusion import fused
from memory_server.kernel.items import Scope
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge.entry import Hit, Query, Share
from nlp.index_terms import IndexTerm, other_terms, sought_in

LEAST_SHARE = 0.3
"""Hits with a smaller share of the best score are left off: MemoryBank loses no answer by it, and 4 instead of 9 hits
are shown."""
RERANKED = 50
"""The number of best hits whose order the number of uses may change."""
MOST_BOOST = 0.3
"""What uses add to a relevance at most: a note that is used often rises, by at most a third of the best relevance."""
BOOST = 0.1
"""What each step of the logarithm of the uses adds."""


def by_relevance(hits: Iterable[Hit], *, boosted: bool = False) -> list[Hit]:
    """Return hits with score and reason. `boosted` hits are ordered by relevance and uses: relevance + min(0.3, 0.1 ·
    ln(1 + uses)). Ties keep their order, and hits that only other words find stay behind the others."""
    ranked = []
    for hit in hits:
        boost = _boost_of(hit) if boosted else 0.0
        boost_text = ""
        if boost >= 0.005:
            boost_text = _(", used often +{boost:.2f}", boost)
        why = _("{why}, relevance {relevance:.2f}{boost}", why_of(hit), hit.relevance, boost_text)
        ranked.append(replace(hit, score=hit.relevance + boost, why=why))
    return sorted(ranked, key=lambda hit: (hit.by_other_words, -hit.score))


def _boost_of(hit: Hit) -> float:
    return min(MOST_BOOST, BOOST * math.log1p(hit.entry.uses))


def why_of(hit: Hit, title: str = "") -> str:
    """Return the matched words by field, the words of the query first: `数据库 in title and content; 披萨 (given by the
    caller) in content`. Overlapping pairs are joined again."""
    names = {"title": title or _("title"), "tags": _("tags"), "body": _("content")}
    own_words = _words_by_fields(hit.matched, names)
    reasons = [_("{words} in {where}", own.words, own.fields) for own in own_words]
    if not reasons and not hit.by_other_words:
        reasons.append(_("its text holds the query as it is"))
    other_words = _words_by_fields(hit.other_matched, names)
    reasons += [
        _("{words} (given by the caller) in {where}", group.words, group.fields)
        for group in other_words
    ]
    return listed("; ", reasons)


@frozen
class _MatchedWords:
    """Words that are in the same fields, as a reader sees them."""

    words: str
    fields: str


def _words_by_fields(
    matched: Mapping[str, Sequence[str]], names: Mapping[str, str]
) -> list[_MatchedWords]:
    """Return the matched words, grouped by the fields that they are in, with the names of these
    fields."""
    fields_of_word: dict[str, list[str]] = {}
    for field, words in matched.items():
        for word in joined(words):
            fields_of_word.setdefault(word, []).append(names[field])
    words_of_fields: dict[tuple[str, ...], list[str]] = {}
    for word, fields in fields_of_word.items():
        words_of_fields.setdefault(tuple(fields), []).append(word)
    return [
        _MatchedWords(", ".join(words), listed(" and ", fields))
        for fields, words in words_of_fields.items()
    ]


def joined(words: Sequence[str]) -> list[str]:
    """Return the words of a query, with neighbouring pairs as one word: 数据, 据库 is 数据库."""
    joined_words: list[str] = []
    for word in words:
        if joined_words and _goes_on(joined_words[-1], word):
            joined_words[-1] += word[1]
        else:
            joined_words.append(word)
    return joined_words


def _goes_on(former: str, word: str) -> bool:
    """Return whether a word is a pair of characters that overlaps with the end of the former word."""
    is_pair = len(word) == 2 and not word.isascii()
    return is_pair and former[-1] == word[0]


FIRST_IN_BOTH = 30.5
"""The factor by which the score of `fused` is 1 for what is first in both rankings."""


def by_meaning(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits whose relevance is a cosine, with score and reason."""
    return [replace(hit, score=hit.relevance, why=f"meaning {hit.relevance:.2f}") for hit in hits]


def by_ranks(word_hits: Sequence[Hit], meaning_hits: Sequence[Hit]) -> list[Hit]:
    """Join hits by words and hits by meaning, both best first with their reasons, into a list by their ranks in both. A
    hit in both lists is the hit by words, with both reasons. Scores are at most 1."""
    reasons: dict[int, list[str]] = {}
    for ranking in (word_hits, meaning_hits):
        for rank, hit in enumerate(ranking, 1):
            reasons.setdefault(hit.entry.id, []).append(_("{why}, rank {rank}", hit.why, rank))
    # The hits by words come last, so that they take the place of hits by meaning.
    hits_by_id = {hit.entry.id: hit for hit in (*meaning_hits, *word_hits)}
    scores = fused([hit.entry.id for hit in word_hits], [hit.entry.id for hit in meaning_hits])
    hits = []
    for entry_id, score in scores.items():
        why = listed("; ", reasons[entry_id])
        hits.append(replace(hits_by_id[entry_id], score=score * FIRST_IN_BOTH, why=why))
    return sorted(hits, key=lambda hit: -hit.score)


# What each part adds to the score of a reference at most (seed 004, "Scoring Formula").
SUMMARY_WEIGHT = 0.40
CONTENT_WEIGHT = 0.25
TAG_WEIGHT = 0.20
IMPORTANCE_WEIGHT = 0.05
RECENCY = 0.10
"""What a new reference has more (seed 004)."""
RECENCY_PER_HOUR = 0.001
"""What it loses of that in an hour (seed 004; its code has the loss)."""


def reference_parts(
    share: Share,
    terms: int,
    now_ms: int,
    *,
    first_other: int | None = None,
    others_factor: float = 0.0,
) -> dict[str, float]:
    """Return the parts of a reference's score for a query of `terms` terms; the score is their sum, at most 1. The bits
    of other words begin with `first_other`: n of them in a field add `others_factor` · n/(n + 1) of it."""
    hours = max(0, now_ms - share.created_ms) / 3_600_000

    def share_held(bits: int) -> float:
        others = 0 if first_other is None else (bits >> first_other).bit_count()
        own = bits.bit_count() - others
        return own / terms + others_factor * others / (others + 1)

    return {
        N_("summary"): share_held(share.title) * SUMMARY_WEIGHT,
        N_("content"): share_held(share.body) * CONTENT_WEIGHT,
        N_("tags"): share_held(share.tags) * TAG_WEIGHT,
        N_("recency"): max(0.0, RECENCY - RECENCY_PER_HOUR * hours),
        N_("importance"): IMPORTANCE_WEIGHT * (share.importance or 0.0),
    }


@frozen
class ScoredRef:
    """A ref that a search brings. `parts`: the parts of its score, by name. `by_other_words`: the query alone does
    not find it."""

    share: Share
    scope: Scope
    parts: Mapping[str, float]
    by_other_words: bool

    @property
    def score(self) -> float:
        """At most 1."""
        return min(1.0, sum(self.parts.values()))


@dataclass(frozen=True)
class RefScorer:
    """The scoring of refs for a query, of which `counted` terms count. A ref with a score below `least` is not
    found."""

    query: Query
    counted: int
    now_ms: int
    least: float

    @cached_property
    def others(self) -> tuple[IndexTerm, ...]:
        """The terms of the other words."""
        return other_terms(self.query.other_words, sought_in(self.query.text))

    @cached_property
    def first_other(self) -> int:
        """The number of the first bit of a share for other words. A text without terms counts as a single term."""
        return max(1, len(sought_in(self.query.text)))

    def scored(self, share: Share, scope: Scope) -> ScoredRef | None:
        """Return the ref with its score, or None if it is not found. Other words find what they would find as words of
        the query, but they count less in its score."""
        parts = self._parts(share, OTHER_WORDS_FACTOR)
        if self._is_found(share, 0.0):
            return ScoredRef(share, scope, parts, by_other_words=False)
        if self._is_found(share, 1.0):
            return ScoredRef(share, scope, parts, by_other_words=True)
        return None

    def _is_found(self, share: Share, others_factor: float) -> bool:
        return min(1.0, sum(self._parts(share, others_factor).values())) >= self.least

    def _parts(self, share: Share, others_factor: float) -> dict[str, float]:
        """Return the parts of a ref's score, with this factor on what other words add."""
        return reference_parts(
            share,
            self.counted,
            self.now_ms,
            first_other=self.first_other,
            others_factor=others_factor,
        )


def best_first(refs: Sequence[ScoredRef]) -> list[ScoredRef]:
    """Order the refs. The scores of refs that only other words find are at most the least score of the others."""
    by_query = [ref for ref in refs if not ref.by_other_words]
    by_others = [ref for ref in refs if ref.by_other_words]
    scale = scale_of_others([ref.score for ref in by_query], [ref.score for ref in by_others])
    if scale < 1.0:
        by_others = [_scaled(ref, scale) for ref in by_others]
    return sorted(by_query, key=_order) + sorted(by_others, key=_order)


def _scaled(ref: ScoredRef, factor: float) -> ScoredRef:
    return replace(ref, parts={name: part * factor for name, part in ref.parts.items()})


def _order(ref: ScoredRef) -> tuple[float, int, int]:
    return -ref.score, -ref.share.created_ms, -ref.share.id


def words_held(
    share: Share, terms: Sequence[IndexTerm], first: int = 0
) -> dict[str, tuple[str, ...]]:
    """Return the words of these terms that each field holds. `first` is the bit of the first term."""
    bits_by_field = {"title": share.title, "tags": share.tags, "body": share.body}
    words_by_field: dict[str, tuple[str, ...]] = {}
    for field_name, bits in bits_by_field.items():
        words = _words_of(bits >> first, terms)
        if words:
            words_by_field[field_name] = words
    return words_by_field


def _words_of(bits: int, terms: Sequence[IndexTerm]) -> tuple[str, ...]:
    return tuple(term.word for number, term in enumerate(terms) if bits >> number & 1)


# --- matches by words -----------------------------------------------------------------------------

OTHER_WORDS_FACTOR = 0.3
"""The weight of other words, as a share of the weight of the query's words. After a question in a search of memories
the share is the same (the setting `words.other_words_for_question`)."""


@frozen
class Match:
    """An entry that holds terms. `points`: more are better. `hidden`: why it does not come all the same; empty: it
    may."""

    id: int
    points: float
    hidden: str = ""


@frozen
class RankedEntry:
    """An entry that comes. `by_other_words`: the query alone does not find it."""

    id: int
    relevance: float
    by_other_words: bool = False


@frozen
class Ranking:
    """Entries, best first, and how many more matched, by the reason why they do not come."""

    entries: tuple[RankedEntry, ...]
    left_off: Counter[str]


def ranking_of(own: Sequence[Match], other: Sequence[Match], least_share: float) -> Ranking:
    """Order the entries that match the words of a query (`own`) and `other` words, each best first. An entry comes if
    the query or the other words give it at least `least_share` of the most points that they give to any entry."""
    own_points = _points(own)
    other_points = _points(other)

    by_query = _above_share(own_points, least_share)
    query_ids = set(by_query)
    by_others = [
        entry_id
        for entry_id in _above_share(other_points, least_share)
        if entry_id not in query_ids
    ]

    def total(entry_id: int) -> float:
        return own_points.get(entry_id, 0.0) + OTHER_WORDS_FACTOR * other_points.get(entry_id, 0.0)

    # What the query finds comes first, whatever points other words give.
    by_query.sort(key=total, reverse=True)
    by_others.sort(key=total, reverse=True)
    ranked = _ranked(
        [_Total(entry_id, total(entry_id)) for entry_id in by_query],
        [_Total(entry_id, total(entry_id)) for entry_id in by_others],
    )

    hidden = {match.id: match.hidden for match in (*other, *own) if match.hidden}
    matched = len(own_points.keys() | other_points.keys())
    weaker = matched - len(by_query) - len(by_others)
    left_off = Counter(hidden.values()) + Counter(weaker=weaker)
    return Ranking(ranked, left_off)


def _points(matches: Sequence[Match]) -> dict[int, float]:
    return {match.id: match.points for match in matches if not match.hidden}


def _above_share(points: Mapping[int, float], least_share: float) -> list[int]:
    """Return the entries that have at least this share of the most points of an entry."""
    best = max(points.values(), default=0.0)
    return [
        entry_id for entry_id, entry_points in points.items() if entry_points / best >= least_share
    ]


class _Total(NamedTuple):
    """The points of an entry by the query and by other words."""

    id: int
    points: float


def _ranked(by_query: Sequence[_Total], by_others: Sequence[_Total]) -> tuple[RankedEntry, ...]:
    """Return the entries with their relevance, which is their share of the most points. Entries that only other words
    find have at most the relevance of the last entry that the query finds, and at most `OTHER_WORDS_FACTOR` if the
    query finds nothing."""
    scale = scale_of_others(
        [total.points for total in by_query], [total.points for total in by_others]
    )
    if by_query:
        most = by_query[0].points
    elif by_others:
        most = by_others[0].points / OTHER_WORDS_FACTOR
    else:
        return ()
    first = [RankedEntry(total.id, total.points / most) for total in by_query]
    last = [
        RankedEntry(total.id, total.points * scale / most, by_other_words=True)
        for total in by_others
    ]
    return *first, *last


def scale_of_others(scores: Sequence[float], other_scores: Sequence[float]) -> float:
    """Return the factor that lowers the scores of what only other words find to at most the least score of the others;
    1 if they are already as low."""
    if not (scores and other_scores):
        return 1.0
    return min(1.0, min(scores) / max(other_scores))

"""The order of what was found, and why it was found. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from languages import N_, _
from languages import joined as listed
from memory_server.kernel.fusion import fused
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Hit, Share

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


@dataclass(frozen=True, slots=True)
class _MatchedWords:
    """Words that are in the same fields, as a reader sees them."""

    words: str
    fields: str


def _words_by_fields(
    matched: Mapping[str, Sequence[str]], names: Mapping[str, str]
) -> list[_MatchedWords]:
    """Group matched words that are in the same fields, and name these fields."""
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

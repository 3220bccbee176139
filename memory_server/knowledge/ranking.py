"""The order of what was found, and why it was found. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from memory_server.kernel.fusion import fused
from memory_server.knowledge.entry import Hit, Share
from sandbox.locale import N_, _
from sandbox.locale import joined as listed

LEAST_SHARE = 0.3
"""Hits with a smaller share of the best score are left off: MemoryBank loses no answer by it, and 4 instead of 9 hits
are shown."""
RERANKED = 50
"""The best hits that uses may reorder."""
MOST_BOOST, BOOST = 0.3, 0.1
"""A note that is used often rises, by at most a third of the best relevance."""


def by_relevance(hits: Iterable[Hit], *, boosted: bool = False) -> list[Hit]:
    """Hits with score and reason. `boosted`: by relevance and how often they were used, which is relevance + min(0.3,
    0.1 · ln(1 + uses)). Ties keep their order, and what only other words find stays behind what the query finds."""
    ranked = []
    for hit in hits:
        boost = min(MOST_BOOST, BOOST * math.log1p(hit.entry.uses)) if boosted else 0.0
        why = _(
            "{why}, relevance {relevance:.2f}{boost}",
            why_of(hit),
            hit.relevance,
            _(", used often +{boost:.2f}", boost) if boost >= 0.005 else "",
        )
        ranked.append(replace(hit, score=hit.relevance + boost, why=why))
    return sorted(ranked, key=lambda hit: (hit.by_other_words, -hit.score))


def why_of(hit: Hit, title: str = _("title")) -> str:
    """The matched words by field, those of the query first: `数据库 in title and content; 披萨 (given by the caller) in
    content`. Overlapping pairs are joined again."""
    names = {"title": title, "tags": _("tags"), "body": _("content")}
    said = [_("{words} in {where}", words, where) for words, where in _places(hit.matched, names)]
    if not said and not hit.by_other_words:
        said = [_("its text holds the query as it is")]
    others = _places(hit.other_matched, names)
    given = [_("{words} (given by the caller) in {where}", words, where) for words, where in others]
    return listed("; ", said + given)


def _places(matched: Mapping[str, Sequence[str]], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Matched words that are in the same fields, and what these fields are called."""
    fields: dict[str, list[str]] = {}
    for field, words in matched.items():
        for word in joined(words):
            fields.setdefault(word, []).append(names[field])
    places: dict[tuple[str, ...], list[str]] = {}
    for word, found_in in fields.items():
        places.setdefault(tuple(found_in), []).append(word)
    return [(", ".join(words), listed(" and ", where)) for where, words in places.items()]


def joined(words: Sequence[str]) -> list[str]:
    """Words of a query, with neighbouring pairs as one word: 数据, 据库 is 数据库."""
    whole: list[str] = []
    for word in words:
        if whole and len(word) == 2 and not word.isascii() and whole[-1][-1] == word[0]:
            whole[-1] += word[1]
        else:
            whole.append(word)
    return whole


FIRST_IN_BOTH = 30.5
"""Times this, the score of `fused` is 1 for what is first in both rankings."""


def by_meaning(hits: Iterable[Hit]) -> list[Hit]:
    """Hits whose relevance is a cosine, with score and reason."""
    return [replace(hit, score=hit.relevance, why=f"meaning {hit.relevance:.2f}") for hit in hits]


def by_ranks(worded: Sequence[Hit], near: Sequence[Hit]) -> list[Hit]:
    """Hits by words and hits by meaning, both best first with their reasons, as one list by their ranks in both."""
    why: dict[int, list[str]] = {}
    for hits in (worded, near):
        for rank, hit in enumerate(hits, 1):
            why.setdefault(hit.entry.id, []).append(_("{why}, rank {rank}", hit.why, rank))
    of_id = {hit.entry.id: hit for hit in (*near, *worded)}
    scores = fused([hit.entry.id for hit in worded], [hit.entry.id for hit in near])
    both = [replace(of_id[id], score=score * FIRST_IN_BOTH, why=listed("; ", why[id])) for id, score in scores.items()]
    return sorted(both, key=lambda each: -each.score)


SUMMARY_WEIGHT, CONTENT_WEIGHT, TAG_WEIGHT, IMPORTANCE_WEIGHT = 0.40, 0.25, 0.20, 0.05
"""What each part adds to the score of a reference at most (seed 004, "Scoring Formula")."""
RECENCY, RECENCY_PER_HOUR = 0.10, 0.001
"""What a new reference has more, and what it loses of that in an hour (seed 004; its code has the loss)."""


def reference_parts(
    share: Share, terms: int, now_ms: int, *, first_other: int | None = None, others_factor: float = 0.0
) -> dict[str, float]:
    """The parts of a reference's score, for a query of `terms` terms; the score is their sum, at most 1. Of other
    words, whose bits begin with `first_other`, n in a field count `others_factor` · n/(n + 1) of it."""
    hours = max(0, now_ms - share.created_ms) / 3_600_000

    def held(bits: int) -> float:
        others = 0 if first_other is None else (bits >> first_other).bit_count()
        own = bits.bit_count() - others
        return own / terms + others_factor * others / (others + 1)

    return {
        N_("summary"): held(share.title) * SUMMARY_WEIGHT,
        N_("content"): held(share.body) * CONTENT_WEIGHT,
        N_("tags"): held(share.tags) * TAG_WEIGHT,
        N_("recency"): max(0.0, RECENCY - RECENCY_PER_HOUR * hours),
        N_("importance"): IMPORTANCE_WEIGHT * (share.importance or 0.0),
    }
